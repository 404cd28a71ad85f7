//! A dictionary: the classes of one build of Spark, with their fields and serial version UIDs.
//!
//! Three are built in, one for each supported line; others are learned from the jars of an installation
//! ([`crate::learn`]) and have the same JSON form.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};

use crate::java::FieldType;

/// The classes of one build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dictionary {
    /// What it is called in logs and on the command line, such as `3.5`, or `3.4.4+2.12.1a2b3c4d` if it is learned.
    pub line: String,
    /// By name.
    pub classes: BTreeMap<String, ClassInfo>,
}

/// One class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassInfo {
    /// In hexadecimal.
    #[serde(with = "hex_suid")]
    pub suid: i64,
    /// How its objects are written: 2 by their fields, 3 with data of their own behind them, 18 an enum.
    pub flags: u8,
    /// In the order of the wire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldInfo>,
    /// The nearest serialisable class above.
    #[serde(default, rename = "super", skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// A field: its name and its type in Java's notation, such as `I` or `Lscala/Option;`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldInfo(pub String, pub String);

/// Why a dictionary is of no use.
#[derive(Debug, thiserror::Error)]
pub enum DictionaryError {
    /// Not the form that this build writes.
    #[error("not a dictionary: {0}")]
    Json(#[from] serde_json::Error),
    /// A class above is missing.
    #[error("{class} extends {parent}, which the dictionary does not have")]
    Parent {
        /// The lower one.
        class: String,
        /// The missing one.
        parent: String,
    },
    /// Classes above each other.
    #[error("{class} is above itself")]
    Circle {
        /// One of them.
        class: String,
    },
    /// A type in no known notation.
    #[error("{class}.{field} has the type {signature:?}, which is none of Java's")]
    Type {
        /// Whose.
        class: String,
        /// Which.
        field: String,
        /// As it stands there.
        signature: String,
    },
    /// Larger than any build needs.
    #[error(
        "a dictionary of {count} classes; at most {} are accepted",
        CLASSES_MAX
    )]
    TooLarge {
        /// How many.
        count: usize,
    },
}

/// Most classes of one dictionary; a build needs about 80.
pub const CLASSES_MAX: usize = 1000;

/// Stands in the name of every learned dictionary, and of no built-in one.
pub const LEARNED: char = '+';

/// Longest chain of classes above each other.
const PARENTS_MAX: usize = 20;

static BUILT_IN: LazyLock<Vec<Dictionary>> = LazyLock::new(|| {
    let files = [
        include_str!("../dictionaries/spark-3.5.json"),
        include_str!("../dictionaries/spark-4.0.json"),
        include_str!("../dictionaries/spark-4.1.json"),
    ];
    // A test reads them all.
    files
        .iter()
        .filter_map(|json| Dictionary::from_json(json).ok())
        .collect()
});

/// The dictionaries that need no installation: Spark 3.5 (Scala 2.12), 4.0 and 4.1.
#[must_use]
pub fn built_in() -> &'static [Dictionary] {
    &BUILT_IN
}

// === impl Dictionary ===

impl Dictionary {
    /// Reads and checks the JSON form.
    ///
    /// # Errors
    /// It is not JSON of this form, or its classes do not fit together.
    pub fn from_json(json: &str) -> Result<Self, DictionaryError> {
        let dictionary: Self = serde_json::from_str(json)?;
        dictionary.check()?;
        Ok(dictionary)
    }

    /// The JSON form.
    ///
    /// # Errors
    /// Never in practice.
    pub fn to_json(&self) -> Result<String, DictionaryError> {
        Ok(serde_json::to_string(self)?)
    }

    /// Whether it comes from somebody's jars.
    #[must_use]
    pub fn is_learned(&self) -> bool {
        self.line.contains(LEARNED)
    }

