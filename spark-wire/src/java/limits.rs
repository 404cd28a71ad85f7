//! How large a stream may be once it is read.

/// Bounds of one stream. All of them are hard: the reader stops at the first that is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the stream. Default 16 MiB.
    pub bytes: usize,
    /// Things inside things. Default 100; the deepest message of a real peer has about 20.
    pub depth: usize,
    /// Objects, strings, arrays, enum constants and class objects. Default 200,000.
    pub nodes: usize,
    /// Fields and elements that refer to something or hold a number, class parts of objects, and class fields: each
    /// takes some tens of bytes of memory. Default 500,000.
    pub slots: usize,
    /// Bytes of one string. Default 1 MiB.
    pub string_bytes: usize,
    /// Bytes of one array of numbers, or of one block. Default 8 MiB.
    pub block_bytes: usize,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024 * 1024,
            depth: 100,
            nodes: 200_000,
            slots: 500_000,
            string_bytes: 1024 * 1024,
            block_bytes: 8 * 1024 * 1024,
        }
    }
}
