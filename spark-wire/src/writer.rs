//! Lays a [`Value`] out as a Java stream, by a dictionary.

mod collections;

use std::collections::{BTreeMap, HashMap};

use crate::{
    dictionary::{ClassInfo, Dictionary, FieldInfo},
    java::{EmitError, Emitter, FieldType, GraphEmitter, Tag},
    value::Value,
};

/// Why a value cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The dictionary lacks a class.
    #[error("the dictionary of Spark {line} has no class {class}")]
    NoClass {
        /// Which dictionary.
        line: String,
        /// Which class.
        class: String,
    },
    /// No class of the hierarchy has this field.
    #[error("{class} of Spark {line} has no field {field}")]
    NoField {
        /// Which dictionary.
        line: String,
        /// Which class.
        class: String,
        /// Which field.
        field: String,
    },
    /// A number where a thing belongs, or the other way round.
    #[error(
        "{class}.{field} of Spark {line} has the type {signature}, which does not take this value"
    )]
    Type {
        /// Which dictionary.
        line: String,
        /// Which class.
        class: String,
        /// Which field.
        field: String,
        /// Its type.
        signature: String,
    },
    /// See [`EmitError`].
    #[error(transparent)]
    Emit(#[from] EmitError),
}

const PROXY: &str = "scala.runtime.ModuleSerializationProxy";

struct Writer<'v> {
    dictionary: &'v Dictionary,
    out: Emitter,
    strings: HashMap<String, u32>,
    classes: HashMap<String, u32>,
    class_objects: HashMap<String, u32>,
    /// The class of arrays of strings, once it is written.
    string_array: Option<u32>,
    /// Singletons behind enumeration values: written once, both of a value's outer fields refer to one.
    enumerations: HashMap<&'static str, u32>,
}

/// One value as a stream.
///
/// # Errors
/// The dictionary does not have what the value needs, or a name is too long for a stream.
pub fn write(value: &Value<'_>, dictionary: &Dictionary) -> Result<Vec<u8>, WriteError> {
    let mut writer = Writer {
        dictionary,
        out: Emitter::new(),
        strings: HashMap::new(),
        classes: HashMap::new(),
        class_objects: HashMap::new(),
        string_array: None,
        enumerations: HashMap::new(),
    };
    writer.thing(value)?;
    Ok(writer.out.finish())
}

// === impl Writer ===

impl<'v> Writer<'v> {
    fn no_class(&self, class: &str) -> WriteError {
        WriteError::NoClass {
            line: self.dictionary.line.clone(),
            class: class.to_owned(),
        }
    }

