//! Pictures that the demo's origins make: a PNG plasma and an SVG landscape, each in its origin's colour.

use std::fmt::Write as _;

use weir_deflate::{Encoder, Format, Level, Scratch};

const WIDTH: u32 = 320;
const HEIGHT: u32 = 180;

/// A colour as red, green and blue.
pub(crate) type Color = [u8; 3];

/// A plasma in shades of a colour; `seed` moves it.
pub(crate) fn plasma(color: Color, seed: u32) -> Vec<u8> {
    let mut pixels = Vec::with_capacity((HEIGHT * (1 + WIDTH * 3)) as usize);
    let phase = f64::from(seed % 1000) * 0.37;
    for y in 0..HEIGHT {
        // Each line starts with its filter: none (PNG section 9.2).
        pixels.push(0);
        for x in 0..WIDTH {
            let (x, y) = (f64::from(x) / 40.0, f64::from(y) / 40.0);
            let height = (x + phase).sin() + (y * 1.3 - phase).cos() + ((x * x + y * y).sqrt() * 1.7).sin();
            let light = (height + 3.0) / 6.0;
            pixels.extend(color.map(|part| {
                (f64::from(part) * (0.35 + 0.65 * light) + 60.0 * light * light).min(255.0) as u8
            }));
        }
    }
    png(&pixels)
}

/// A true-colour image around lines of pixels (PNG, third edition, sections 5 and 11).
fn png(lines: &[u8]) -> Vec<u8> {
    const EIGHT_BITS_TRUE_COLOR: [u8; 5] = [8, 2, 0, 0, 0];
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let header = [&WIDTH.to_be_bytes()[..], &HEIGHT.to_be_bytes(), &EIGHT_BITS_TRUE_COLOR].concat();
    chunk(&mut file, *b"IHDR", &header);
    let mut packed = Vec::new();
    Encoder::new(Format::Zlib, Level::Default).push_and_finish(lines, &mut packed, &mut Scratch::new());
    chunk(&mut file, *b"IDAT", &packed);
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    // The demo's pictures are far below 4 GB.
    file.extend_from_slice(&(data.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend_from_slice(&kind);
    file.extend_from_slice(data);
    let checksum = crc32(&file[start..]);
    file.extend_from_slice(&checksum.to_be_bytes());
}

/// The CRC of PNG chunks, bit by bit: a picture is small and made rarely.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 },
        )
    })
}

/// Hills under a sun.
pub(crate) fn landscape(color: Color, seed: u32) -> String {
    let [r, g, b] = color;
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}'>\n\
         <rect width='{WIDTH}' height='{HEIGHT}' fill='rgb({r},{g},{b})' fill-opacity='.18'/>\n\
         <circle cx='{}' cy='50' r='24' fill='rgb({r},{g},{b})' fill-opacity='.8'/>\n",
        40 + seed * 37 % 240
    );
    for layer in 1..=4_u32 {
        let phase = f64::from(seed.wrapping_add(layer * 7) % 100);
        let base = f64::from(HEIGHT) * (0.35 + 0.14 * f64::from(layer));
        let mut points = format!("0,{HEIGHT}");
        for x in (0..=WIDTH).step_by(10) {
            let along = f64::from(x) / (70.0 - 9.0 * f64::from(layer));
            let y = base - 14.0 * (along + phase).sin() - 6.0 * (along * 2.3 - phase).cos();
            // Writing to a string cannot fail.
            write!(points, " {x},{y:.1}").ok();
        }
        writeln!(
            svg,
            "<polygon points='{points} {WIDTH},{HEIGHT}' fill='rgb({r},{g},{b})' fill-opacity='.{}'/>",
            2 + layer
        )
        .ok();
    }
    svg.push_str("</svg>\n");
    svg
}

/// The project's sign: water that falls over a weir.
pub(crate) fn logo([r, g, b]: Color) -> String {
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 56 56'>\
         <rect width='56' height='56' rx='12' fill='rgb({r},{g},{b})'/>\
         <g fill='none' stroke='#fff' stroke-width='4' stroke-linecap='round'>\
         <path d='M8 18h14c6 0 6 20 12 20h14'/><path d='M8 28h10c6 0 6 18 12 18h18' opacity='.7'/>\
         <path d='M8 8h18c6 0 6 20 12 20h10' opacity='.45'/></g></svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_chunks() {
        let check = |bytes: &[u8], expected: u32| assert_eq!(crc32(bytes), expected);
        check(b"", 0);
        check(b"IEND", 0xae42_6082);
        check(b"123456789", 0xcbf4_3926);
    }

    #[test]
    fn a_picture_is_a_png_of_some_size() {
        let picture = plasma([200, 60, 40], 7);
        assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"));
        assert!(picture.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"));
        assert!((1_000..200_000).contains(&picture.len()), "{}", picture.len());
    }
}
