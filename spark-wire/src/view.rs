//! Scala's and Java's ways to write options, sequences, maps and enumeration values, as one view each.
//!
//! Scala 2.12 and 2.13 write different classes for the same thing. What is not known here is refused by the name of
//! its class. No view recurses: a view of a view is the caller's next step.

mod collections;

use crate::java::{Datum, Graph, Node, NodeId, Part};

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
        let Datum::Int(v) = self.unboxed("java.lang.Integer").datum else {
            return Err(self.kind("an int"));
        };
        Ok(v)
    }

    /// A whole number of 64 bits, boxed or not.
    ///
    /// # Errors
    /// It is none.
    pub fn long(self) -> Result<i64, ViewError> {
        let Datum::Long(v) = self.unboxed("java.lang.Long").datum else {
            return Err(self.kind("a long"));
        };
        Ok(v)
    }

    /// A floating point number.
    ///
    /// # Errors
    /// It is none.
    pub fn double(self) -> Result<f64, ViewError> {
        let Datum::Double(v) = self.unboxed("java.lang.Double").datum else {
            return Err(self.kind("a double"));
        };
        Ok(f64::from_bits(v))
    }

    /// A truth value.
    ///
    /// # Errors
    /// It is none.
    pub fn boolean(self) -> Result<bool, ViewError> {
        let Datum::Boolean(v) = self.unboxed("java.lang.Boolean").datum else {
            return Err(self.kind("a boolean"));
        };
        Ok(v)
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
}
