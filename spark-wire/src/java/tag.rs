//! The bytes that say what comes next in a stream.

/// Magic and version of every stream.
pub(crate) const HEADER: [u8; 4] = [0xac, 0xed, 0, 5];

/// Handles count from here.
pub(crate) const HANDLE_BASE: u32 = 0x007e_0000;

/// Class flags.
pub(crate) mod flag {
    /// The class writes data of its own behind its fields.
    pub(crate) const WRITE_METHOD: u8 = 1;
    /// Fields are written.
    pub(crate) const SERIALIZABLE: u8 = 2;
    /// The class writes everything itself.
    pub(crate) const EXTERNALIZABLE: u8 = 4;
    /// What an externalizable class writes comes in blocks.
    pub(crate) const BLOCK_DATA: u8 = 8;
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Null = 0x70,
    Reference = 0x71,
    ClassDesc = 0x72,
    Object = 0x73,
    String = 0x74,
    Array = 0x75,
    Class = 0x76,
    BlockData = 0x77,
    EndBlockData = 0x78,
    Reset = 0x79,
    BlockDataLong = 0x7a,
    Exception = 0x7b,
    LongString = 0x7c,
    ProxyClassDesc = 0x7d,
    Enum = 0x7e,
}

// === impl Tag ===

impl Tag {
    /// Nothing for a byte that is no tag.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x70 => Self::Null,
            0x71 => Self::Reference,
            0x72 => Self::ClassDesc,
            0x73 => Self::Object,
            0x74 => Self::String,
            0x75 => Self::Array,
            0x76 => Self::Class,
            0x77 => Self::BlockData,
            0x78 => Self::EndBlockData,
            0x79 => Self::Reset,
            0x7a => Self::BlockDataLong,
            0x7b => Self::Exception,
            0x7c => Self::LongString,
            0x7d => Self::ProxyClassDesc,
            0x7e => Self::Enum,
            _ => return None,
        })
    }
}
