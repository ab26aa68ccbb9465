//! Trains the preset codes: what other files of a kind were encoded into, counted by an inflater of our own.

use std::path::Path;

use weir_deflate::{Content, Encoder, Format, Level, Scratch};

/// Bodies are cut as they would come, small ones counting most.
const PIECE: usize = 12 * 1024;
/// The longest code length of a preset.
const LIMIT: usize = 12;
const LITERALS_AND_LENGTHS: usize = 286;
const DISTANCES: usize = 30;

struct Counts {
    literals: [f64; LITERALS_AND_LENGTHS],
    distances: [f64; DISTANCES],
}

pub fn run(corpus: &Path) {
    println!(
        "//! Code lengths of the presets, trained on pages, scripts and data of many origins by the benchmark's"
    );
    println!("//! `train`: of the literals and lengths, then of the distances, a hexadecimal digit each.\n");
    println!("use crate::symbols::{{DISTANCES, LITERALS_AND_LENGTHS}};\n");
    println!(
        "/// In the order of `preset_for`: HTML, scripts and styles, JSON, XML, text; then text in Chinese and Japanese, which no"
    );
    println!("/// type tells from other text.");
    println!("#[rustfmt::skip]");
    println!("pub(crate) const PRESETS: [&[u8; LITERALS_AND_LENGTHS + DISTANCES]; 6] = [");
    for (kind, content) in [
        ("html", Content::Html),
        ("script", Content::Script),
        ("json", Content::Json),
        ("xml", Content::Xml),
        ("text", Content::Text),
        ("cjk", Content::Text),
    ] {
        if !corpus.join("train").join(kind).is_dir() {
            eprintln!("there is nothing to train {kind} on");
            continue;
        }
        let counts = count(&crate::files(&corpus.join("train").join(kind)), content);
        let digits =
            |lengths: Vec<usize>| lengths.iter().map(|length| format!("{length:x}")).collect::<String>();
        let mut all = digits(lengths(&counts.literals));
        all += &digits(lengths(&counts.distances));
        println!(
            "    b\"\\\n    {}\",",
            all.as_bytes()
                .chunks(100)
                .map(|line| String::from_utf8_lossy(line))
                .collect::<Vec<_>>()
                .join("\\\n    ")
        );
    }
    println!("];");
}

fn count(files: &[Vec<u8>], content: Content) -> Counts {
    let mut scratch = Scratch::new();
    let mut counts = Counts { literals: [0.0; LITERALS_AND_LENGTHS], distances: [0.0; DISTANCES] };
    for file in files {
        let mut own = Counts { literals: [0.0; LITERALS_AND_LENGTHS], distances: [0.0; DISTANCES] };
        for piece in file.chunks(PIECE) {
            let mut out = Vec::new();
            let mut encoder = Encoder::new(Format::Raw, Level::Default).with_content(content);
            encoder.push_and_finish(piece, &mut out, &mut scratch);
            tally(&out, &mut own);
        }
        // Each file counts for its information, but a large one not without bound.
        let total: f64 = own.literals.iter().sum();
        let weight = total.min(20_000.0) / total.max(1.0);
        counts.literals.iter_mut().zip(own.literals).for_each(|(sum, own)| *sum += own * weight);
        counts.distances.iter_mut().zip(own.distances).for_each(|(sum, own)| *sum += own * weight);
    }
    counts
}

