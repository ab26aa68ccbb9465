//! `cargo xtask h2spec`: runs the HTTP/2 conformance cases of h2spec on weir, in clear and over TLS.
//!
//! Weir forwards to a small HTTP/1.1 origin in this file, so that a request's body has been read before
//! it is answered.

use crate::arguments::Arguments;
use crate::bench::{Place, Subject, free_port};
use crate::{place, program};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec";

/// The newest version the module can be installed at by its number.
const VERSION: &str = "v2.2.1+incompatible";

/// Seconds that h2spec waits for each answer.
const TIMEOUT: &str = "3";

/// What a run of h2spec counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conformance {
    pub(crate) passed: usize,
    pub(crate) skipped: usize,
    pub(crate) failed: usize,
}

pub(crate) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments = Arguments::read(given, &["program", "profile"], &[])?;
    let (name, program) = match arguments.text("program") {
        Some(path) => ("haproxy", PathBuf::from(path)),
        None => ("weir", program::build_weir(arguments.text("profile").unwrap_or("dev"))?),
    };
    let h2spec = match install() {
        Ok(h2spec) => h2spec,
        Err(reason) => {
            println!("h2spec is skipped: {reason}");
            println!("0 passed, 0 failed, 1 skipped");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let found = conformance(&h2spec, name, &program)?;
    println!("{} passed, {} failed, {} skipped", found.passed, found.failed, found.skipped);
    Ok(if found.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds h2spec under the target folder.
pub(crate) fn install() -> Result<PathBuf, String> {
    let folder = place::target()?.join("h2spec");
    let program = folder.join("h2spec");
    if program.is_file() {
        return Ok(program);
    }
    let go = program::find("go").ok_or("Go is not installed")?;
    place::create(&folder)?;
    let install = |version: &str| {
        program::output(
            Command::new(&go)
                .args(["install", &format!("{MODULE}@{version}")])
                .env("GOBIN", &folder)
                .current_dir(&folder),
        )
    };
    install(VERSION).or_else(|_| install("latest"))?;
    Ok(program)
}

/// Runs the cases in clear and over TLS and prints what failed.
pub(crate) fn conformance(h2spec: &Path, name: &str, program: &Path) -> Result<Conformance, String> {
    let place = Place::new()?;
    let origin = origin().map_err(|error| format!("the origin did not start: {error}"))?;
    let subject = Subject::new(name, program.to_path_buf())?;
    let (clear, tls) = (free_port()?, free_port()?);
    let file = place.scratch.path().join("h2spec.cfg");
    place::write(&file, &configuration(clear, tls, origin, place.scratch.path()))?;
    let _running = subject.start_with(&place, &file, clear)?;
    let mut sum = Conformance::default();
    for (label, port, more) in [("in clear", clear, &[][..]), ("over TLS", tls, &["-t", "-k"][..])] {
        let mut command = Command::new(h2spec);
        command.args(["-h", "127.0.0.1", "-o", TIMEOUT, "-p", &port.to_string()]).args(more);
        // h2spec's exit code says what its last line says: that something failed.
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", h2spec.display()))?;
        let report = String::from_utf8_lossy(&output.stdout);
        let found =
            read_report(&report).ok_or_else(|| format!("h2spec {label} gave no report:\n{report}"))?;
        let Conformance { passed, failed, skipped } = found;
        println!("h2spec {label}: {passed} passed, {failed} failed, {skipped} skipped");
        if failed > 0 {
            println!("{}", failures(&report));
        }
        sum.passed += passed;
        sum.failed += failed;
        sum.skipped += skipped;
    }
    Ok(sum)
}

fn configuration(clear: u16, tls: u16, origin: u16, folder: &Path) -> String {
    format!(
        "global\n    nbthread 1\n\n\
         defaults\n    mode http\n    timeout client 10s\n    timeout server 10s\n    timeout connect 5s\n\n\
         frontend clients\n    bind 127.0.0.1:{clear} proto h2\n    \
         bind 127.0.0.1:{tls} ssl crt {}/site.pem alpn h2,http/1.1\n    default_backend origin\n\n\
         backend origin\n    server one 127.0.0.1:{origin}\n",
        folder.display()
    )
}

/// What stands after `Failures:`, where h2spec repeats each failed case with what it expected.
fn failures(report: &str) -> &str {
    report.split_once("Failures:").map_or("", |(_, failures)| failures).trim_end()
}

/// Reads the last line, `N tests, N passed, N skipped, N failed`.
fn read_report(report: &str) -> Option<Conformance> {
    let totals = report.lines().rev().find(|line| line.contains(" tests, "))?;
    let count = |label: &str| -> Option<usize> {
        totals.split(',').find_map(|part| part.trim().strip_suffix(label)?.trim().parse().ok())
    };
    Some(Conformance { passed: count("passed")?, failed: count("failed")?, skipped: count("skipped")? })
}

/// Starts an origin that answers every request after its body has come; it lives as long as this process.
fn origin() -> std::io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A connection that breaks is the case's own doing.
            std::thread::spawn(move || drop(answer(&client)));
        }
    });
    Ok(port)
}

fn answer(client: &TcpStream) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut input = BufReader::new(client);
    loop {
        let (mut length, mut chunked) = (0, false);
        loop {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            chunked |= line.starts_with("transfer-encoding:") && line.ends_with("chunked");
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        if chunked {
            skip_chunks(&mut input)?;
        } else {
            std::io::copy(&mut input.by_ref().take(length), &mut std::io::sink())?;
        }
        // Long enough that a case's next frame is there before its answer.
        std::thread::sleep(Duration::from_millis(5));
        let mut output = client;
        output.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\ntwenty-two bytes long\n")?;
    }
}

fn skip_chunks(input: &mut BufReader<&TcpStream>) -> std::io::Result<()> {
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(std::io::Error::other)?;
        if size > 0 {
            std::io::copy(&mut input.by_ref().take(size + 2), &mut std::io::sink())?;
            continue;
        }
        // Trailers end with an empty line.
        loop {
            let mut trailer = String::new();
            if input.read_line(&mut trailer)? == 0 || trailer.trim_end().is_empty() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "Failures: \n\n  6.9\n    × 2: A case\n\n145 tests, 142 passed, 1 skipped, 2 failed\n";
        assert_eq!(read_report(report), Some(Conformance { passed: 142, failed: 2, skipped: 1 }));
        assert!(failures(report).contains("A case"));
        assert_eq!(read_report("connection refused"), None);
    }
}
