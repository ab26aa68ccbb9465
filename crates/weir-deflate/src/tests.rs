//! Round trips through other inflaters, and the bound on growth.

use std::io::Read;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

extern crate std;

mod isolation;

const FORMATS: [Format; 3] = [Format::Gzip, Format::Zlib, Format::Raw];
const LEVELS: [Level; 3] = [Level::Fast, Level::Default, Level::High];

fn inflate(format: Format, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match format {
        Format::Gzip => flate2::read::GzDecoder::new(data).read_to_end(&mut out),
        Format::Zlib => flate2::read::ZlibDecoder::new(data).read_to_end(&mut out),
        Format::Raw => flate2::read::DeflateDecoder::new(data).read_to_end(&mut out),
    }
    .unwrap();
    // A second opinion, stricter about the codes.
    let mut strict = libdeflater::Decompressor::new();
    let mut again = vec![0; out.len()];
    let length = match format {
        Format::Gzip => strict.gzip_decompress(data, &mut again),
        Format::Zlib => strict.zlib_decompress(data, &mut again),
        Format::Raw => strict.deflate_decompress(data, &mut again),
    };
    assert_eq!((length, &again), (Ok(out.len()), &out));
    out
}

/// One stream of `pieces`, flushed after those whose flag is set.
fn encode(format: Format, level: Level, content: Content, pieces: &[(&[u8], bool)]) -> Vec<u8> {
    let mut scratch = Scratch::new();
    let mut encoder = Encoder::new(format, level).with_content(content);
    let mut out = Vec::new();
    for &(piece, flush) in pieces {
        let before = out.len();
        encoder.push(piece, &mut out, &mut scratch);
        assert!(out.len() - before <= max_output(piece.len()));
        if flush {
            encoder.flush(&mut out, &mut scratch);
        }
    }
    encoder.finish(&mut out, &mut scratch);
    out
}

#[test]
fn a_stream_is_sixteen_bytes() {
    assert_eq!(size_of::<Encoder>(), 16);
}

#[test]
fn whole_bodies_come_back() {
    let check = |input: &[u8]| {
        for format in FORMATS {
            for level in LEVELS {
                let data = encode(format, level, Content::Html, &[(input, false)]);
                assert_eq!(inflate(format, &data), input, "{format:?} {level:?} {} bytes", input.len());
            }
        }
    };
    check(b"");
    check(b"a");
    check(b"hello hello hello hello");
    check(&[0; 100_000]);
    check(&(0..200_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect::<Vec<_>>());
    let words = ["<div class=\"row\">", "</div>\n", "<a href=\"/", "\">", "the ", "of ", "and "];
    let mut text = Vec::new();
    let mut seed = 1u32;
    while text.len() < 150_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(seed >> 24) as usize % words.len()].as_bytes());
    }
    check(&text);
}

/// Bytes without any pattern.
pub(crate) fn random(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(step).collect()
}

#[test]
fn what_cannot_shrink_hardly_grows() {
    let check = |length: usize, limit: usize| {
        for level in LEVELS {
            let input = random(length);
            let data = encode(Format::Gzip, level, Content::Text, &[(&input, false)]);
            assert!(data.len() <= limit, "{level:?} {length}: {}", data.len());
            assert_eq!(inflate(Format::Gzip, &data), input);
        }
    };
    check(1, 1 + 24);
    check(900, 900 + 26);
    check(40_000, 40_000 + 40);
    check(1_000_000, 1_000_000 + 500);
}

#[test]
fn a_piece_is_readable_after_its_flush() {
    use flate2::{Decompress, FlushDecompress};
    for level in LEVELS {
        let mut scratch = Scratch::new();
        let mut encoder = Encoder::new(Format::Zlib, level).with_content(Content::Html);
        let mut inflater = Decompress::new(true);
        for length in [0, 1, 2, 100, 5000, 40_000, 0, 70_000] {
            let piece: Vec<u8> = b"<p>piece</p> ".iter().copied().cycle().take(length).collect();
            let mut out = Vec::new();
            encoder.push_and_flush(&piece, &mut out, &mut scratch);
            let mut back = Vec::with_capacity(length + 1);
            inflater.decompress_vec(&out, &mut back, FlushDecompress::Sync).unwrap();
            assert_eq!(back, piece, "{level:?} {length} bytes");
        }
    }
}

