//! Class descriptors: what they say, and when they may be used.

use super::{Handle, Reader, StreamError};
use crate::java::{
    graph::{ClassDesc, ClassId, Datum, Field, FieldType},
    tag::Tag,
};

// === impl Reader ===

impl Reader<'_> {
    /// The descriptor of something that is about to be read.
    pub(super) fn class_in_use(&mut self) -> Result<ClassId, StreamError> {
        let class = self.deeper(Self::class_desc)?;
        class.ok_or_else(|| self.malformed("something without a class"))
    }

    /// A descriptor, a reference to one, or null.
    pub(super) fn class_desc(&mut self) -> Result<Option<ClassId>, StreamError> {
        let tag = self.peek()?;
        match tag {
            Tag::Null => {
                self.at += 1;
                Ok(None)
            }
            Tag::Reference => {
                self.at += 1;
                let Handle::Class(id) = self.handle()? else {
                    return Err(self.malformed("a reference to something that is no class"));
                };
                let at = usize::try_from(id.0).unwrap_or(usize::MAX);
                if self.complete.get(at) != Some(&true) {
                    // A class above itself would have no top.
                    return Err(self.malformed("a class that is used before it is complete"));
                }
                Ok(Some(id))
            }
            Tag::ClassDesc => {
                self.at += 1;
                self.new_class().map(Some)
            }
            Tag::Object
            | Tag::String
            | Tag::Array
            | Tag::Class
            | Tag::BlockData
            | Tag::EndBlockData
            | Tag::Reset
            | Tag::BlockDataLong
            | Tag::Exception
            | Tag::LongString
            | Tag::ProxyClassDesc
            | Tag::Enum => Err(self.malformed("no class where one is needed")),
        }
    }

    fn new_class(&mut self) -> Result<ClassId, StreamError> {
        let name = self.short_text()?;
        let suid = self.i64()?;
        self.pay(1)?;
        let number = u32::try_from(self.classes.len());
        let id = ClassId(number.map_err(|_ignored| self.limit("classes", self.limits.slots))?);
        let place = self.classes.len();
        self.classes.push(ClassDesc {
            name,
            suid,
            flags: 0,
            fields: Vec::new(),
            annotation: Vec::new(),
            parent: None,
        });
        self.complete.push(false);
        self.handles.push(Handle::Class(id));
        let flags = self.u8()?;
        let count = usize::from(self.u16()?);
        self.pay(count)?;
        let mut fields = Vec::new();
        for _ in 0..count {
            fields.push(self.field()?);
        }
        let annotation = self.annotation()?;
        let parent = self.deeper(Self::class_desc)?;
        if let (Some(class), Some(done)) =
            (self.classes.get_mut(place), self.complete.get_mut(place))
        {
            class.flags = flags;
            class.fields = fields;
            class.annotation = annotation;
            class.parent = parent;
            *done = true;
        }
        Ok(id)
    }

    fn field(&mut self) -> Result<Field, StreamError> {
        let code = self.u8()?;
        let kind =
            FieldType::from_code(code).ok_or_else(|| self.malformed("a field of no known type"))?;
        let name = self.short_text()?;
        if kind.width().is_some() {
            let signature = None;
            return Ok(Field {
                name,
                kind,
                signature,
            });
        }
        let Datum::Node(signature) = self.datum()? else {
            return Err(self.malformed("a field without a type"));
        };
        if !self.is_string(signature) {
            return Err(self.malformed("a field without a type"));
        }
        let signature = Some(signature);
        Ok(Field {
            name,
            kind,
            signature,
        })
    }
}