    fn info(&self, class: &str) -> Result<&'v ClassInfo, WriteError> {
        let info = self.dictionary.class(class);
        info.ok_or_else(|| self.no_class(class))
    }

    /// Anything that is not a number.
    fn thing(&mut self, value: &Value<'v>) -> Result<(), WriteError> {
        match value {
            Value::Null => self.out.tag(Tag::Null),
            Value::Text(text) => self.text(text)?,
            Value::Object(class, fields) => self.object(class, fields)?,
            Value::Singleton(class) => {
                self.singleton(class)?;
            }
            Value::Enumeration(object, number) => self.enumeration(object, *number)?,
            Value::Constant(class, constant) => self.constant(class, constant)?,
            Value::Seq(items) => self.seq(items)?,
            Value::Map(pairs) => self.map(pairs)?,
            Value::Strings(texts) => self.strings(texts)?,
            Value::Parsed(graph, datum) => GraphEmitter::new(graph).datum(&mut self.out, *datum)?,
            Value::Bool(v) => self.object("java.lang.Boolean", &[("value", Value::Bool(*v))])?,
            Value::Int(v) => self.object("java.lang.Integer", &[("value", Value::Int(*v))])?,
            Value::Long(v) => self.object("java.lang.Long", &[("value", Value::Long(*v))])?,
            Value::Double(_) => return Err(self.no_class("java.lang.Double")),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), WriteError> {
        if let Some(handle) = self.strings.get(text) {
            self.out.reference(*handle);
            return Ok(());
        }
        let handle = self.out.string(text)?;
        self.strings.insert(text.to_owned(), handle);
        Ok(())
    }

    fn object(&mut self, class: &str, fields: &[(&str, Value<'v>)]) -> Result<(), WriteError> {
        self.out.down()?;
        self.out.tag(Tag::Object);
        self.class(class)?;
        self.out.new_handle();
        self.fields(class, fields)?;
        self.out.up();
        Ok(())
    }

    /// The data of an object, from its topmost class down.
    fn fields(&mut self, class: &str, fields: &[(&str, Value<'v>)]) -> Result<(), WriteError> {
        let mut given: BTreeMap<&str, &Value<'v>> = fields.iter().map(|(n, v)| (*n, v)).collect();
        let mut chain = vec![(class.to_owned(), self.info(class)?)];
        while let Some(parent) = chain.last().and_then(|(_, info)| info.parent.as_ref()) {
            chain.push((parent.clone(), self.info(parent)?));
        }
        for (owner, info) in chain.into_iter().rev() {
            for field in &info.fields {
                let value = given.remove(field.0.as_str());
                self.field(&owner, field, value)?;
            }
            if info.flags & 1 != 0 {
                self.out.tag(Tag::EndBlockData);
            }
        }
        match given.keys().next() {
            None => Ok(()),
            Some(field) => Err(WriteError::NoField {
                line: self.dictionary.line.clone(),
                class: class.to_owned(),
                field: (*field).to_owned(),
            }),
        }
    }

    fn field(
        &mut self,
        class: &str,
        field: &FieldInfo,
        value: Option<&Value<'v>>,
    ) -> Result<(), WriteError> {
        let kind = field.kind();
        let wrong = || WriteError::Type {
            line: self.dictionary.line.clone(),
            class: class.to_owned(),
            field: field.0.clone(),
            signature: field.1.clone(),
        };
        match (kind, value) {
            (FieldType::Object | FieldType::Array, Some(value)) => return self.thing(value),
            (FieldType::Object | FieldType::Array, None) => self.out.tag(Tag::Null),
            (FieldType::Boolean, Some(Value::Bool(v))) => self.out.bytes(&[u8::from(*v)]),
            (FieldType::Int, Some(Value::Int(v))) => self.out.bytes(&v.to_be_bytes()),
            (FieldType::Long, Some(Value::Long(v))) => self.out.bytes(&v.to_be_bytes()),
            (FieldType::Double, Some(Value::Double(v))) => self.out.bytes(&v.to_be_bytes()),
            (_, None) => self.out.bytes(&[0; 8][..kind.width().unwrap_or(0)]),
            (_, Some(_)) => return Err(wrong()),
        }
        Ok(())
    }

    /// The handle under which the object can be referred to comes back.
    fn singleton(&mut self, class: &str) -> Result<u32, WriteError> {
        self.out.down()?;
        self.out.tag(Tag::Object);
        let handle = if self.dictionary.has_singleton_proxies() {
            self.class(PROXY)?;
            let handle = self.out.new_handle();
            self.class_object(class)?;
            handle
        } else {
            self.class(class)?;
            let handle = self.out.new_handle();
            self.fields(class, &[])?;
            handle
        };
        self.out.up();
        Ok(handle)
    }

    fn class_object(&mut self, class: &str) -> Result<(), WriteError> {
        if let Some(handle) = self.class_objects.get(class) {
            self.out.reference(*handle);
            return Ok(());
        }
        self.out.tag(Tag::Class);
        self.class(class)?;
        let handle = self.out.new_handle();
        self.class_objects.insert(class.to_owned(), handle);
        Ok(())
    }

    /// The peer finds its own value by the number; the name is left out.
    fn enumeration(&mut self, object: &'static str, number: i32) -> Result<(), WriteError> {
        self.out.tag(Tag::Object);
        self.class("scala.Enumeration$Val")?;
        self.out.new_handle();
        for _outer in 0..2 {
            if let Some(handle) = self.enumerations.get(object) {
                self.out.reference(*handle);
            } else {
                let handle = self.singleton(object)?;
                self.enumerations.insert(object, handle);
            }
        }
        self.out.bytes(&number.to_be_bytes());
        self.out.tag(Tag::Null);
        Ok(())
    }

    fn constant(&mut self, class: &str, constant: &str) -> Result<(), WriteError> {
        self.out.tag(Tag::Enum);
        self.class(class)?;
        self.out.new_handle();
        self.text(constant)
    }

    fn class(&mut self, name: &str) -> Result<(), WriteError> {
        if let Some(handle) = self.classes.get(name) {
            self.out.reference(*handle);
            return Ok(());
        }
        let info = self.info(name)?;
        self.out.tag(Tag::ClassDesc);
        self.out.name(name)?;
        self.out.bytes(&info.suid.to_be_bytes());
        let handle = self.out.new_handle();
        self.classes.insert(name.to_owned(), handle);
        self.out.bytes(&[info.flags]);
        let count = u16::try_from(info.fields.len()).map_err(|_ignored| EmitError::TooLarge)?;
        self.out.bytes(&count.to_be_bytes());
        for field in &info.fields {
            let kind = field.kind();
            self.out.bytes(&[kind.code()]);
            self.out.name(&field.0)?;
            if kind.width().is_none() {
                self.text(&field.1)?;
            }
        }
        self.out.tag(Tag::EndBlockData);
        match &info.parent {
            Some(parent) => self.class(parent),
            None => {
                self.out.tag(Tag::Null);
                Ok(())
            }
        }
    }
}
