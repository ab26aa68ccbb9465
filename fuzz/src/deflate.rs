//! The deflate encoder: another inflater gives back what went in, and the output keeps to its bound.

use std::cell::RefCell;
use std::io::Read;
use weir_deflate::{Content, Encoder, Format, Level, Scratch, max_output};

thread_local! {
    /// Large and the same for every stream, as on a thread of the proxy.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// The first bytes choose format, level, hint and how the input is cut.
pub fn deflate(data: &[u8]) {
    SCRATCH.with_borrow_mut(|scratch| round_trip(data, scratch));
}

fn round_trip(data: &[u8], scratch: &mut Scratch) {
    let &[choice, cut, ref input @ ..] = data else { return };
    let format = [Format::Gzip, Format::Zlib, Format::Raw][usize::from(choice) % 3];
    let level = [Level::Fast, Level::Default, Level::High][usize::from(choice) / 3 % 3];
    let contents =
        [Content::Unknown, Content::Html, Content::Script, Content::Json, Content::Xml, Content::Text];
    let content = contents[usize::from(choice) / 9 % 6];
    let mut encoder = Encoder::new(format, level).with_content(content);
    let mut output = Vec::new();
    // Long inputs find little by themselves: a repeated one has distant matches.
    let repeated = if choice & 1 == 0 { input.to_vec() } else { input.repeat(3) };
    let size = usize::from(cut) * 64 + 61;
    for (i, piece) in repeated.chunks(size).enumerate() {
        let before = output.len();
        // Every other pair of pieces has all before it as its window.
        let window = if cut & 2 == 0 || i & 2 == 0 { &[] } else { &repeated[..i * size] };
        encoder.after(window).push(piece, &mut output, scratch);
        if cut & 1 == 1 {
            encoder.flush(&mut output, scratch);
        }
        assert!(output.len() - before <= max_output(piece.len()) + max_output(0));
    }
    encoder.finish(&mut output, scratch);
    let mut inflated = Vec::new();
    match format {
        Format::Gzip => flate2::read::GzDecoder::new(&*output).read_to_end(&mut inflated),
        Format::Zlib => flate2::read::ZlibDecoder::new(&*output).read_to_end(&mut inflated),
        Format::Raw => flate2::read::DeflateDecoder::new(&*output).read_to_end(&mut inflated),
    }
    .expect("what was deflated can be inflated");
    // A second opinion, stricter about the codes.
    let mut strict = libdeflater::Decompressor::new();
    let mut again = vec![0; inflated.len()];
    let length = match format {
        Format::Gzip => strict.gzip_decompress(&output, &mut again),
        Format::Zlib => strict.zlib_decompress(&output, &mut again),
        Format::Raw => strict.deflate_decompress(&output, &mut again),
    };
    assert!(length == Ok(inflated.len()) && again == inflated, "the two inflaters agree");
    assert!(inflated == repeated, "{} bytes went in, {} came out", repeated.len(), inflated.len());
}
