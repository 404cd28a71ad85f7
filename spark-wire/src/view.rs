//! Scala's and Java's ways to write options, sequences, maps and enumeration values, as one view each.
//!
//! Scala 2.12 and 2.13 write different classes for the same thing. What is not known here is refused by the name of
//! its class. No view recurses: a view of a view is the caller's next step.

use crate::java::{Content, Datum, Graph, Node, NodeId, Part};

/// A place in a parsed message.
#[derive(Debug, Clone, Copy)]
pub struct View<'g> {
    graph: &'g Graph,
    datum: Datum,
}

/// Why a message is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// Something else stands there.
    #[error("{found} where {wanted} is needed")]
    Kind {
        /// What was looked for.
        wanted: &'static str,
        /// What stands there.
        found: String,
    },
    /// The class has no such field.
    #[error("{class} has no field {field}")]
    NoField {
        /// Of the object.
        class: String,
        /// What was looked for.
        field: &'static str,
    },
    /// A collection contradicts itself.
    #[error("a damaged {class}")]
    Damaged {
        /// Of the collection.
        class: String,
    },
}

const PROXY: &str = "scala.runtime.ModuleSerializationProxy";
const PROXY_213: &str = "scala.collection.generic.DefaultSerializationProxy";
/// Wrappers around maps that are looked through: a wrapper in a wrapper in a wrapper.
const WRAPPERS_MAX: usize = 4;

// === impl View ===

impl<'g> View<'g> {
    /// The whole message.
    #[must_use]
    pub fn root(graph: &'g Graph) -> Self {
        let datum = graph.root();
        Self { graph, datum }
    }

    /// What stands here, to write it again.
    #[must_use]
    pub fn datum(self) -> Datum {
        self.datum
    }

    fn at(self, datum: Datum) -> Self {
        Self { datum, ..self }
    }

    fn kind(self, wanted: &'static str) -> ViewError {
        let found = match self.datum {
            Datum::Null => "nothing".to_owned(),
            Datum::Byte(_)
            | Datum::Char(_)
            | Datum::Double(_)
            | Datum::Float(_)
            | Datum::Int(_)
            | Datum::Long(_)
            | Datum::Short(_)
            | Datum::Boolean(_) => "a number".to_owned(),
            Datum::Class(_) => "a class".to_owned(),
            Datum::Node(id) => match self.graph.class_name(id) {
                Some(class) => class.to_owned(),
                None => "a string or a class".to_owned(),
            },
        };
        ViewError::Kind { wanted, found }
    }

    fn damaged(self) -> ViewError {
        let class = self.class().unwrap_or("value").to_owned();
        ViewError::Damaged { class }
    }

    fn id(self) -> Option<NodeId> {
        match self.datum {
            Datum::Node(id) => Some(id),
            Datum::Null
            | Datum::Byte(_)
            | Datum::Char(_)
            | Datum::Double(_)
            | Datum::Float(_)
            | Datum::Int(_)
            | Datum::Long(_)
            | Datum::Short(_)
            | Datum::Boolean(_)
            | Datum::Class(_) => None,
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.datum == Datum::Null
    }

    /// The class of an object, an array or an enum constant.
    #[must_use]
    pub fn class(self) -> Option<&'g str> {
        self.graph.class_name(self.id()?)
    }

