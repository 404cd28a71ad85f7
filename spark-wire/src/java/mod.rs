//! Java object streams as data: nothing is instantiated, so a hostile stream can only be long or deep, which
//! [`Limits`] forbids.

mod emit;
mod graph;
mod limits;
pub mod mutf8;
mod read;
mod tag;

pub use self::{
    emit::emit,
    graph::{ClassDesc, ClassId, Content, Datum, Field, FieldType, Graph, Node, NodeId, Part},
    limits::Limits,
    read::{StreamError, read},
};
pub(crate) use self::{
    emit::{EmitError, Emitter, GraphEmitter},
    tag::Tag,
};
