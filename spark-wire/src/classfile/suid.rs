//! The serial version UID of a class that has none of its own: section 4.6 of the Java Object Serialization
//! Specification.

use cafebabe::{ClassFile, attributes::AttributeData};
use sha1::{Digest, Sha1};

use crate::java::mutf8;

const PUBLIC: u16 = 0x0001;
const PRIVATE: u16 = 0x0002;
const PROTECTED: u16 = 0x0004;
const STATIC: u16 = 0x0008;
const FINAL: u16 = 0x0010;
const SYNCHRONIZED: u16 = 0x0020;
const VOLATILE: u16 = 0x0040;
const TRANSIENT: u16 = 0x0080;
const NATIVE: u16 = 0x0100;
const INTERFACE: u16 = 0x0200;
const ABSTRACT: u16 = 0x0400;
const STRICT: u16 = 0x0800;

const CLASS_FLAGS: u16 = PUBLIC | FINAL | INTERFACE | ABSTRACT;
const FIELD_FLAGS: u16 = PUBLIC | PRIVATE | PROTECTED | STATIC | FINAL | VOLATILE | TRANSIENT;
const METHOD_FLAGS: u16 =
    PUBLIC | PRIVATE | PROTECTED | STATIC | FINAL | SYNCHRONIZED | NATIVE | ABSTRACT | STRICT;

/// What Java's `DataOutputStream` would be given.
#[derive(Default)]
struct Words(Sha1);

/// A method or constructor.
struct Member {
    name: String,
    signature: String,
    flags: u16,
}

/// The UID that the JVM computes for this class.
pub(crate) fn default_suid(class: &ClassFile<'_>) -> i64 {
    let mut words = Words::default();
    words.text(&class.this_class.replace('/', "."));
    words.flags(class_flags(class));
    let mut interfaces: Vec<String> = class
        .interfaces
        .iter()
        .map(|i| i.replace('/', "."))
        .collect();
    interfaces.sort_unstable();
    for interface in interfaces {
        words.text(&interface);
    }
    fields(class, &mut words);
    methods(class, &mut words);
    let hash = words.0.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_le_bytes(first)
}

fn class_flags(class: &ClassFile<'_>) -> u16 {
    // A nested class has its real flags in the list of inner classes.
    let mut inner = None;
    for attribute in &class.attributes {
        if let AttributeData::InnerClasses(entries) = &attribute.data {
            let mut own = entries
                .iter()
                .filter(|e| *e.inner_class_info == *class.this_class);
            inner = own.next().map(|e| e.access_flags.bits());
        }
    }
    let flags = inner.unwrap_or_else(|| class.access_flags.bits()) & CLASS_FLAGS;
    if flags & INTERFACE == 0 {
        return flags;
    }
    // As in the JVM: an interface is abstract if it has methods.
    if class.methods.is_empty() {
        flags & !ABSTRACT
    } else {
        flags | ABSTRACT
    }
}

fn fields(class: &ClassFile<'_>, words: &mut Words) {
    let mut fields: Vec<_> = class.fields.iter().collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    for field in fields {
        let flags = field.access_flags.bits() & FIELD_FLAGS;
        if flags & PRIVATE == 0 || flags & (STATIC | TRANSIENT) == 0 {
            words.text(&field.name);
            words.flags(flags);
            words.text(&field.descriptor.to_string());
        }
    }
}

fn methods(class: &ClassFile<'_>, words: &mut Words) {
    let mut members: Vec<Member> = class
        .methods
        .iter()
        .map(|m| Member {
            name: m.name.clone().into_owned(),
            signature: m.descriptor.to_string(),
            flags: m.access_flags.bits() & METHOD_FLAGS,
        })
        .collect();
    if members.iter().any(|m| m.name == "<clinit>") {
        words.text("<clinit>");
        words.flags(STATIC);
        words.text("()V");
    }
    members.retain(|m| m.flags & PRIVATE == 0 && m.name != "<clinit>");
    let order = |m: &Member| (m.name != "<init>", m.name.clone(), m.signature.clone());
    members.sort_by_key(order);
    for member in members {
        words.text(&member.name);
        words.flags(member.flags);
        words.text(&member.signature.replace('/', "."));
    }
}

// === impl Words ===

impl Words {
    fn text(&mut self, text: &str) {
        let bytes = mutf8::encode(text);
        // No name in a class file is longer than this.
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.0.update(length.to_be_bytes());
        self.0.update(bytes);
    }

    fn flags(&mut self, flags: u16) {
        self.0.update(u32::from(flags).to_be_bytes());
    }
}
