//! Requests one by one, where a tool's files have a line for each.

/// The most that are kept.
pub const MAX_SAMPLES: u64 = 20_000_000;

/// One request that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Which of all connections it went over, those that replaced a broken one included.
    pub connection: u32,
    /// When it was sent, or its connection opened for it, in nanoseconds since 1970.
    pub began_unix_ns: u64,
    /// Opening its connection, TLS included; nothing where it was open.
    pub connect_ns: u64,
    /// From the connection until the first byte of the answer.
    pub first_byte_ns: u64,
    /// From the connection until the last byte of the answer.
    pub answer_ns: u64,
    /// The answer's status; none where there was no answer.
    pub status: Option<u16>,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// The connection stayed open after it.
    pub keep_alive: bool,
}

impl Sample {
    /// From the beginning until the last byte.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.connect_ns + self.answer_ns
    }
}
