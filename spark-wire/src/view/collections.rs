//! Scala's and Java's sequences and maps, in all the forms that Spark writes.

use super::{View, ViewError};
use crate::java::{Content, Node};

const PROXY_213: &str = "scala.collection.generic.DefaultSerializationProxy";
/// Wrappers around maps that are looked through: a wrapper in a wrapper in a wrapper.
const WRAPPERS_MAX: usize = 4;
/// Fields of Scala 2.12's `Vector`, from its leaves up: an element's place is its number in base 32.
const VECTOR_LEVELS: [&str; 6] = [
    "display0", "display1", "display2", "display3", "display4", "display5",
];
/// Most elements of a `Vector` that are read.
const VECTOR_MAX: i32 = 100_000;

// === impl View ===

impl<'g> View<'g> {
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
            "scala.collection.immutable.Vector" => self.vector(),
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

    /// The elements of a Java array.
    ///
    /// # Errors
    /// It is none.
    pub fn array(self) -> Result<Vec<Self>, ViewError> {
        let node = self.id().and_then(|id| self.graph.node(id));
        let Some(Node::Array { items, .. }) = node else {
            return Err(self.kind("an array"));
        };
        Ok(items.iter().map(|d| self.at(*d)).collect())
    }

    /// The tree of Scala 2.12; 2.13 writes a proxy instead.
    fn vector(self) -> Result<Vec<Self>, ViewError> {
        let (first, end) = (
            self.field("startIndex")?.int()?,
            self.field("endIndex")?.int()?,
        );
        let depth = usize::try_from(self.field("depth")?.int()?);
        let depth = depth.ok().filter(|d| *d <= VECTOR_LEVELS.len());
        let depth = depth.ok_or_else(|| self.damaged())?;
        if first < 0 || end.saturating_sub(first) > VECTOR_MAX {
            return Err(self.damaged());
        }
        let Some(top) = depth.checked_sub(1) else {
            return Ok(Vec::new());
        };
        let root = self.field(VECTOR_LEVELS[top])?;
        (first..end)
            .map(|number| root.vector_element(number, top))
            .collect()
    }

    fn vector_element(self, number: i32, top: usize) -> Result<Self, ViewError> {
        let mut inner = self;
        for level in (0..=top).rev() {
            let place = usize::try_from((number >> (5 * level)) & 31).ok();
            let node = inner.id().and_then(|id| inner.graph.node(id));
            let Some(Node::Array { items, .. }) = node else {
                return Err(inner.kind("an array"));
            };
            let item = place.and_then(|p| items.get(p));
            inner = inner.at(*item.ok_or_else(|| self.damaged())?);
        }
        Ok(inner)
    }
}
