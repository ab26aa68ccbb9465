//! Compares the deflate encoder with others, in one process and turn by turn: `deflate-bench CORPUS [MODE] [ROUNDS]`,
//! or trains the preset codes: `deflate-bench train CORPUS`.
//!
//! Each round runs every encoder over the same unit (a body, or a group of small ones); the best of the rounds is
//! taken per unit and summed, so that a unit in which the process was interrupted does not count. Read the ratios,
//! not the MB/s.

mod anchors;
mod isal;
mod proxy;
#[cfg(slz)]
mod slz;
mod train;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anchors::{Anchor, Cut};
use weir_deflate::{Content, Encoder, Format, Level, Scratch};

/// The classes that the goals are about; the geometric mean is over these.
const WEB: [(&str, Content); 10] = [
    ("html-news", Content::Html),
    ("html-doc", Content::Html),
    ("html-one", Content::Html),
    ("js-min", Content::Script),
    ("js", Content::Script),
    ("css", Content::Script),
    ("json", Content::Json),
    ("svgxml", Content::Xml),
    ("log", Content::Text),
    ("text", Content::Text),
];
const OTHER: [(&str, Content); 2] = [("bin", Content::Unknown), ("incomp", Content::Unknown)];

/// Larger files are cut into bodies of this size.
const BODY: usize = 256 * 1024;
const PIECE: usize = 16 * 1024;

#[derive(Clone, Copy)]
enum Mode {
    /// Whole bodies.
    Whole,
    /// Pieces, with a flush after each.
    Pieces,
    /// The same, each with the piece before as its window; the others keep theirs in any case.
    Windowed,
    /// Different small bodies of this size.
    Small(usize),
}

impl Mode {
    fn in_pieces(self) -> bool {
        matches!(self, Self::Pieces | Self::Windowed)
    }

    fn cut(self) -> Cut {
        if self.in_pieces() { Cut::Flush(PIECE) } else { Cut::Never }
    }
}

/// What is compared, the first being the measure.
enum Subject {
    Anchor(Anchor),
    Weir(Level),
}

impl Subject {
    fn name(&self) -> String {
        match self {
            Self::Anchor(anchor) => anchor.name(),
            Self::Weir(level) => format!("{level:?}").to_lowercase(),
        }
    }

    fn encode(
        &mut self,
        body: &[u8],
        content: Content,
        mode: Mode,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) {
        match self {
            Self::Anchor(anchor) => anchor.encode(body, mode.cut(), out),
            Self::Weir(level) => {
                let mut encoder = Encoder::new(Format::Gzip, *level).with_content(content);
                if mode.in_pieces() {
                    let mut window: &[u8] = &[];
                    for piece in body.chunks(PIECE) {
                        encoder.after(window).push_and_flush(piece, out, scratch);
                        if matches!(mode, Mode::Windowed) {
                            window = piece;
                        }
                    }
                    encoder.finish(out, scratch);
                } else {
                    encoder.push_and_finish(body, out, scratch);
                }
            }
        }
    }
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the corpus").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// Units of a class: each a group of bodies that is timed as one.
fn units(files: &[Vec<u8>], mode: Mode) -> Vec<Vec<&[u8]>> {
    match mode {
        Mode::Whole | Mode::Pieces | Mode::Windowed => {
            files.iter().flat_map(|file| file.chunks(BODY)).map(|body| vec![body]).collect()
        }
        Mode::Small(size) => {
            let bodies: Vec<&[u8]> =
                files.iter().flat_map(|file| file.chunks_exact(size)).take(1_500_000 / size).collect();
            bodies.chunks(100_000 / size).map(<[_]>::to_vec).collect()
        }
    }
}

struct Total {
    seconds: f64,
    bytes: usize,
}

fn measure(
    units: &[Vec<&[u8]>],
    content: Content,
    mode: Mode,
    subjects: &mut [Subject],
    rounds: usize,
) -> Vec<Total> {
    let mut scratch = Scratch::new();
    let mut out = Vec::new();
    let mut totals: Vec<Total> = subjects.iter().map(|_| Total { seconds: 0.0, bytes: 0 }).collect();
    for unit in units {
        let mut best = vec![f64::MAX; subjects.len()];
        let mut sizes = vec![0; subjects.len()];
        for round in 0..rounds {
            for (i, subject) in subjects.iter_mut().enumerate() {
                let mut size = 0;
                let start = Instant::now();
                for body in unit {
                    out.clear();
                    subject.encode(body, content, mode, &mut out, &mut scratch);
                    size += out.len();
                }
                best[i] = best[i].min(start.elapsed().as_secs_f64());
                sizes[i] = size;
                if round == 0 {
                    let mut back = Vec::new();
                    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&out[..]), &mut back)
                        .unwrap_or_else(|error| panic!("{}: {error}", subject.name()));
                    assert_eq!(&back, unit[unit.len() - 1], "{}", subject.name());
                }
            }
        }
        for ((total, best), size) in totals.iter_mut().zip(best).zip(sizes) {
            total.seconds += best;
            total.bytes += size;
        }
    }
    totals
}

