//! Nothing that is used again changes an output: a body encoded after others, with what they left in the worker's
//! memory, is what it is alone.

use proptest::prelude::*;
use weir_compress::{Algorithm, BodyEncoder, Content, Ending, Level, Scratch};

/// A body: what it is made of, and how it is cut.
#[derive(Clone, Debug)]
struct Body {
    algorithm: Algorithm,
    level: Level,
    pieces: Vec<(Piece, Ending)>,
    /// Its client stays until the end.
    ends: bool,
    may_be_kept: bool,
}

/// Bytes that are made when they are needed: a failure shows what they are made of.
#[derive(Clone, Copy, Debug)]
struct Piece {
    length: usize,
    seed: u32,
    period: usize,
}

impl Piece {
    /// Text that looks back at itself, and noise.
    fn bytes(self) -> Vec<u8> {
        let mut state = self.seed;
        let mut next = |at: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match at / self.period % 3 {
                0 => b"<p class=\"line\">secret</p>"[at % 26],
                1 => b'a' + (state >> 28) as u8,
                _ => (state >> 24) as u8,
            }
        };
        (0..self.length).map(&mut next).collect()
    }
}

/// Lengths around those of windows and tables too.
fn piece() -> impl Strategy<Value = Piece> {
    let length = prop_oneof![0..300_usize, 1000..5000_usize, 32_700..32_800_usize, 65_500..65_600_usize];
    (length, any::<u32>(), 1..200_usize).prop_map(|(length, seed, period)| Piece { length, seed, period })
}

fn body() -> impl Strategy<Value = Body> {
    let ending = prop::sample::select(vec![Ending::Open, Ending::Flush]);
    let pieces = prop::collection::vec((piece(), ending), 1..4);
    let level = prop::sample::select(vec![Level::Fast, Level::Default, Level::High]);
    let algorithm = prop::sample::select(Algorithm::ALL.to_vec());
    (algorithm, level, pieces, any::<bool>(), any::<bool>()).prop_map(
        |(algorithm, level, pieces, ends, may_be_kept)| Body { algorithm, level, pieces, ends, may_be_kept },
    )
}

fn encode(body: &Body, ends: bool, scratch: &mut Scratch) -> Vec<u8> {
    let encoder = BodyEncoder::new(body.algorithm, body.level, Content::Html, scratch);
    let mut encoder = if body.may_be_kept { encoder.with_reuse(scratch) } else { encoder };
    let mut out = Vec::new();
    for (piece, ending) in &body.pieces {
        encoder.encode(&piece.bytes(), *ending, &mut out, scratch);
    }
    if ends {
        encoder.encode(b"", Ending::Finish, &mut out, scratch);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tables of deflate, contexts of Zstandard, what is kept of earlier bodies, windows.
    #[test]
    fn a_body_after_others_is_encoded_to_the_same(
        before in prop::collection::vec(body(), 1..4),
        last in body(),
        memory in prop::sample::select(vec![(0, 0), (0, 1 << 20), (1 << 20, 0)]),
    ) {
        let fresh = || Scratch::with_window_memory(memory.0).with_reuse_memory(memory.1);
        let mut used = fresh();
        for body in &before {
            encode(body, body.ends, &mut used);
        }
        let alone = encode(&last, true, &mut fresh());
        for _ in 0..3 {
            prop_assert!(encode(&last, true, &mut used) == alone);
        }
    }

    /// Bodies that go on at the same time do not see each other.
    #[test]
    fn bodies_that_take_turns_are_encoded_to_the_same(one in body(), other in body()) {
        let mut scratch = Scratch::new();
        let bodies = [&one, &other];
        let alone = bodies.map(|body| encode(body, true, &mut Scratch::new()));
        let mut running = bodies.map(|body| {
            (BodyEncoder::new(body.algorithm, body.level, Content::Html, &scratch), Vec::new())
        });
        for turn in 0..=one.pieces.len().max(other.pieces.len()) {
            for (body, (encoder, out)) in bodies.into_iter().zip(&mut running) {
                match body.pieces.get(turn) {
                    Some((piece, ending)) => encoder.encode(&piece.bytes(), *ending, out, &mut scratch),
                    None => encoder.encode(b"", Ending::Finish, out, &mut scratch),
                }
            }
        }
        for ((_, out), alone) in running.iter().zip(&alone) {
            prop_assert!(out == alone);
        }
    }
}
