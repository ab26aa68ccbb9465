//! Streams that keep a window while they run, Brotli and Zstandard: a bounded number of them, each with bounded
//! memory, their contexts used again.

use std::fmt;
use std::rc::Rc;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation as Operation, BrotliEncoderParameter as Parameter, BrotliEncoderStateStruct,
};
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use crate::{Ending, Level};

/// Brotli and Zstandard streams of a worker at a time: at 1 to 2 MB each some 100 MB.
pub const MAX_WINDOWS: usize = 64;

/// Contexts kept for the next stream; more are freed.
const MOST_KEPT: usize = 8;

/// log2 of Brotli's window: with more the ratio hardly gains, but memory grows.
const BROTLI_WINDOW: u32 = 16;

/// Room that Brotli is given at a time.
const BROTLI_OUTPUT: usize = 4 * 1024;
/// log2 of Zstandard's window. RFC 9659: at most 23.
const ZSTD_WINDOW: u32 = 17;

/// Room that Zstandard is given at a time.
const ZSTD_OUTPUT: usize = 16 * 1024;

/// Writing to a vector cannot fail, and a context fails only for want of memory.
const INFALLIBLE: &str = "an encoder into memory fails only without memory";

/// What the streams of a worker share.
#[derive(Default)]
pub(crate) struct Pool {
    /// One reference here, and one for each stream.
    streams: Rc<()>,
    free: Vec<CCtx<'static>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} streams, {} free)", Rc::strong_count(&self.streams) - 1, self.free.len())
    }
}

impl Pool {
    pub(crate) fn has_room(&self) -> bool {
        Rc::strong_count(&self.streams) <= MAX_WINDOWS
    }
}

type Brotli = BrotliEncoderStateStruct<StandardAlloc>;

/// What a stream is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Coding {
    Brotli,
    Zstd,
}

/// One stream.
pub(crate) struct Windowed {
    stream: Stream,
    /// The body may be kept, and copied where it was kept before.
    may_reuse: bool,
    /// Held for the count.
    _counted: Rc<()>,
}

enum Stream {
    /// Nothing was given yet: a body that is known as a whole needs no context.
    NotYet(Coding, Level),
    /// It cannot be used again: its memory goes back to the allocator.
    Brotli(Box<Brotli>),
    Zstd(CCtx<'static>),
}

impl fmt::Debug for Windowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stream {
            Stream::NotYet(..) => "NotYet",
            Stream::Brotli(_) => "Brotli",
            Stream::Zstd(_) => "Zstd",
        })
    }
}

impl Windowed {
    pub(crate) fn new(coding: Coding, level: Level, pool: &Pool) -> Self {
        Self { stream: Stream::NotYet(coding, level), may_reuse: false, _counted: Rc::clone(&pool.streams) }
    }

    pub(crate) fn with_reuse(self) -> Self {
        Self { may_reuse: true, ..self }
    }

    pub(crate) const fn may_reuse(&self) -> bool {
        self.may_reuse
    }

    /// How it is to be written, before the first piece.
    pub(crate) const fn before_the_first(&self) -> Option<(Coding, Level)> {
        match self.stream {
            Stream::NotYet(coding, level) => Some((coding, level)),
            Stream::Brotli(_) | Stream::Zstd(_) => None,
        }
    }

    pub(crate) fn encode(&mut self, piece: &[u8], ending: Ending, out: &mut Vec<u8>, pool: &mut Pool) {
        if let Stream::NotYet(coding, level) = self.stream {
            self.stream = match coding {
                Coding::Brotli => Stream::Brotli(brotli(level)),
                Coding::Zstd => Stream::Zstd(zstd(level, pool)),
            };
        }
        match &mut self.stream {
            Stream::Brotli(encoder) => {
                let operation = match ending {
                    Ending::Open => Operation::BROTLI_OPERATION_PROCESS,
                    Ending::Flush => Operation::BROTLI_OPERATION_FLUSH,
                    Ending::Finish => Operation::BROTLI_OPERATION_FINISH,
                };
                encode_brotli(encoder, piece, operation, out);
            }
            Stream::Zstd(context) => {
                let directive = match ending {
                    Ending::Open => Directive::ZSTD_e_continue,
                    Ending::Flush => Directive::ZSTD_e_flush,
                    Ending::Finish => Directive::ZSTD_e_end,
                };
                encode_zstd(context, piece, directive, out);
            }
            // It began above.
            Stream::NotYet(..) => {}
        }
    }

