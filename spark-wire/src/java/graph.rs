//! An object graph as data: nodes in an arena, so that cycles and shared subtrees cost nothing and nothing recurses
//! over them unasked.

/// A node of one [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// A class descriptor of one [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(crate) u32);

/// What a stream holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) classes: Vec<ClassDesc>,
    pub(crate) root: Datum,
}

/// The type of a field or of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldType {
    /// `B`
    Byte,
    /// `C`
    Char,
    /// `D`
    Double,
    /// `F`
    Float,
    /// `I`
    Int,
    /// `J`
    Long,
    /// `S`
    Short,
    /// `Z`
    Boolean,
    /// `L`
    Object,
    /// `[`
    Array,
}

/// A field of a class, as its descriptor has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: FieldType,
    /// The full type of an object or array, such as `Lscala/Option;`: a string node of its own.
    pub signature: Option<NodeId>,
}

/// A class as the peer's build knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassDesc {
    /// Such as `scala.None$`.
    pub name: String,
    /// The serial version UID: what tells one build of Spark from another.
    pub suid: i64,
    /// How its objects are written.
    pub flags: u8,
    /// In the order in which they are written.
    pub fields: Vec<Field>,
    /// What a special class loader adds; empty in practice.
    pub annotation: Vec<Content>,
    /// The nearest serialisable class above.
    pub parent: Option<ClassId>,
}

/// A value in a field, in an array, or between blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datum {
    /// `null`
    Null,
    /// A number of 8 bits.
    Byte(i8),
    /// A UTF-16 unit.
    Char(u16),
    /// The bits of a number, so that values can be compared.
    Double(u64),
    /// The bits of a number.
    Float(u32),
    /// A number of 32 bits.
    Int(i32),
    /// A number of 64 bits.
    Long(i64),
    /// A number of 16 bits.
    Short(i16),
    /// A truth value.
    Boolean(bool),
    /// Anything that is not a number.
    Node(NodeId),
    /// A descriptor that stands alone (Java allows it; nobody writes it).
    Class(ClassId),
}

/// What stands where a class writes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Raw bytes.
    Block(Vec<u8>),
    /// A thing.
    Value(Datum),
}

/// The share of one class of the hierarchy in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Whose fields these are.
    pub class: ClassId,
    /// One for each field of the class.
    pub values: Vec<Datum>,
    /// What the class wrote by itself; nothing where it does not.
    pub annotation: Option<Vec<Content>>,
}

/// Something that can be referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Being read; only seen inside the reader.
    Pending,
    /// A string.
    String(String),
    /// An object; the topmost class comes first.
    Object {
        /// Its class.
        class: ClassId,
        /// What each class of the hierarchy has in it.
        parts: Vec<Part>,
    },
    /// An array of things.
    Array {
        /// Such as `[Ljava.lang.Object;`.
        class: ClassId,
        /// Its elements.
        items: Vec<Datum>,
    },
    /// An array of numbers, as bytes.
    Numbers {
        /// Such as `[B`.
        class: ClassId,
        /// How many.
        count: u32,
        /// Big endian.
        bytes: Vec<u8>,
    },
    /// A constant of an `enum`.
    Enum {
        /// Its class.
        class: ClassId,
        /// A string node.
        constant: NodeId,
    },
    /// A class object, as in a field of type `Class`.
    Class(ClassId),
}

// === impl Graph ===

impl Graph {
    /// The one thing that the stream holds.
    #[must_use]
    pub fn root(&self) -> Datum {
        self.root
    }

    /// A node. Ids of another graph give nothing or something else.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::try_from(id.0).ok()?)
    }

    /// A descriptor.
    #[must_use]
    pub fn class(&self, id: ClassId) -> Option<&ClassDesc> {
        self.classes.get(usize::try_from(id.0).ok()?)
    }

    /// All descriptors, in the order of the stream.
    #[must_use]
    pub fn classes(&self) -> &[ClassDesc] {
        &self.classes
    }

    /// The name of the class of an object, an array or an enum constant.
    #[must_use]
    pub fn class_name(&self, id: NodeId) -> Option<&str> {
        let class = match self.node(id)? {
            Node::Object { class, .. }
            | Node::Array { class, .. }
            | Node::Numbers { class, .. }
            | Node::Enum { class, .. } => *class,
            Node::Pending | Node::String(_) | Node::Class(_) => return None,
        };
        self.class(class).map(|c| c.name.as_str())
    }

    /// The text of a string node.
    #[must_use]
    pub fn text(&self, id: NodeId) -> Option<&str> {
        match self.node(id)? {
            Node::String(text) => Some(text),
            Node::Pending
            | Node::Object { .. }
            | Node::Array { .. }
            | Node::Numbers { .. }
            | Node::Enum { .. }
            | Node::Class(_) => None,
        }
    }
}

// === impl FieldType ===

impl FieldType {
    /// By the letter that descriptors use.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            b'B' => Self::Byte,
            b'C' => Self::Char,
            b'D' => Self::Double,
            b'F' => Self::Float,
            b'I' => Self::Int,
            b'J' => Self::Long,
            b'S' => Self::Short,
            b'Z' => Self::Boolean,
            b'L' => Self::Object,
            b'[' => Self::Array,
            _ => return None,
        })
    }

    /// The letter that descriptors use.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Byte => b'B',
            Self::Char => b'C',
            Self::Double => b'D',
            Self::Float => b'F',
            Self::Int => b'I',
            Self::Long => b'J',
            Self::Short => b'S',
            Self::Boolean => b'Z',
            Self::Object => b'L',
            Self::Array => b'[',
        }
    }

    /// Bytes of a number of this type; nothing for things.
    #[must_use]
    pub fn width(self) -> Option<usize> {
        match self {
            Self::Byte | Self::Boolean => Some(1),
            Self::Char | Self::Short => Some(2),
            Self::Int | Self::Float => Some(4),
            Self::Long | Self::Double => Some(8),
            Self::Object | Self::Array => None,
        }
    }
}
