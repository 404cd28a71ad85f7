//! Writes a [`Graph`], or a part of it, as a Java stream again: same bytes for the same graph.

use std::collections::HashMap;

use super::{
    graph::{ClassId, Content, Datum, Graph, Node, NodeId, Part},
    mutf8,
    tag::{HANDLE_BASE, HEADER, Tag, flag},
};

/// Things inside things; a subtree can be deeper than the stream that it comes from.
pub(crate) const DEPTH_MAX: usize = 200;

/// Why something cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// Things inside things inside things.
    #[error("more than {DEPTH_MAX} levels")]
    TooDeep,
    /// A name that has no room in a stream.
    #[error("a name of {length} bytes")]
    NameTooLong {
        /// In bytes.
        length: usize,
    },
    /// More than a stream can count.
    #[error("too large for a stream")]
    TooLarge,
    /// An id that belongs to another graph.
    #[error("a reference into another graph")]
    Foreign,
}

/// Bytes of a stream and the handles that are given so far.
#[derive(Debug)]
pub(crate) struct Emitter {
    out: Vec<u8>,
    handles: u32,
    pub(crate) depth: usize,
}

/// What of one graph has been written into a stream.
#[derive(Debug)]
pub(crate) struct GraphEmitter<'g> {
    graph: &'g Graph,
    nodes: HashMap<NodeId, u32>,
    classes: HashMap<ClassId, u32>,
}

/// The whole graph as a stream.
///
/// # Errors
/// The graph is deeper than it can have been when it was read.
pub fn emit(graph: &Graph) -> Result<Vec<u8>, EmitError> {
    let mut emitter = Emitter::new();
    GraphEmitter::new(graph).datum(&mut emitter, graph.root())?;
    Ok(emitter.finish())
}

// === impl Emitter ===