    /// The stream has ended: what can be used again is kept.
    pub(crate) fn give_back(self, pool: &mut Pool) {
        if let Stream::Zstd(mut context) = self.stream
            && pool.free.len() < MOST_KEPT
            && context.reset(ResetDirective::SessionOnly).is_ok()
        {
            pool.free.push(context);
        }
    }
}

fn brotli(level: Level) -> Box<Brotli> {
    let quality = match level {
        Level::Fast => 0,
        Level::Default => 2,
        Level::High => 4,
    };
    let mut encoder = Box::new(Brotli::new(StandardAlloc::default()));
    encoder.set_parameter(Parameter::BROTLI_PARAM_QUALITY, quality);
    encoder.set_parameter(Parameter::BROTLI_PARAM_LGWIN, BROTLI_WINDOW);
    encoder
}

fn zstd(level: Level, pool: &mut Pool) -> CCtx<'static> {
    let level = match level {
        Level::Fast => 1,
        Level::Default => 3,
        Level::High => 5,
    };
    let mut context = pool.free.pop().unwrap_or_else(CCtx::create);
    for parameter in [CParameter::CompressionLevel(level), CParameter::WindowLog(ZSTD_WINDOW)] {
        context.set_parameter(parameter).expect("a level and a window that Zstandard allows");
    }
    context
}

fn encode_brotli(encoder: &mut Brotli, piece: &[u8], operation: Operation, out: &mut Vec<u8>) {
    let (mut left, mut at) = (piece.len(), 0);
    loop {
        let mut end = out.len();
        let mut room = BROTLI_OUTPUT;
        out.resize(end + room, 0);
        let good = encoder.compress_stream(
            operation,
            &mut left,
            piece,
            &mut at,
            &mut room,
            out,
            &mut end,
            &mut None,
            &mut |_, _, _, _| {},
        );
        out.truncate(end);
        assert!(good, "{INFALLIBLE}");
        if left == 0 && !encoder.has_more_output() {
            return;
        }
    }
}

fn encode_zstd(context: &mut CCtx<'static>, piece: &[u8], directive: Directive, out: &mut Vec<u8>) {
    let mut input = InBuffer::around(piece);
    loop {
        out.reserve(ZSTD_OUTPUT);
        let start = out.len();
        let mut output = OutBuffer::around_pos(out, start);
        let left = context.compress_stream2(&mut output, &mut input, directive).expect(INFALLIBLE);
        let done = match directive {
            Directive::ZSTD_e_continue => input.pos == piece.len(),
            Directive::ZSTD_e_flush | Directive::ZSTD_e_end => left == 0,
        };
        if done {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_while_their_streams_live() {
        let mut pool = Pool::default();
        let mut streams: Vec<_> =
            (0..MAX_WINDOWS - 1).map(|_| Windowed::new(Coding::Brotli, Level::Fast, &pool)).collect();
        assert!(pool.has_room());
        streams.push(Windowed::new(Coding::Zstd, Level::Fast, &pool));
        assert!(!pool.has_room());
        let last = streams.pop().expect("a stream");
        last.give_back(&mut pool);
        assert!(pool.has_room());
        // One that its client left in the middle.
        streams.pop();
        assert_eq!(Rc::strong_count(&pool.streams), MAX_WINDOWS - 1);
    }

    #[test]
    fn a_context_is_used_again_and_remembers_nothing() {
        let mut pool = Pool::default();
        let body = b"first stream, then another, and each the same".repeat(9);
        let mut encode = |level| {
            let mut stream = Windowed::new(Coding::Zstd, level, &pool);
            let mut out = Vec::new();
            stream.encode(&body, Ending::Finish, &mut out, &mut pool);
            stream.give_back(&mut pool);
            (out, pool.free.len())
        };
        let first = encode(Level::Default);
        assert_eq!(first.1, 1);
        encode(Level::High);
        assert_eq!(encode(Level::Default), first);
    }

    #[test]
    fn contexts_kept_are_few() {
        let mut pool = Pool::default();
        let mut begin = || {
            let mut stream = Windowed::new(Coding::Zstd, Level::Fast, &pool);
            stream.encode(b"begun", Ending::Open, &mut Vec::new(), &mut pool);
            stream
        };
        let streams: Vec<_> = (0..MOST_KEPT + 3).map(|_| begin()).collect();
        streams.into_iter().for_each(|stream| stream.give_back(&mut pool));
        assert_eq!(pool.free.len(), MOST_KEPT);
    }
}
