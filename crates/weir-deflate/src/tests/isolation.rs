//! A thread lends one scratch to all its streams: what one left there must not show in what another gets.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{FORMATS, LEVELS, Way, encode_ways, random, ways};
use crate::arena::WINDOW;
use crate::{Content, Encoder, Format, Level, Scratch};

/// Lengths about which something changes: halves of the ring, blocks, pieces, tables.
const EDGES: [usize; 8] = [256, 1024, 12_288, WINDOW, 2 * WINDOW - 64, 2 * WINDOW, 3 * WINDOW, 4 * WINDOW];

/// A page whose copies are of words that it has in common with any other, so that a hash of foreign bytes finds one.
fn page(seed: u64, length: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "<div class=\"row\">",
        "</div>\n",
        "<a href=\"/",
        "\">",
        "token=",
        "the ",
        "of ",
        "and ",
        "secret",
        "0",
        "\u{65e5}\u{672c}",
        "{\"id\":",
    ];
    let mut state = seed | 1;
    let mut page = Vec::with_capacity(length + 20);
    while page.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match state >> 60 {
            chosen @ 0..12 => page.extend_from_slice(WORDS[chosen as usize].as_bytes()),
            _ => page.extend_from_slice(&(state >> 16).to_le_bytes()[..3]),
        }
    }
    page.truncate(length);
    page
}

/// One stream in one call.
fn encode_with(scratch: &mut Scratch, format: Format, level: Level, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(format, level).with_content(Content::Html).push_and_finish(body, &mut out, scratch);
    out
}

/// The search at the end of the first half of the ring looked at up to 7 bytes that were not loaded yet: those of the
/// call before. A page whose last copy ended there had another length where its bytes went on as those did.
#[test]
fn the_length_of_a_page_told_bytes_of_the_response_before_it() {
    let secret = b"s3cr3t-t0ken";
    let before = [&page(7, WINDOW)[..], secret, &page(8, 4000)].concat();
    let line = b"a line that stands twice: ";
    // The line's second place ends with the half; the guess stands behind it, and again later.
    let guess = |guess: &[u8]| {
        let mut page = [line, &page(9, WINDOW - 2 * line.len())[..], line, guess].concat();
        for i in 0..20 {
            page.extend_from_slice(&[&random(60 + i)[50..], b": ", guess].concat());
        }
        page
    };
    for level in LEVELS {
        let (mut used, page) = (Scratch::new(), guess(secret));
        encode_with(&mut used, Format::Gzip, level, &before);
        let after = encode_with(&mut used, Format::Gzip, level, &page);
        let fresh = encode_with(&mut Scratch::new(), Format::Gzip, level, &page);
        assert!(after == fresh, "{level:?}: {} bytes after another page, {} alone", after.len(), fresh.len());
    }
}

/// A length near one of the edges, or any.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => (prop::sample::select(EDGES.to_vec()), 0usize..=16).prop_map(|(edge, off)| edge + off - 8),
        1 => 0usize..5 * WINDOW,
    ]
}

/// Bytes of few different words, of one, of none.
fn body((length, seed, kind): (usize, u64, u8)) -> Vec<u8> {
    match kind {
        0 => random(length),
        1 => vec![seed as u8; length],
        2 => page(seed, 40).into_iter().cycle().take(length).collect(),
        _ => page(seed, length),
    }
}

/// The same body, from some place on another one: with what is before it a guess would have in common.
fn alike(body: &[u8], seed: u64, length: usize, from: usize) -> Vec<u8> {
    let mut other = page(seed, length);
    let same = from.min(body.len()).min(length);
    other[..same].copy_from_slice(&body[..same]);
    other
}

fn contents() -> impl Strategy<Value = Content> {
    prop::sample::select(vec![
        Content::Unknown,
        Content::Html,
        Content::Script,
        Content::Json,
        Content::Xml,
        Content::Text,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_encoded_before_changes_nothing(
        described in (lengths(), any::<u64>(), 0u8..8),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), ways()), 0..4),
        (seed, length, from) in (any::<u64>(), lengths(), lengths()),
        (before_format, before_level) in (prop::sample::select(FORMATS.to_vec()), prop::sample::select(LEVELS.to_vec())),
        content in contents(),
    ) {
        let body = body(described);
        let cuts: Vec<(usize, Way)> = cuts.iter().map(|(i, way)| (i.index(body.len() + 1), *way)).collect();
        let before = alike(&body, seed, length, from);
        for format in FORMATS {
            for level in LEVELS {
                let encoder = Encoder::new(format, level).with_content(content);
                let fresh = encode_ways(encoder.clone(), &body, &cuts, &mut Scratch::new());
                let mut used = Scratch::new();
                encode_with(&mut used, before_format, before_level, &before);
                let after = encode_ways(encoder.clone(), &body, &cuts, &mut used);
                prop_assert!(after == fresh, "{level:?}: {} bytes after others, {} alone", after.len(), fresh.len());
                // Whatever else may have been left behind.
                let mut worst = Scratch::new();
                worst.spoil(seed as u8);
                let after = encode_ways(encoder, &body, &cuts, &mut worst);
                prop_assert!(after == fresh, "{level:?}: {} bytes after anything, {} alone", after.len(), fresh.len());
            }
        }
    }
}