    /// A class.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&ClassInfo> {
        self.classes.get(name)
    }

    /// Scala 2.13 and later write an `object` as a proxy, Scala 2.12 as itself.
    #[must_use]
    pub fn has_singleton_proxies(&self) -> bool {
        self.classes
            .contains_key("scala.runtime.ModuleSerializationProxy")
    }

    /// Whether its classes fit together.
    ///
    /// # Errors
    /// Names what does not.
    pub fn check(&self) -> Result<(), DictionaryError> {
        let count = self.classes.len();
        if count > CLASSES_MAX {
            return Err(DictionaryError::TooLarge { count });
        }
        for (name, class) in &self.classes {
            for FieldInfo(field, signature) in &class.fields {
                if field_type(signature).is_none() {
                    return Err(DictionaryError::Type {
                        class: name.clone(),
                        field: field.clone(),
                        signature: signature.clone(),
                    });
                }
            }
            self.check_parents(name, class)?;
        }
        Ok(())
    }

    fn check_parents(&self, name: &str, class: &ClassInfo) -> Result<(), DictionaryError> {
        let mut lower = class;
        for _ in 0..PARENTS_MAX {
            let Some(parent) = &lower.parent else {
                return Ok(());
            };
            let Some(upper) = self.class(parent) else {
                return Err(DictionaryError::Parent {
                    class: name.to_owned(),
                    parent: parent.clone(),
                });
            };
            lower = upper;
        }
        let class = name.to_owned();
        Err(DictionaryError::Circle { class })
    }
}

// === impl FieldInfo ===

impl FieldInfo {
    /// The type; `Object` where the notation is unknown, which [`Dictionary::check`] forbids.
    #[must_use]
    pub fn kind(&self) -> FieldType {
        field_type(&self.1).unwrap_or(FieldType::Object)
    }
}

fn field_type(signature: &str) -> Option<FieldType> {
    let bytes = signature.as_bytes();
    let kind = FieldType::from_code(*bytes.first()?)?;
    let whole = match kind {
        FieldType::Object => bytes.ends_with(b";") && bytes.len() > 2,
        FieldType::Array => bytes.len() > 1,
        FieldType::Byte
        | FieldType::Char
        | FieldType::Double
        | FieldType::Float
        | FieldType::Int
        | FieldType::Long
        | FieldType::Short
        | FieldType::Boolean => bytes.len() == 1,
    };
    whole.then_some(kind)
}

mod hex_suid {
    //! Serial version UIDs as 16 hexadecimal digits.

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(suid: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{suid:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bits = u64::from_str_radix(&text, 16).map_err(D::Error::custom)?;
        Ok(i64::from_be_bytes(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_built_in_dictionaries_are_sound() {
        let lines: Vec<&str> = built_in().iter().map(|d| d.line.as_str()).collect();
        assert_eq!(lines, ["3.5", "4.0", "4.1"]);
        for dictionary in built_in() {
            dictionary.check().expect("sound");
        }
    }

    #[test]
    fn the_json_form_comes_back() {
        for dictionary in built_in() {
            let json = dictionary.to_json().expect("JSON");
            let read = Dictionary::from_json(&json).expect("its own form");
            assert_eq!(&read, dictionary);
        }
    }

    #[test]
    fn only_scala_2_13_writes_proxies() {
        let proxies: Vec<bool> = built_in()
            .iter()
            .map(Dictionary::has_singleton_proxies)
            .collect();
        assert_eq!(proxies, [false, true, true]);
    }

    #[test]
    fn what_does_not_fit_together_is_refused_by_name() {
        let refused = |json: &str| {
            Dictionary::from_json(json)
                .expect_err("unsound")
                .to_string()
        };
        let parent = r#"{"line":"x","classes":{"a":{"suid":"01","flags":2,"super":"b"}}}"#;
        assert_eq!(
            refused(parent),
            "a extends b, which the dictionary does not have"
        );
        let circle = r#"{"line":"x","classes":{"a":{"suid":"01","flags":2,"super":"a"}}}"#;
        assert_eq!(refused(circle), "a is above itself");
        let kind = r#"{"line":"x","classes":{"a":{"suid":"01","flags":2,"fields":[["f","Q"]]}}}"#;
        assert_eq!(
            refused(kind),
            "a.f has the type \"Q\", which is none of Java's"
        );
        assert!(refused("{}").starts_with("not a dictionary"));
    }
}
