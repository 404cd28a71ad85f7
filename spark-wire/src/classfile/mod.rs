//! What of a class file decides how its objects are written: fields, flags, and the serial version UID.

mod suid;

use cafebabe::{
    ClassFile, FieldAccessFlags, MethodAccessFlags, ParseOptions, attributes::AttributeData,
    constant_pool::LiteralConstant, parse_class_with_options,
};

use crate::dictionary::{ClassInfo, FieldInfo};

pub(crate) use self::suid::default_suid;

/// Flags of a descriptor: fields are written; the class writes something behind them; an enum.
const SERIALIZABLE: u8 = 2;
const WRITE_METHOD: u8 = 1;
const ENUM: u8 = 16;

/// A parsed class, names with dots.
#[derive(Debug)]
pub(crate) struct Class {
    /// Such as `scala.None$`.
    pub(crate) name: String,
    /// The class above.
    pub(crate) parent: Option<String>,
    /// Those it names itself.
    pub(crate) interfaces: Vec<String>,
    /// As a descriptor has it, but for the class above.
    pub(crate) info: ClassInfo,
}

/// Reads a class file.
///
/// # Errors
/// It is damaged, or newer than the parser.
pub(crate) fn parse(bytes: &[u8]) -> Result<Class, String> {
    let mut options = ParseOptions::default();
    options.parse_bytecode(false);
    let class = parse_class_with_options(bytes, &options).map_err(|e| e.to_string())?;
    let parent = class.super_class.as_ref().map(|c| dotted(c));
    let is_enum = parent.as_deref() == Some("java.lang.Enum");
    let info = ClassInfo {
        suid: if is_enum {
            0
        } else {
            explicit_suid(&class).unwrap_or_else(|| default_suid(&class))
        },
        flags: if is_enum {
            SERIALIZABLE | ENUM
        } else {
            flags(&class)
        },
        fields: if is_enum { Vec::new() } else { fields(&class) },
        parent: None,
    };
    Ok(Class {
        name: dotted(&class.this_class),
        interfaces: class.interfaces.iter().map(|c| dotted(c)).collect(),
        parent,
        info,
    })
}

/// `a/b/C` as `a.b.C`.
fn dotted(name: &str) -> String {
    name.replace('/', ".")
}

fn explicit_suid(class: &ClassFile<'_>) -> Option<i64> {
    let wanted = FieldAccessFlags::STATIC | FieldAccessFlags::FINAL;
    let field = class
        .fields
        .iter()
        .find(|f| f.name == "serialVersionUID" && f.access_flags.contains(wanted))?;
    field.attributes.iter().find_map(|attribute| {
        if let AttributeData::ConstantValue(LiteralConstant::Long(suid)) = &attribute.data {
            return Some(*suid);
        }
        None
    })
}

fn flags(class: &ClassFile<'_>) -> u8 {
    let writes = class.methods.iter().any(|m| {
        m.name == "writeObject"
            && m.access_flags.contains(MethodAccessFlags::PRIVATE)
            && m.descriptor.to_string() == "(Ljava/io/ObjectOutputStream;)V"
    });
    if writes {
        SERIALIZABLE | WRITE_METHOD
    } else {
        SERIALIZABLE
    }
}

/// Numbers first, then things, each by name.
fn fields(class: &ClassFile<'_>) -> Vec<FieldInfo> {
    let left_out = FieldAccessFlags::STATIC | FieldAccessFlags::TRANSIENT;
    let mut fields: Vec<FieldInfo> = class
        .fields
        .iter()
        .filter(|f| !f.access_flags.intersects(left_out))
        .map(|f| FieldInfo(f.name.clone().into_owned(), f.descriptor.to_string()))
        .collect();
    fields.sort_by(|a, b| {
        let is_thing = |f: &FieldInfo| f.kind().width().is_none();
        (is_thing(a), &a.0).cmp(&(is_thing(b), &b.0))
    });
    fields
}
