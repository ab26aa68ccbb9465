//! `weir zenc`, also under the name `zenc`: the encoder as a filter, from a file or the standard input to the standard
//! output, with memory that does not grow with the input.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use weir_deflate::{Content, Encoder, Format, Level, Scratch, WINDOW};

use crate::{EXIT_INVALID, console};

const USAGE: &str = "\
Usage: zenc [OPTION]... [FILE]
Compresses a file, or the standard input, to the standard output.

  -1, -2, -3   faster, default, smaller (-4 to -9 are as -3)
  -G, -Z, -D   gzip (default), zlib, raw deflate
  -c           writes to the standard output, as it does anyway
  -f           writes to a terminal too
  -t           writes nothing: with -v, only to see how much there would be
  -v           says on the standard error stream how much it was
  -h           this text
";

/// Bytes read before they are compressed: more makes the output no smaller.
const PIECE: usize = 8 * WINDOW;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    level: Level,
    format: Format,
    /// The standard input where there is none.
    file: Option<PathBuf>,
    to_terminal: bool,
    discard: bool,
    verbose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: Level::Default,
            format: Format::Gzip,
            file: None,
            to_terminal: false,
            discard: false,
            verbose: false,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Help,
    Encode(Options),
}

/// Why nothing, or not all, was written.
#[derive(Debug)]
enum Failure {
    Usage(String),
    Open(PathBuf, io::Error),
    Read(io::Error),
    Write(io::Error),
    Terminal,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => write!(f, "{what}; 'zenc -h' lists the options"),
            Self::Open(file, error) => write!(f, "cannot open '{}': {error}", file.display()),
            Self::Read(error) => write!(f, "cannot read: {error}"),
            Self::Write(error) if error.kind() == ErrorKind::BrokenPipe => {
                f.write_str("cannot write: whoever read the output is gone (closed pipe)")
            }
            Self::Write(error) => write!(f, "cannot write: {error}"),
            Self::Terminal => f.write_str("not writing compressed data to a terminal; -f forces it"),
        }
    }
}

/// Runs the command with the words after its name.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let result = parse(words).and_then(|request| match request {
        Request::Help => {
            console::print(USAGE);
            Ok(())
        }
        Request::Encode(options) => execute(&options),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console::complain(&format!("zenc: {failure}\n"));
            ExitCode::from(EXIT_INVALID)
        }
    }
}

fn parse(words: &[OsString]) -> Result<Request, Failure> {
    let mut options = Options::default();
    let mut files = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => files.extend(words.by_ref()),
            b"--help" => return Ok(Request::Help),
            [b'-', letters @ ..] if !letters.is_empty() => {
                for &letter in letters {
                    match letter {
                        b'h' => return Ok(Request::Help),
                        b'1' => options.level = Level::Fast,
                        b'2' => options.level = Level::Default,
                        b'3'..=b'9' => options.level = Level::High,
                        b'G' => options.format = Format::Gzip,
                        b'Z' => options.format = Format::Zlib,
                        b'D' => options.format = Format::Raw,
                        b'c' => {}
                        b'f' => options.to_terminal = true,
                        b't' => options.discard = true,
                        b'v' => options.verbose = true,
                        b'd' => return Err(usage("-d", "it only compresses; gunzip undoes it")),
                        _ => return Err(usage(&word.to_string_lossy(), "no such option")),
                    }
                }
            }
            _ => files.push(word),
        }
    }
    match files[..] {
        [] => {}
        [file] => options.file = (file != OsStr::new("-")).then(|| file.into()),
        [_, second, ..] => return Err(usage(&second.to_string_lossy(), "one file at a time")),
    }
    Ok(Request::Encode(options))
}

fn usage(word: &str, what: &str) -> Failure {
    Failure::Usage(format!("'{word}': {what}"))
}

fn execute(options: &Options) -> Result<(), Failure> {
    if !options.discard && !options.to_terminal && io::stdout().is_terminal() {
        return Err(Failure::Terminal);
    }
    let mut input: Box<dyn Read> = match &options.file {
        Some(file) => Box::new(File::open(file).map_err(|error| Failure::Open(file.clone(), error))?),
        None => Box::new(io::stdin().lock()),
    };
    let (read, written) = if options.discard {
        encode(&mut input, &mut io::sink(), options)?
    } else {
        // Not through the buffer of the library, which looks for the ends of lines.
        let output = io::stdout().as_fd().try_clone_to_owned().map_err(Failure::Write)?;
        encode(&mut input, &mut File::from(output), options)?
    };
    if options.verbose {
        let share = 100.0 * written as f64 / read.max(1) as f64;
        console::complain(&format!("{read} bytes in, {written} bytes out, {share:.1} %\n"));
    }
    Ok(())
}

