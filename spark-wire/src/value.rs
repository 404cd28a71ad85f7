//! What is to be written, without a version of Spark in mind: [`crate::writer`] lays it out by a dictionary.

use crate::java::{Datum, Graph};

/// A value of a message. Class names are Java's (`scala.Some`).
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'g> {
    /// `null`
    Null,
    /// A `boolean` field.
    Bool(bool),
    /// An `int` field.
    Int(i32),
    /// A `long` field.
    Long(i64),
    /// A `double` field.
    Double(f64),
    /// A string. Equal ones may be written once.
    Text(String),
    /// An object. Fields may be those of any class of its hierarchy, in any order; the ones that are left out are
    /// written as zero or null.
    Object(&'static str, Vec<(&'static str, Value<'g>)>),
    /// A Scala `object`, such as `scala.None$`.
    Singleton(&'static str),
    /// A value of a `scala.Enumeration`: the enumeration's `object`, and the value's number.
    Enumeration(&'static str, i32),
    /// A constant of a Java `enum`.
    Constant(&'static str, &'static str),
    /// A Scala sequence, of things.
    Seq(Vec<Value<'g>>),
    /// A Scala map, of things.
    Map(Vec<(Value<'g>, Value<'g>)>),
    /// A Java array of strings.
    Strings(Vec<String>),
    /// Part of a parsed message, written with the descriptors that it came with.
    Parsed(&'g Graph, Datum),
}

// === impl Value ===

impl<'g> Value<'g> {
    /// A string.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// `Some(value)` or `None`.
    #[must_use]
    pub fn option(value: Option<Self>) -> Self {
        match value {
            Some(value) => Self::Object("scala.Some", vec![("value", value)]),
            None => Self::Singleton("scala.None$"),
        }
    }

    /// A Scala sequence of strings.
    #[must_use]
    pub fn texts<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Self {
        Self::Seq(texts.into_iter().map(Self::text).collect())
    }

    /// A number where Java wants an object.
    #[must_use]
    pub fn boxed_int(value: i32) -> Self {
        Self::Object("java.lang.Integer", vec![("value", Value::Int(value))])
    }

    /// A truth value where Java wants an object.
    #[must_use]
    pub fn boxed_bool(value: bool) -> Self {
        Self::Object("java.lang.Boolean", vec![("value", Value::Bool(value))])
    }
}
