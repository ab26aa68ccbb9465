//! When the stages of a transaction were reached.

/// Times of a transaction in milliseconds; `None` where the stage was not reached (logged as -1).
#[derive(Clone, Copy, Default, Debug)]
pub struct Timers {
    /// Wall clock at the first byte of the request (or accept in TCP mode), microseconds since 1970.
    pub start_us: u64,
    /// `%Th`: connection handshakes (PROXY, TLS).
    pub handshake_ms: Option<u32>,
    /// `%Ti`: idle time before the request.
    pub idle_ms: Option<u32>,
    /// `%TR`: time to receive the full request head.
    pub request_ms: Option<u32>,
    /// `%Tw`: time in queues.
    pub queue_ms: Option<u32>,
    /// `%Tc`: time to connect to the server.
    pub connect_ms: Option<u32>,
    /// `%Tr`: time until the response's head.
    pub response_ms: Option<u32>,
    /// `%Td`: data transfer.
    pub data_ms: Option<u32>,
    /// `%Ta`: active time of the request.
    pub active_ms: Option<u32>,
    /// `%Tt`: total.
    pub total_ms: Option<u32>,
}

impl Timers {
    /// `%Tq`: handshakes, idle time and the request's head; -1 before the head was there.
    pub(crate) fn tq_ms(&self) -> i64 {
        let part = |ms: Option<u32>| i64::from(ms.unwrap_or(0));
        self.request_ms.map_or(-1, |ms| i64::from(ms) + part(self.handshake_ms) + part(self.idle_ms))
    }

    /// `%Tu`: the total without the idle time.
    pub(crate) fn user_ms(&self) -> Option<u32> {
        self.total_ms.map(|total| total.saturating_sub(self.idle_ms.unwrap_or(0)))
    }
}
