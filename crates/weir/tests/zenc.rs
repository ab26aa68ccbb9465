//! `weir zenc` as a process: what another inflater makes of its output, and what it says when it cannot write.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it has to be")]

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

/// Runs the program with `input` as its standard input, under its own name or as `zenc`.
fn zenc(as_zenc: bool, words: &[&str], input: &[u8]) -> Output {
    let program = env!("CARGO_BIN_EXE_weir");
    let mut command = Command::new(program);
    if as_zenc {
        std::os::unix::process::CommandExt::arg0(&mut command, "/usr/bin/zenc");
    } else {
        command.arg("zenc");
    }
    let mut child = command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // One that does not read its input closes it.
        scope.spawn(move || stdin.write_all(input).ok());
        child.wait_with_output().unwrap()
    })
}

fn inflate(words: &[&str], data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if words.contains(&"-Z") {
        flate2::read::ZlibDecoder::new(data).read_to_end(&mut out).unwrap();
    } else if words.contains(&"-D") {
        flate2::read::DeflateDecoder::new(data).read_to_end(&mut out).unwrap();
    } else {
        flate2::read::GzDecoder::new(data).read_to_end(&mut out).unwrap();
    }
    out
}

#[test]
fn what_goes_in_comes_out() {
    let line = |i: u32| format!("<li><a href=\"/page/{}\">page {} of many</a></li>\n", i % 700, i * i % 9973);
    let text: Vec<u8> = (0..20_000).flat_map(|i| line(i).into_bytes()).collect();
    let check = |words: &[&str], input: &[u8]| {
        for as_zenc in [true, false] {
            let output = zenc(as_zenc, words, input);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(inflate(words, &output.stdout) == input, "{words:?} {} bytes", input.len());
            assert!(output.stdout.len() <= input.len() / 2 + 32, "{words:?}: {}", output.stdout.len());
        }
    };
    check(&[], &text);
    check(&[], b"");
    check(&["-1", "-c", "-"], &text);
    check(&["-2", "-Z"], &text);
    check(&["-3", "-D"], &text);
    // A whole number of the pieces that are read at a time.
    check(&["-3"], &text[..2 * 256 * 1024]);
}

#[test]
fn a_file_and_its_figures() {
    let output = zenc(true, &["-v", env!("CARGO_MANIFEST_PATH")], b"not this");
    assert!(output.status.success());
    assert_eq!(inflate(&[], &output.stdout), std::fs::read(env!("CARGO_MANIFEST_PATH")).unwrap());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("bytes in") && said.contains("bytes out"), "{said}");
    let output = zenc(true, &["-tv"], b"text text text text text text");
    assert_eq!((output.status.success(), output.stdout.len()), (true, 0));
}

#[test]
fn failures_are_said() {
    let check = |words: &[&str], expected: &str| {
        let output = zenc(false, words, b"");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with(expected), "{said}");
        assert!(output.stdout.is_empty());
    };
    check(&["-x"], "zenc: '-x': no such option");
    check(&["/nowhere/at/all"], "zenc: cannot open '/nowhere/at/all': No such file");
    check(&["/"], "zenc: cannot read: Is a directory");
}

#[test]
fn a_reader_that_leaves_is_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["zenc", "-1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(&b"0123456789 ".repeat(100_000)).ok());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.contains("closed pipe")), (Some(1), true), "{said}");
    });
}