impl Emitter {
    pub(crate) fn new() -> Self {
        Self {
            out: HEADER.to_vec(),
            handles: HANDLE_BASE,
            depth: 0,
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn tag(&mut self, tag: Tag) {
        self.out.push(tag as u8);
    }

    /// The handle of what is being written.
    pub(crate) fn new_handle(&mut self) -> u32 {
        let handle = self.handles;
        self.handles += 1;
        handle
    }

    pub(crate) fn reference(&mut self, handle: u32) {
        self.tag(Tag::Reference);
        self.bytes(&handle.to_be_bytes());
    }

    pub(crate) fn name(&mut self, text: &str) -> Result<(), EmitError> {
        let bytes = mutf8::encode(text);
        let length = bytes.len();
        let short = u16::try_from(length).map_err(|_ignored| EmitError::NameTooLong { length })?;
        self.bytes(&short.to_be_bytes());
        self.bytes(&bytes);
        Ok(())
    }

    /// A string with its tag; its handle comes back.
    pub(crate) fn string(&mut self, text: &str) -> Result<u32, EmitError> {
        let handle = self.new_handle();
        let bytes = mutf8::encode(text);
        if let Ok(short) = u16::try_from(bytes.len()) {
            self.tag(Tag::String);
            self.bytes(&short.to_be_bytes());
        } else {
            self.tag(Tag::LongString);
            let length = u64::try_from(bytes.len()).map_err(|_ignored| EmitError::TooLarge)?;
            self.bytes(&length.to_be_bytes());
        }
        self.bytes(&bytes);
        Ok(handle)
    }

    pub(crate) fn down(&mut self) -> Result<(), EmitError> {
        if self.depth >= DEPTH_MAX {
            return Err(EmitError::TooDeep);
        }
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn up(&mut self) {
        self.depth -= 1;
    }

    pub(crate) fn block(&mut self, block: &[u8]) -> Result<(), EmitError> {
        if let Ok(short) = u8::try_from(block.len()) {
            self.tag(Tag::BlockData);
            self.bytes(&[short]);
        } else {
            self.tag(Tag::BlockDataLong);
            let length = i32::try_from(block.len()).map_err(|_ignored| EmitError::TooLarge)?;
            self.bytes(&length.to_be_bytes());
        }
        self.bytes(block);
        Ok(())
    }
}

// === impl GraphEmitter ===

impl<'g> GraphEmitter<'g> {
    pub(crate) fn new(graph: &'g Graph) -> Self {
        Self {
            graph,
            nodes: HashMap::new(),
            classes: HashMap::new(),
        }
    }

    pub(crate) fn datum(&mut self, out: &mut Emitter, datum: Datum) -> Result<(), EmitError> {
        match datum {
            Datum::Null => out.tag(Tag::Null),
            Datum::Byte(v) => out.bytes(&v.to_be_bytes()),
            Datum::Char(v) => out.bytes(&v.to_be_bytes()),
            Datum::Double(v) => out.bytes(&v.to_be_bytes()),
            Datum::Float(v) => out.bytes(&v.to_be_bytes()),
            Datum::Int(v) => out.bytes(&v.to_be_bytes()),
            Datum::Long(v) => out.bytes(&v.to_be_bytes()),
            Datum::Short(v) => out.bytes(&v.to_be_bytes()),
            Datum::Boolean(v) => out.bytes(&[u8::from(v)]),
            Datum::Node(id) => {
                out.down()?;
                self.node(out, id)?;
                out.up();
            }
            Datum::Class(id) => self.class(out, Some(id))?,
        }
        Ok(())
    }

    fn node(&mut self, out: &mut Emitter, id: NodeId) -> Result<(), EmitError> {
        if let Some(handle) = self.nodes.get(&id) {
            out.reference(*handle);
            return Ok(());
        }
        match self.graph.node(id).ok_or(EmitError::Foreign)? {
            Node::Pending => return Err(EmitError::Foreign),
            Node::String(text) => {
                let handle = out.string(text)?;
                self.nodes.insert(id, handle);
            }
            Node::Object { class, parts } => {
                out.tag(Tag::Object);
                self.head(out, *class, id)?;
                for part in parts {
                    self.part(out, part)?;
                }
            }
            Node::Array { class, items } => {
                out.tag(Tag::Array);
                self.head(out, *class, id)?;
                let count = i32::try_from(items.len()).map_err(|_ignored| EmitError::TooLarge)?;
                out.bytes(&count.to_be_bytes());
                for item in items {
                    self.datum(out, *item)?;
                }
            }
            Node::Numbers {
                class,
                count,
                bytes,
            } => {
                out.tag(Tag::Array);
                self.head(out, *class, id)?;
                out.bytes(&count.to_be_bytes());
                out.bytes(bytes);
            }
            Node::Enum { class, constant } => {
                out.tag(Tag::Enum);
                self.head(out, *class, id)?;
                self.datum(out, Datum::Node(*constant))?;
            }
            Node::Class(class) => {
                out.tag(Tag::Class);
                self.head(out, *class, id)?;
            }
        }
        Ok(())
    }

    /// The class of a node, then the node's own handle.
    fn head(&mut self, out: &mut Emitter, class: ClassId, id: NodeId) -> Result<(), EmitError> {
        self.class(out, Some(class))?;
        self.nodes.insert(id, out.new_handle());
        Ok(())
    }

    fn part(&mut self, out: &mut Emitter, part: &Part) -> Result<(), EmitError> {
        for value in &part.values {
            self.datum(out, *value)?;
        }
        if let Some(annotation) = &part.annotation {
            self.annotation(out, annotation)?;
        }
        Ok(())
    }

    fn annotation(&mut self, out: &mut Emitter, contents: &[Content]) -> Result<(), EmitError> {
        for content in contents {
            match content {
                Content::Block(block) => out.block(block)?,
                Content::Value(datum) => self.datum(out, *datum)?,
            }
        }
        out.tag(Tag::EndBlockData);
        Ok(())
    }

    fn class(&mut self, out: &mut Emitter, class: Option<ClassId>) -> Result<(), EmitError> {
        let Some(id) = class else {
            out.tag(Tag::Null);
            return Ok(());
        };
        if let Some(handle) = self.classes.get(&id) {
            out.reference(*handle);
            return Ok(());
        }
        out.down()?;
        let desc = self.graph.class(id).ok_or(EmitError::Foreign)?;
        out.tag(Tag::ClassDesc);
        out.name(&desc.name)?;
        out.bytes(&desc.suid.to_be_bytes());
        self.classes.insert(id, out.new_handle());
        out.bytes(&[desc.flags]);
        let count = u16::try_from(desc.fields.len()).map_err(|_ignored| EmitError::TooLarge)?;
        out.bytes(&count.to_be_bytes());
        for field in &desc.fields {
            out.bytes(&[field.kind.code()]);
            out.name(&field.name)?;
            if let Some(signature) = field.signature {
                self.datum(out, Datum::Node(signature))?;
            }
        }
        self.annotation(out, &desc.annotation)?;
        self.class(out, desc.parent)?;
        out.up();
        Ok(())
    }
}

// The reader decides by the flag whether an annotation follows; `Part::annotation` says the same.
const _: () = assert!(flag::WRITE_METHOD == 1);
