//! Reads one Java stream into a [`Graph`].
//!
//! Recursion is bounded by [`Limits::depth`], memory by the other limits and by the length of the stream itself: every
//! allocation is paid for by bytes that have come or counts against a limit first.

mod class;

use super::{
    graph::{ClassDesc, ClassId, Content, Datum, FieldType, Graph, Node, NodeId, Part},
    limits::Limits,
    mutf8,
    tag::{HANDLE_BASE, HEADER, Tag, flag},
};

/// Why a stream was refused. `at` is the offset in the stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// It does not begin as a Java stream does.
    #[error("not a Java object stream")]
    NoStream,
    /// It ends too early.
    #[error("the stream ends at byte {at}, in the middle of something")]
    Truncated {
        /// Offset.
        at: usize,
    },
    /// It goes on behind its one object.
    #[error("the object ends at byte {at}, but the stream does not")]
    Trailing {
        /// Offset.
        at: usize,
    },
    /// A limit is passed.
    #[error("at byte {at} the stream has more than {max} {what}")]
    Limit {
        /// Offset.
        at: usize,
        /// Of what.
        what: &'static str,
        /// How many are accepted.
        max: usize,
    },
    /// Bytes that Java does not write, or does not write here.
    #[error("at byte {at}: {what}")]
    Malformed {
        /// Offset.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// What a handle stands for.
#[derive(Debug, Clone, Copy)]
enum Handle {
    Node(NodeId),
    Class(ClassId),
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    depth: usize,
    slots: usize,
    limits: &'a Limits,
    handles: Vec<Handle>,
    nodes: Vec<Node>,
    classes: Vec<ClassDesc>,
    /// Whether a descriptor has been read to its end: before that it must not be used.
    complete: Vec<bool>,
}

/// Reads a stream that holds one thing.
///
/// # Errors
/// The bytes are no stream, are damaged, use what Spark never uses (proxies, exceptions of the stream itself), or pass
/// a limit.
pub fn read(input: &[u8], limits: &Limits) -> Result<Graph, StreamError> {
    if input.len() > limits.bytes {
        return Err(StreamError::Limit {
            at: 0,
            what: "bytes",
            max: limits.bytes,
        });
    }
    let Some(_) = input.strip_prefix(&HEADER) else {
        return Err(StreamError::NoStream);
    };
    let mut reader = Reader {
        input,
        at: HEADER.len(),
        depth: 0,
        slots: 0,
        limits,
        handles: Vec::new(),
        nodes: Vec::new(),
        classes: Vec::new(),
        complete: Vec::new(),
    };
    while reader.peek()? == Tag::Reset {
        reader.at += 1;
    }
    let root = reader.datum()?;
    if reader.at != input.len() {
        return Err(StreamError::Trailing { at: reader.at });
    }
    Ok(Graph {
        nodes: reader.nodes,
        classes: reader.classes,
        root,
    })
}

// === impl Reader ===

impl Reader<'_> {
    fn malformed(&self, what: &'static str) -> StreamError {
        StreamError::Malformed { at: self.at, what }
    }

    fn limit(&self, what: &'static str, max: usize) -> StreamError {
        let at = self.at;
        StreamError::Limit { at, what, max }
    }

    fn take(&mut self, count: usize) -> Result<&[u8], StreamError> {
        let end = self.at.checked_add(count);
        let bytes = end.and_then(|end| self.input.get(self.at..end));
        let bytes = bytes.ok_or(StreamError::Truncated { at: self.at })?;
        self.at += count;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StreamError> {
        let at = self.at;
        let bytes = self.take(N)?;
        bytes
            .try_into()
            .map_err(|_ignored| StreamError::Truncated { at })
    }

    fn u8(&mut self) -> Result<u8, StreamError> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, StreamError> {
        self.array().map(u16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, StreamError> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, StreamError> {
        self.array().map(i64::from_be_bytes)
    }

    fn peek(&self) -> Result<Tag, StreamError> {
        let byte = self.input.get(self.at);
        let byte = byte.ok_or(StreamError::Truncated { at: self.at })?;
        Tag::from_byte(*byte)
            .ok_or_else(|| self.malformed("a byte that says nothing about what comes next"))
    }

    fn text(&mut self, length: usize) -> Result<String, StreamError> {
        if length > self.limits.string_bytes {
            return Err(self.limit("bytes in a string", self.limits.string_bytes));
        }
        let at = self.at;
        let what = "a string that Java would not write";
        mutf8::decode(self.take(length)?).ok_or(StreamError::Malformed { at, what })
    }

    fn short_text(&mut self) -> Result<String, StreamError> {
        let length = usize::from(self.u16()?);
        self.text(length)
    }

    fn pay(&mut self, slots: usize) -> Result<(), StreamError> {
        self.slots = self.slots.saturating_add(slots);
        if self.slots > self.limits.slots {
            return Err(self.limit("fields and elements", self.limits.slots));
        }
        Ok(())
    }

    fn node(&mut self, node: Node) -> Result<NodeId, StreamError> {
        if self.nodes.len() >= self.limits.nodes {
            return Err(self.limit("objects", self.limits.nodes));
        }
        let number = u32::try_from(self.nodes.len());
        let id = NodeId(number.map_err(|_ignored| self.limit("objects", self.limits.nodes))?);
        self.nodes.push(node);
        self.handles.push(Handle::Node(id));
        Ok(id)
    }

    fn fill(&mut self, id: NodeId, node: Node) {
        let at = usize::try_from(id.0).unwrap_or(usize::MAX);
        if let Some(place) = self.nodes.get_mut(at) {
            *place = node;
        }
    }

    fn handle(&mut self) -> Result<Handle, StreamError> {
        let at = self.at;
        let number = u32::from_be_bytes(self.array()?);
        let index = number
            .checked_sub(HANDLE_BASE)
            .and_then(|n| usize::try_from(n).ok());
        let handle = index.and_then(|i| self.handles.get(i));
        handle.copied().ok_or(StreamError::Malformed {
            at,
            what: "a reference to something that has not been written yet",
        })
    }

    /// Goes one level down for `inner`.
    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        if self.depth >= self.limits.depth {
            return Err(self.limit("levels", self.limits.depth));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Anything but blocks.
    fn datum(&mut self) -> Result<Datum, StreamError> {
        self.deeper(Self::datum_here)
    }

    fn datum_here(&mut self) -> Result<Datum, StreamError> {
        let tag = self.peek()?;
        if tag == Tag::ClassDesc {
            return match self.class_desc()? {
                Some(class) => Ok(Datum::Class(class)),
                None => Ok(Datum::Null),
            };
        }
        self.at += 1;
        let node = match tag {
            Tag::Null => return Ok(Datum::Null),
            Tag::Reference => {
                return Ok(match self.handle()? {
                    Handle::Node(id) => Datum::Node(id),
                    Handle::Class(id) => Datum::Class(id),
                });
            }
            Tag::Object => self.object()?,
            Tag::String => {
                let text = self.short_text()?;
                self.node(Node::String(text))?
            }
            Tag::LongString => {
                let length = self.i64()?;
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let text = self.text(length)?;
                self.node(Node::String(text))?
            }
            Tag::Array => self.array_node()?,
            Tag::Class => {
                let class = self.class_in_use()?;
                self.node(Node::Class(class))?
            }
            Tag::Enum => self.enum_constant()?,
            Tag::ClassDesc
            | Tag::BlockData
            | Tag::BlockDataLong
            | Tag::EndBlockData
            | Tag::Reset
            | Tag::Exception
            | Tag::ProxyClassDesc => {
                self.at -= 1;
                return Err(self.malformed("something that has no place here"));
            }
        };
        Ok(Datum::Node(node))
    }

    fn object(&mut self) -> Result<NodeId, StreamError> {
        let class = self.class_in_use()?;
        let id = self.node(Node::Pending)?;
        let mut chain = Vec::new();
        let mut next = Some(class);
        while let Some(current) = next {
            self.pay(1)?;
            chain.push(current);
            next = self.class(current).and_then(|c| c.parent);
        }
        let mut parts = Vec::with_capacity(chain.len());
        for class in chain.into_iter().rev() {
            parts.push(self.part(class)?);
        }
        self.fill(id, Node::Object { class, parts });
        Ok(id)
    }

    fn part(&mut self, class: ClassId) -> Result<Part, StreamError> {
        let Some(desc) = self.class(class) else {
            return Err(self.malformed("an unknown class"));
        };
        let flags = desc.flags;
        let kinds: Vec<FieldType> = desc.fields.iter().map(|f| f.kind).collect();
        if flags & flag::EXTERNALIZABLE != 0 {
            if flags & flag::BLOCK_DATA == 0 {
                return Err(self.malformed("an object in a form that only its class can read"));
            }
            let annotation = Some(self.annotation()?);
            let values = Vec::new();
            return Ok(Part {
                class,
                values,
                annotation,
            });
        }
        if flags & flag::SERIALIZABLE == 0 {
            return Err(self.malformed("an object of a class that is not serialisable"));
        }
        self.pay(kinds.len())?;
        let mut values = Vec::with_capacity(kinds.len());
        for kind in kinds {
            values.push(self.value(kind)?);
        }
        let annotation = if flags & flag::WRITE_METHOD != 0 {
            Some(self.annotation()?)
        } else {
            None
        };
        Ok(Part {
            class,
            values,
            annotation,
        })
    }

    fn value(&mut self, kind: FieldType) -> Result<Datum, StreamError> {
        Ok(match kind {
            FieldType::Byte => Datum::Byte(i8::from_be_bytes(self.array()?)),
            FieldType::Char => Datum::Char(self.u16()?),
            FieldType::Double => Datum::Double(u64::from_be_bytes(self.array()?)),
            FieldType::Float => Datum::Float(u32::from_be_bytes(self.array()?)),
            FieldType::Int => Datum::Int(self.i32()?),
            FieldType::Long => Datum::Long(self.i64()?),
            FieldType::Short => Datum::Short(i16::from_be_bytes(self.array()?)),
            FieldType::Boolean => match self.u8()? {
                0 => Datum::Boolean(false),
                1 => Datum::Boolean(true),
                _ => return Err(self.malformed("a truth value that is neither")),
            },
            FieldType::Object | FieldType::Array => self.datum()?,
        })
    }

    /// Blocks and things up to the end mark.
    fn annotation(&mut self) -> Result<Vec<Content>, StreamError> {
        let mut contents = Vec::new();
        loop {
            self.pay(1)?;
            match self.peek()? {
                Tag::EndBlockData => {
                    self.at += 1;
                    return Ok(contents);
                }
                Tag::BlockData => {
                    self.at += 1;
                    let length = usize::from(self.u8()?);
                    contents.push(Content::Block(self.take(length)?.to_vec()));
                }
                Tag::BlockDataLong => {
                    self.at += 1;
                    let length = usize::try_from(self.i32()?).unwrap_or(usize::MAX);
                    contents.push(Content::Block(self.block(length)?));
                }
                Tag::Null
                | Tag::Reference
                | Tag::ClassDesc
                | Tag::Object
                | Tag::String
                | Tag::Array
                | Tag::Class
                | Tag::Reset
                | Tag::Exception
                | Tag::LongString
                | Tag::ProxyClassDesc
                | Tag::Enum => contents.push(Content::Value(self.datum()?)),
            }
        }
    }

    fn block(&mut self, length: usize) -> Result<Vec<u8>, StreamError> {
        if length > self.limits.block_bytes {
            return Err(self.limit("bytes in a block", self.limits.block_bytes));
        }
        self.take(length).map(<[u8]>::to_vec)
    }

    fn array_node(&mut self) -> Result<NodeId, StreamError> {
        let class = self.class_in_use()?;
        let code = self.class(class).and_then(|c| match c.name.as_bytes() {
            [b'[', code, ..] => FieldType::from_code(*code),
            _ => None,
        });
        let kind =
            code.ok_or_else(|| self.malformed("an array of a class that is none of arrays"))?;
        let id = self.node(Node::Pending)?;
        let count = self.i32()?;
        let count = u32::try_from(count)
            .map_err(|_ignored| self.malformed("an array of a negative length"))?;
        let length = usize::try_from(count).unwrap_or(usize::MAX);
        if let Some(width) = kind.width() {
            let bytes = self.block(length.saturating_mul(width))?;
            self.fill(
                id,
                Node::Numbers {
                    class,
                    count,
                    bytes,
                },
            );
            return Ok(id);
        }
        self.pay(length)?;
        // Every element takes a byte at least.
        let mut items = Vec::with_capacity(length.min(self.input.len() - self.at));
        for _ in 0..length {
            items.push(self.datum()?);
        }
        self.fill(id, Node::Array { class, items });
        Ok(id)
    }

    fn enum_constant(&mut self) -> Result<NodeId, StreamError> {
        let class = self.class_in_use()?;
        let id = self.node(Node::Pending)?;
        let Datum::Node(constant) = self.datum()? else {
            return Err(self.malformed("an enum constant without a name"));
        };
        if !self.is_string(constant) {
            return Err(self.malformed("an enum constant without a name"));
        }
        self.fill(id, Node::Enum { class, constant });
        Ok(id)
    }

    fn class(&self, id: ClassId) -> Option<&ClassDesc> {
        self.classes.get(usize::try_from(id.0).ok()?)
    }

    fn is_string(&self, id: NodeId) -> bool {
        let at = usize::try_from(id.0).unwrap_or(usize::MAX);
        matches!(self.nodes.get(at), Some(Node::String(_)))
    }
}