    fn parts(self) -> Option<&'g [Part]> {
        match self.graph.node(self.id()?)? {
            Node::Object { parts, .. } => Some(parts),
            Node::Pending
            | Node::String(_)
            | Node::Array { .. }
            | Node::Numbers { .. }
            | Node::Enum { .. }
            | Node::Class(_) => None,
        }
    }

    /// A field of an object; the lowest class that has one of this name wins.
    ///
    /// # Errors
    /// This is no object, or it has no such field.
    pub fn field(self, name: &'static str) -> Result<Self, ViewError> {
        let found = self.find(|field| field == name)?;
        found.ok_or_else(|| ViewError::NoField {
            class: self.class().unwrap_or_default().to_owned(),
            field: name,
        })
    }

    fn find(self, wanted: impl Fn(&str) -> bool) -> Result<Option<Self>, ViewError> {
        let parts = self.parts().ok_or_else(|| self.kind("an object"))?;
        for part in parts.iter().rev() {
            let fields = self.graph.class(part.class).map(|c| c.fields.as_slice());
            let place = fields
                .unwrap_or_default()
                .iter()
                .position(|f| wanted(&f.name));
            if let Some(datum) = place.and_then(|p| part.values.get(p)) {
                return Ok(Some(self.at(*datum)));
            }
        }
        Ok(None)
    }

    /// A string.
    ///
    /// # Errors
    /// It is none.
    pub fn text(self) -> Result<&'g str, ViewError> {
        let text = self.id().and_then(|id| self.graph.text(id));
        text.ok_or_else(|| self.kind("a string"))
    }

    /// A whole number of 32 bits, boxed or not.
    ///
    /// # Errors
    /// It is none.
    pub fn int(self) -> Result<i32, ViewError> {
        match self.unboxed("java.lang.Integer").datum {
            Datum::Int(v) => Ok(v),
            Datum::Null
            | Datum::Byte(_)
            | Datum::Char(_)
            | Datum::Double(_)
            | Datum::Float(_)
            | Datum::Long(_)
            | Datum::Short(_)
            | Datum::Boolean(_)
            | Datum::Node(_)
            | Datum::Class(_) => Err(self.kind("an int")),
        }
    }

    /// A whole number of 64 bits, boxed or not.
    ///
    /// # Errors
    /// It is none.
    pub fn long(self) -> Result<i64, ViewError> {
        match self.unboxed("java.lang.Long").datum {
            Datum::Long(v) => Ok(v),
            Datum::Null
            | Datum::Byte(_)
            | Datum::Char(_)
            | Datum::Double(_)
            | Datum::Float(_)
            | Datum::Int(_)
            | Datum::Short(_)
            | Datum::Boolean(_)
            | Datum::Node(_)
            | Datum::Class(_) => Err(self.kind("a long")),
        }
    }

    /// A floating point number.
    ///
    /// # Errors
    /// It is none.
    pub fn double(self) -> Result<f64, ViewError> {
        match self.unboxed("java.lang.Double").datum {
            Datum::Double(v) => Ok(f64::from_bits(v)),
            Datum::Null
            | Datum::Byte(_)
            | Datum::Char(_)
            | Datum::Float(_)
            | Datum::Int(_)
            | Datum::Long(_)
            | Datum::Short(_)
            | Datum::Boolean(_)
            | Datum::Node(_)
            | Datum::Class(_) => Err(self.kind("a double")),
        }
    }

    /// A truth value.
    ///
    /// # Errors
    /// It is none.
    pub fn boolean(self) -> Result<bool, ViewError> {
        match self.unboxed("java.lang.Boolean").datum {
            Datum::Boolean(v) => Ok(v),
            Datum::Null
            | Datum::Byte(_)
            | Datum::Char(_)
            | Datum::Double(_)
            | Datum::Float(_)
            | Datum::Int(_)
            | Datum::Long(_)
            | Datum::Short(_)
            | Datum::Node(_)
            | Datum::Class(_) => Err(self.kind("a boolean")),
        }
    }

    fn unboxed(self, class: &str) -> Self {
        if self.class() == Some(class) {
            return self.field("value").unwrap_or(self);
        }
        self
    }

    /// The class of a Scala `object`, in either of its forms; nothing for anything else.
    #[must_use]
    pub fn singleton(self) -> Option<&'g str> {
        let class = self.class()?;
        if class != PROXY {
            return class.ends_with('$').then_some(class);
        }
        let id = self.field("moduleClass").ok()?.id()?;
        match self.graph.node(id)? {
            Node::Class(class) => self.graph.class(*class).map(|c| c.name.as_str()),
            Node::Pending
            | Node::String(_)
            | Node::Object { .. }
            | Node::Array { .. }
            | Node::Numbers { .. }
            | Node::Enum { .. } => None,
        }
    }

    /// `Some` and `None`.
    ///
    /// # Errors
    /// It is neither.
    pub fn option(self) -> Result<Option<Self>, ViewError> {
        if self.class() == Some("scala.Some") {
            return self.field("value").map(Some);
        }
        match self.singleton() {
            Some("scala.None$") => Ok(None),
            Some(_) | None => Err(self.kind("an Option")),
        }
    }

    /// The number of a value of a `scala.Enumeration`. The rest of it can be cyclic and is not looked at.
    ///
    /// # Errors
    /// It is none.
    pub fn enumeration(self) -> Result<i32, ViewError> {
        if self.class() == Some("scala.Enumeration$Val") {
            return self.field("i")?.int();
        }
        Err(self.kind("a value of an Enumeration"))
    }

    /// Any sequence of the kinds that Spark writes.
    ///
    /// # Errors
    /// It is none of them, or it contradicts itself.
    pub fn seq(self) -> Result<Vec<Self>, ViewError> {
        if self.singleton() == Some("scala.collection.immutable.Nil$") {
            return Ok(Vec::new());
        }
        match self.class().unwrap_or_default() {
            "scala.collection.immutable.List$SerializationProxy" => {
                self.until("scala.collection.immutable.ListSerializeEnd$")
            }
            PROXY_213 => self.default_proxy(),
            "scala.collection.mutable.ArraySeq" => self.first_of_array("array", "length"),
            "scala.collection.mutable.ArrayBuffer" => self.first_of_array("array", "size0"),
            "scala.collection.mutable.WrappedArray$ofRef"
            | "scala.collection.mutable.ArraySeq$ofRef" => self.field("array")?.array(),
            "scala.collection.immutable.ArraySeq$ofRef" => self.field("unsafeArray")?.array(),
            "java.util.ArrayList" => Ok(self.things()?.collect()),
            _ => Err(self.kind("a Seq")),
        }
    }

    /// Any map of the kinds that Spark writes, in the order of the wire.
    ///
    /// # Errors
    /// It is none of them, or it contradicts itself.
    pub fn map(self) -> Result<Vec<(Self, Self)>, ViewError> {
        let mut inner = self;
        for _ in 0..WRAPPERS_MAX {
            let wrapped = match inner.class().unwrap_or_default() {
                "scala.collection.immutable.Map$WithDefault"
                | "scala.collection.mutable.Map$WithDefault" => "underlying",
                "java.util.Collections$UnmodifiableMap" => "m",
                _ => return inner.bare_map(),
            };
            inner = inner.field(wrapped)?;
        }
        Err(self.damaged())
    }

    fn bare_map(self) -> Result<Vec<(Self, Self)>, ViewError> {
        if self.singleton() == Some("scala.collection.immutable.Map$EmptyMap$") {
            return Ok(Vec::new());
        }
        let class = self.class().unwrap_or_default();
        if let Some(count) = class.strip_prefix("scala.collection.immutable.Map$Map") {
            let count = count.parse().ok().filter(|n| (1..=4).contains(n));
            return self.small_map(count.ok_or_else(|| self.kind("a Map"))?);
        }
        match class {
            PROXY_213 => {
                let pairs = self.default_proxy()?;
                let pair = |t: Self| Ok((t.field("_1")?, t.field("_2")?));
                pairs.into_iter().map(pair).collect()
            }
            "scala.collection.mutable.HashMap"
            | "scala.collection.immutable.HashMap$SerializationProxy"
            | "java.util.HashMap"
            | "java.util.LinkedHashMap" => self.alternating(),
            _ => Err(self.kind("a Map")),
        }
    }

    /// `Map1` to `Map4`: fields `key1`, `value1` ...; 2.13 puts the class in front of the names.
    fn small_map(self, count: usize) -> Result<Vec<(Self, Self)>, ViewError> {
        let get = |what: &str, number: usize| {
            let plain = format!("{what}{number}");
            let mangled = format!("${plain}");
            let found = self.find(|f| f == plain || f.ends_with(&mangled))?;
            found.ok_or_else(|| self.damaged())
        };
        (1..=count)
            .map(|n| Ok((get("key", n)?, get("value", n)?)))
            .collect()
    }

    /// What the classes of an object wrote by themselves, blocks left out.
    fn things(self) -> Result<impl Iterator<Item = Self>, ViewError> {
        let contents = self.contents()?;
        Ok(contents.filter_map(move |content| match content {
            Content::Value(datum) => Some(self.at(*datum)),
            Content::Block(_) => None,
        }))
    }

    fn contents(self) -> Result<impl Iterator<Item = &'g Content>, ViewError> {
        let parts = self.parts().ok_or_else(|| self.kind("an object"))?;
        Ok(parts.iter().filter_map(|p| p.annotation.as_ref()).flatten())
    }

    fn until(self, end: &str) -> Result<Vec<Self>, ViewError> {
        let mut elements = Vec::new();
        for thing in self.things()? {
            if thing.singleton() == Some(end) {
                return Ok(elements);
            }
            elements.push(thing);
        }
        Err(self.damaged())
    }

    /// 2.13's proxy of all collections: how many, then the elements; -1: up to an end mark.
    fn default_proxy(self) -> Result<Vec<Self>, ViewError> {
        let block = self.contents()?.find_map(|content| match content {
            Content::Block(bytes) => Some(bytes.as_slice()),
            Content::Value(_) => None,
        });
        let count = block
            .and_then(|b| b.first_chunk::<4>())
            .map(|b| i32::from_be_bytes(*b));
        match count {
            Some(-1) => self.until("scala.collection.generic.SerializeEnd$"),
            Some(count) => {
                let elements: Vec<Self> = self.things()?.collect();
                if usize::try_from(count) != Ok(elements.len()) {
                    return Err(self.damaged());
                }
                Ok(elements)
            }
            None => Err(self.damaged()),
        }
    }

    fn alternating(self) -> Result<Vec<(Self, Self)>, ViewError> {
        let mut things = self.things()?;
        let mut pairs = Vec::new();
        while let Some(key) = things.next() {
            let value = things.next().ok_or_else(|| self.damaged())?;
            pairs.push((key, value));
        }
        Ok(pairs)
    }

    fn first_of_array(
        self,
        array: &'static str,
        length: &'static str,
    ) -> Result<Vec<Self>, ViewError> {
        let mut items = self.field(array)?.array()?;
        let length = self.field(length)?.int()?;
        let length = usize::try_from(length).ok().filter(|l| *l <= items.len());
        items.truncate(length.ok_or_else(|| self.damaged())?);
        Ok(items)
    }

    fn array(self) -> Result<Vec<Self>, ViewError> {
        let node = self.id().and_then(|id| self.graph.node(id));
        match node {
            Some(Node::Array { items, .. }) => Ok(items.iter().map(|d| self.at(*d)).collect()),
            Some(
                Node::Pending
                | Node::String(_)
                | Node::Object { .. }
                | Node::Numbers { .. }
                | Node::Enum { .. }
                | Node::Class(_),
            )
            | None => Err(self.kind("an array")),
        }
    }
}