fn run(corpus: &Path, mode: Mode, rounds: usize) {
    // Between two of ours stands another: the same search right before would have taught the branch predictor.
    let mut subjects = vec![
        Subject::Anchor(Anchor::zlib_ng(1)),
        Subject::Weir(Level::Fast),
        Subject::Anchor(Anchor::igzip(1)),
        Subject::Weir(Level::Default),
        Subject::Anchor(Anchor::zlib_rs(1)),
        Subject::Weir(Level::High),
        Subject::Anchor(Anchor::zlib_ng(2)),
        Subject::Anchor(Anchor::igzip(0)),
        Subject::Anchor(Anchor::libdeflate(1)),
    ];
    if mode.in_pieces() {
        // The last knows whole bodies only.
        subjects.pop();
    }
    let title = match mode {
        Mode::Whole => "whole bodies".to_owned(),
        Mode::Pieces => format!("pieces of {PIECE} bytes, each flushed"),
        Mode::Windowed => format!("pieces of {PIECE} bytes, each flushed, after the one before"),
        Mode::Small(size) => format!("bodies of {size} bytes"),
    };
    println!("\n## {title}: speed and size relative to {}", subjects[0].name());
    print!("{:10}{:>7}", "", "MB/s");
    subjects.iter().for_each(|subject| print!("{:>16}", subject.name()));
    println!();
    let mut logs = vec![(0.0, 0.0); subjects.len()];
    for (i, (class, content)) in WEB.iter().chain(&OTHER).enumerate() {
        let files = files(&corpus.join("test").join(class));
        let units = units(&files, mode);
        if units.is_empty() {
            continue;
        }
        let totals = measure(&units, *content, mode, &mut subjects, rounds);
        let input: usize = units.iter().flatten().map(|body| body.len()).sum();
        print!("{class:10}{:7.0}", input as f64 / totals[0].seconds / 1e6);
        for (j, total) in totals.iter().enumerate() {
            let speed = totals[0].seconds / total.seconds;
            let size = total.bytes as f64 / totals[0].bytes as f64;
            if i < WEB.len() {
                logs[j].0 += speed.ln() / WEB.len() as f64;
                logs[j].1 += size.ln() / WEB.len() as f64;
            }
            print!("{speed:>8.2} {size:>7.4}");
        }
        let growth = totals.iter().map(|total| total.bytes as f64 / input as f64);
        if i < WEB.len() {
            println!();
        } else {
            println!("   of input: {}", growth.map(|g| format!("{g:.4}")).collect::<Vec<_>>().join(" "));
        }
    }
    print!("{:17}", "web mean");
    logs.iter().for_each(|(speed, size)| print!("{:>8.2} {:>7.4}", speed.exp(), size.exp()));
    println!();
    print!("{:17}", "time");
    logs.iter().for_each(|(speed, _)| print!("{:>8.2} {:>7}", 1.0 / speed.exp(), ""));
    println!();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["train", corpus] => train::run(Path::new(corpus)),
        ["proxy", corpus, ref rest @ ..] => {
            let number =
                |i: usize, default| rest.get(i).and_then(|word| word.parse().ok()).unwrap_or(default);
            proxy::run(Path::new(corpus), number(0, 7), number(1, 64) * 1024);
        }
        [corpus, ref rest @ ..] => {
            let rounds = rest.get(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(7);
            let all = [
                Mode::Whole,
                Mode::Pieces,
                Mode::Windowed,
                Mode::Small(140),
                Mode::Small(3000),
                Mode::Small(6000),
                Mode::Small(9000),
            ];
            let modes = match rest.first() {
                Some(&"whole") => &all[..1],
                Some(&"pieces") => &all[1..3],
                Some(&"small") => &all[3..],
                _ => &all[..],
            };
            modes.iter().for_each(|&mode| run(Path::new(corpus), mode, rounds));
        }
        [] => eprintln!(
            "usage: deflate-bench CORPUS [whole|pieces|small|all] [ROUNDS], deflate-bench train CORPUS, \
             deflate-bench proxy CORPUS [ROUNDS] [PIECE_KB]"
        ),
    }
}