/// Compresses all of the input; returns how many bytes there were, and are now.
fn encode(input: &mut dyn Read, output: &mut dyn Write, options: &Options) -> Result<(u64, u64), Failure> {
    let mut encoder = Encoder::new(options.format, options.level);
    let mut scratch = Scratch::new();
    let (mut read, mut written) = (0, 0);
    // The end of the piece before, then the piece: a window costs a file nothing.
    let mut buffer = vec![0; WINDOW + PIECE];
    let mut window = 0;
    let mut encoded = Vec::new();
    while !encoder.is_finished() {
        let length = fill(input, &mut buffer[window..window + PIECE]).map_err(Failure::Read)?;
        let (before, piece) = buffer[..window + length].split_at(window);
        encoded.clear();
        if read == 0 {
            encoder = encoder.with_content(content(piece));
        }
        if length < PIECE {
            encoder.after(before).push_and_finish(piece, &mut encoded, &mut scratch);
        } else {
            encoder.after(before).push(piece, &mut encoded, &mut scratch);
        }
        output.write_all(&encoded).map_err(Failure::Write)?;
        read += length as u64;
        written += encoded.len() as u64;
        buffer.copy_within(window + length - length.min(WINDOW)..window + length, 0);
        window = length.min(WINDOW);
    }
    output.flush().map_err(Failure::Write)?;
    Ok((read, written))
}

/// What the beginning looks like; a wrong guess costs some size with -1.
fn content(start: &[u8]) -> Content {
    let start = &start[..start.len().min(1024)];
    match start.trim_ascii_start() {
        [b'<', b'?', ..] => Content::Xml,
        [b'<', ..] => Content::Html,
        [b'{' | b'[', ..] => Content::Json,
        _ if start.contains(&0) => Content::Unknown,
        _ => Content::Text,
    }
}

/// Reads until there is no room or no more.
fn fill(input: &mut dyn Read, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match input.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options() {
        let check = |line, expected: Options| {
            assert_eq!(parse(&words(line)).expect("a good line"), Request::Encode(expected), "{line}");
        };
        let default = Options::default;
        check("", default());
        check("-", default());
        check("-c", default());
        check("-1", Options { level: Level::Fast, ..default() });
        check("-3vt", Options { level: Level::High, verbose: true, discard: true, ..default() });
        check("-9", Options { level: Level::High, ..default() });
        check("-Z -D -f", Options { format: Format::Raw, to_terminal: true, ..default() });
        check("-Z page", Options { format: Format::Zlib, file: Some("page".into()), ..default() });
        check("-- -1", Options { file: Some("-1".into()), ..default() });
        assert_eq!(parse(&words("-vh x y")).expect("help"), Request::Help);
    }

    #[test]
    fn what_is_refused() {
        let check = |line, expected: &str| {
            let failure = parse(&words(line)).expect_err(line);
            assert!(failure.to_string().starts_with(expected), "{failure}");
        };
        check("-x", "'-x': no such option");
        check("--fast", "'--fast': no such option");
        check("-dc", "'-d': it only compresses");
        check("a b", "'b': one file at a time");
    }

    #[test]
    fn contents() {
        let check = |start: &[u8], expected| assert_eq!(content(start), expected);
        check(b"", Content::Text);
        check(b"\n<!DOCTYPE html>", Content::Html);
        check(b"<?xml version='1.0'?>", Content::Xml);
        check(b" [1, 2]", Content::Json);
        check(b"\x7fELF\x02\x01\x01\0", Content::Unknown);
    }

    /// A writer whose reader goes away after so many bytes.
    struct Pipe(usize);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_said() {
        let input = b"some text ".repeat(100_000);
        let failure = encode(&mut &input[..], &mut Pipe(100), &Options::default()).expect_err("no reader");
        assert!(failure.to_string().contains("closed pipe"), "{failure}");
    }
}