#[test]
fn single_bytes_and_levels_that_change() {
    let mut scratch = Scratch::new();
    let input = b"one two three four ".repeat(300);
    let mut encoder = Encoder::new(Format::Gzip, Level::Fast).with_content(Content::Text);
    let mut out = Vec::new();
    for (i, piece) in input.chunks(1).enumerate() {
        encoder.set_level(LEVELS[i / 7 % 3]);
        let before = out.len();
        encoder.push(piece, &mut out, &mut scratch);
        assert!(out.len() - before <= max_output(1));
    }
    encoder.finish(&mut out, &mut scratch);
    assert!(out.len() < 2 * input.len(), "{}", out.len());
    assert_eq!(inflate(Format::Gzip, &out), input);
}

#[test]
fn calls_after_the_end_do_nothing() {
    let mut scratch = Scratch::new();
    let mut encoder = Encoder::new(Format::Gzip, Level::Default);
    let mut out = vec![];
    encoder.finish(&mut out, &mut scratch);
    assert!(encoder.is_finished());
    let length = out.len();
    encoder.push(b"more", &mut out, &mut scratch);
    encoder.finish(&mut out, &mut scratch);
    assert_eq!(out.len(), length);
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..3000),
        prop::collection::vec(prop::sample::select(b"ab<>/\n ".to_vec()), 0..70_000),
        (prop::collection::vec(any::<u8>(), 1..700), 1usize..200).prop_map(|(unit, n)| unit.repeat(n)),
    ]
}

#[test]
fn a_window_makes_pieces_smaller() {
    let words: Vec<_> = (0..3000u32).map(|i| alloc::format!("{} ", i.wrapping_mul(2_654_435_761))).collect();
    let piece = words.concat();
    for level in LEVELS {
        let (mut out, mut scratch) = (Vec::new(), Scratch::new());
        let mut encoder = Encoder::new(Format::Zlib, level);
        encoder.push_and_flush(piece.as_bytes(), &mut out, &mut scratch);
        let alone = out.len();
        encoder.after(piece.as_bytes()).push_and_flush(piece.as_bytes(), &mut out, &mut scratch);
        assert!((out.len() - alone) * 12 < alone, "{level:?}: {alone}, then {}", out.len() - alone);
        encoder.after(&[]).push_and_finish(b"end", &mut out, &mut scratch);
        assert_eq!(inflate(Format::Zlib, &out), (piece.repeat(2) + "end").as_bytes());
    }
}

/// A piece of a stream.
#[derive(Clone, Copy, Debug)]
enum Way {
    Push,
    Flush,
    /// With all before it as its window, and flushed or not.
    After(bool),
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::Push), Just(Way::Flush), any::<bool>().prop_map(Way::After)]
}

/// One stream of all of `input`, cut where it is said; the last piece comes after the one before or alone.
fn encode_ways(mut encoder: Encoder, input: &[u8], cuts: &[(usize, Way)], scratch: &mut Scratch) -> Vec<u8> {
    let mut cuts = cuts.to_vec();
    cuts.sort_unstable_by_key(|(at, _)| *at);
    let (mut out, mut start) = (vec![], 0);
    for (end, way) in &cuts {
        let (before, piece) = (out.len(), &input[start..*end]);
        match way {
            Way::Push => encoder.push(piece, &mut out, scratch),
            Way::Flush => encoder.push_and_flush(piece, &mut out, scratch),
            Way::After(false) => encoder.after(&input[..start]).push(piece, &mut out, scratch),
            Way::After(true) => encoder.after(&input[..start]).push_and_flush(piece, &mut out, scratch),
        }
        assert!(out.len() - before <= max_output(piece.len()));
        start = *end;
    }
    if start.is_multiple_of(2) {
        encoder.after(&input[..start]).push_and_finish(&input[start..], &mut out, scratch);
    } else {
        encoder.push(&input[start..], &mut out, scratch);
        encoder.finish(&mut out, scratch);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_and_any_flush_come_back(
        input in bytes(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), ways()), 0..12),
        format in prop::sample::select(FORMATS.to_vec()),
        level in prop::sample::select(LEVELS.to_vec()),
    ) {
        let cuts: Vec<(usize, Way)> = cuts.iter().map(|(i, way)| (i.index(input.len() + 1), *way)).collect();
        let encoder = Encoder::new(format, level).with_content(Content::Html);
        let out = encode_ways(encoder, &input, &cuts, &mut Scratch::new());
        prop_assert_eq!(inflate(format, &out), input);
    }
}
