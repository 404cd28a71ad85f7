//! Scala's sequences and maps, and Java's arrays of strings.
//!
//! Scala 2.12 and 2.13 each have one form that takes any number of elements: lists and hash maps of 2.12 write proxies
//! of their own, collections of 2.13 one proxy with the factory of the collection in it.

use super::{WriteError, Writer};
use crate::{
    java::{EmitError, Tag},
    value::Value,
};

const LIST_212: &str = "scala.collection.immutable.List$SerializationProxy";
const LIST_END_212: &str = "scala.collection.immutable.ListSerializeEnd$";
const MAP_212: &str = "scala.collection.immutable.HashMap$SerializationProxy";
const PROXY_213: &str = "scala.collection.generic.DefaultSerializationProxy";
const LIST_FACTORY: &str = "scala.collection.IterableFactory$ToFactory";
const LIST: &str = "scala.collection.immutable.List$";
const MAP_FACTORY: &str = "scala.collection.MapFactory$ToFactory";
const MAP: &str = "scala.collection.immutable.Map$";
const STRING_ARRAY: &str = "[Ljava.lang.String;";
/// Explicit in the JVM.
const STRING_ARRAY_SUID: i64 = -5_921_575_005_990_323_385;
const SERIALIZABLE: u8 = 2;

// === impl Writer ===

impl<'v> Writer<'v> {
    pub(super) fn seq(&mut self, items: &[Value<'v>]) -> Result<(), WriteError> {
        self.out.down()?;
        if self.dictionary.has_singleton_proxies() {
            self.proxy(LIST_FACTORY, LIST, items.len())?;
            for item in items {
                self.thing(item)?;
            }
        } else {
            self.head(LIST_212)?;
            for item in items {
                self.thing(item)?;
            }
            self.singleton(LIST_END_212)?;
        }
        self.out.tag(Tag::EndBlockData);
        self.out.up();
        Ok(())
    }

    pub(super) fn map(&mut self, pairs: &[(Value<'v>, Value<'v>)]) -> Result<(), WriteError> {
        self.out.down()?;
        if self.dictionary.has_singleton_proxies() {
            self.proxy(MAP_FACTORY, MAP, pairs.len())?;
            for (key, value) in pairs {
                let fields = [("_1", key.clone()), ("_2", value.clone())];
                self.object("scala.Tuple2", &fields)?;
            }
        } else {
            self.head(MAP_212)?;
            self.count(pairs.len())?;
            for (key, value) in pairs {
                self.thing(key)?;
                self.thing(value)?;
            }
        }
        self.out.tag(Tag::EndBlockData);
        self.out.up();
        Ok(())
    }

    pub(super) fn strings(&mut self, texts: &[String]) -> Result<(), WriteError> {
        self.out.tag(Tag::Array);
        if let Some(handle) = self.string_array {
            self.out.reference(handle);
        } else {
            self.out.tag(Tag::ClassDesc);
            self.out.name(STRING_ARRAY)?;
            self.out.bytes(&STRING_ARRAY_SUID.to_be_bytes());
            self.string_array = Some(self.out.new_handle());
            self.out.bytes(&[SERIALIZABLE, 0, 0]);
            self.out.tag(Tag::EndBlockData);
            self.out.tag(Tag::Null);
        }
        self.out.new_handle();
        self.out.bytes(&number(texts.len())?);
        for text in texts {
            self.text(text)?;
        }
        Ok(())
    }

    /// An object of a class without fields, open for what the class writes by itself.
    fn head(&mut self, class: &str) -> Result<(), WriteError> {
        self.out.tag(Tag::Object);
        self.class(class)?;
        self.out.new_handle();
        Ok(())
    }

    /// The proxy of Scala 2.13, up to its elements.
    fn proxy(
        &mut self,
        factory: &'static str,
        companion: &'static str,
        count: usize,
    ) -> Result<(), WriteError> {
        self.head(PROXY_213)?;
        let companion = Value::Singleton(companion);
        self.object(factory, &[("factory", companion)])?;
        self.count(count)
    }

    /// How many elements follow, as a block.
    fn count(&mut self, count: usize) -> Result<(), WriteError> {
        let count = number(count)?;
        self.out.block(&count)?;
        Ok(())
    }
}

fn number(count: usize) -> Result<[u8; 4], WriteError> {
    let count = i32::try_from(count).map_err(|_ignored| EmitError::TooLarge)?;
    Ok(count.to_be_bytes())
}