/// Optimal lengths by package-merge, each symbol having a code: those hardly seen get the longest, all alike, so that
/// their description is short.
fn lengths(counts: &[f64]) -> Vec<usize> {
    let total: f64 = counts.iter().sum();
    let floor = total / f64::from(1 << LIMIT) * 0.35;
    let weights: Vec<f64> = counts.iter().map(|&count| count.max(floor)).collect();
    let mut leaves: Vec<(f64, Vec<usize>)> = weights.iter().enumerate().map(|(i, &w)| (w, vec![i])).collect();
    leaves.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut packages: Vec<(f64, Vec<usize>)> = vec![];
    for _ in 0..LIMIT {
        let mut merged = leaves.clone();
        merged.extend(
            packages
                .chunks_exact(2)
                .map(|pair| (pair[0].0 + pair[1].0, pair[0].1.iter().chain(&pair[1].1).copied().collect())),
        );
        merged.sort_by(|a, b| a.0.total_cmp(&b.0));
        packages = merged;
    }
    let mut lengths = vec![0; counts.len()];
    for (_, symbols) in packages.iter().take(2 * counts.len() - 2) {
        symbols.iter().for_each(|&symbol| lengths[symbol] += 1);
    }
    lengths
}

struct Bits<'a> {
    data: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: usize) -> usize {
        (0..count).fold(0, |value, i| {
            let bit = usize::from(self.data[self.at / 8] >> (self.at % 8) & 1);
            self.at += 1;
            value | bit << i
        })
    }
}

/// A canonical code, decoded bit by bit.
struct Decoder {
    counts: [usize; 16],
    symbols: Vec<usize>,
}

impl Decoder {
    fn new(lengths: &[usize]) -> Self {
        let mut counts = [0; 16];
        lengths.iter().filter(|&&length| length > 0).for_each(|&length| counts[length] += 1);
        let mut symbols: Vec<usize> = (0..lengths.len()).filter(|&symbol| lengths[symbol] > 0).collect();
        symbols.sort_by_key(|&symbol| (lengths[symbol], symbol));
        Self { counts, symbols }
    }

    fn symbol(&self, bits: &mut Bits<'_>) -> usize {
        let (mut code, mut first, mut index) = (0, 0, 0);
        for length in 1..16 {
            code = code << 1 | bits.take(1);
            if code < first + self.counts[length] {
                return self.symbols[index + code - first];
            }
            index += self.counts[length];
            first = (first + self.counts[length]) << 1;
        }
        panic!("no such code")
    }
}

/// Counts the symbols of a raw stream.
fn tally(data: &[u8], counts: &mut Counts) {
    const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
    let mut bits = Bits { data, at: 0 };
    loop {
        let last = bits.take(1);
        let (literals, distances) = match bits.take(2) {
            0 => {
                bits.at = bits.at.div_ceil(8) * 8;
                let length = bits.take(16);
                bits.take(16);
                bits.at += 8 * length;
                if last == 1 {
                    return;
                }
                continue;
            }
            1 => {
                let mut lengths = vec![8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                (Decoder::new(&lengths), Decoder::new(&[5; 30]))
            }
            _ => {
                let (hlit, hdist, hclen) = (bits.take(5) + 257, bits.take(5) + 1, bits.take(4) + 4);
                let mut meta = [0; 19];
                ORDER[..hclen].iter().for_each(|&symbol| meta[symbol] = bits.take(3));
                let meta = Decoder::new(&meta);
                let mut lengths: Vec<usize> = vec![];
                while lengths.len() < hlit + hdist {
                    let (value, run) = match meta.symbol(&mut bits) {
                        16 => (*lengths.last().unwrap(), 3 + bits.take(2)),
                        17 => (0, 3 + bits.take(3)),
                        18 => (0, 11 + bits.take(7)),
                        length => (length, 1),
                    };
                    lengths.extend(std::iter::repeat_n(value, run));
                }
                (Decoder::new(&lengths[..hlit]), Decoder::new(&lengths[hlit..]))
            }
        };
        loop {
            let symbol = literals.symbol(&mut bits);
            counts.literals[symbol] += 1.0;
            if symbol == 256 {
                break;
            }
            if symbol > 256 {
                let extra = match symbol {
                    265..285 => (symbol - 261) / 4,
                    _ => 0,
                };
                bits.take(extra);
                let distance = distances.symbol(&mut bits);
                counts.distances[distance] += 1.0;
                bits.take((distance / 2).saturating_sub(1));
            }
        }
        if last == 1 {
            return;
        }
    }
}
