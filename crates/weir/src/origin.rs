//! `weir origin`: the test server behind benchmarks.
//!
//! Owns its command line and what it prints; the server is weir-origin's.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir_net::Address;
use weir_net::listen::BindAddress;
use weir_origin::Options;

use crate::EXIT_INVALID;
use crate::console::{self, Console};
use crate::signals::{self, Signals};

/// Where it listens when nothing is said.
const DEFAULT_PORT: u16 = 8000;

/// Most threads; far above the processors of any machine.
const MAX_THREADS: u16 = 1024;

/// The options of `weir origin`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Listen in clear, HTTP/1.1 and HTTP/2: PORT, ADDRESS:PORT or the path of a unix socket; may be repeated
    /// [default: 127.0.0.1:8000].
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    listen: Vec<BindAddress>,
    /// Listen with TLS.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    listen_tls: Vec<BindAddress>,
    /// Certificate and key in one PEM file; without it, a self-signed one is made on the spot.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Threads [default: one a processor].
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_THREADS)))]
    threads: Option<u16>,
    /// Say nothing but errors.
    #[arg(long, short)]
    quiet: bool,
}

fn parse_address(text: &str) -> Result<BindAddress, String> {
    if text.contains('/') {
        return Ok(BindAddress::Unix(text.into()));
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    let port: u16 = port.parse().map_err(|_| format!("'{port}' is no port"))?;
    let ip = match host.trim_matches(['[', ']']) {
        "" | "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.parse().map_err(|_| format!("'{host}' is no IP address"))?,
    };
    Ok(BindAddress::Ip(SocketAddr::new(ip, port)))
}

/// Runs until a signal ends it.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let Arguments { mut listen, listen_tls, certificate, threads, quiet } = arguments;
    if listen.is_empty() && listen_tls.is_empty() {
        listen.push(BindAddress::Ip((Ipv4Addr::LOCALHOST, DEFAULT_PORT).into()));
    }
    let options = Options { listen, listen_tls, certificate, threads: threads.map(usize::from) };
    match serve(&options, quiet) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            Console::default().alert(&message);
            ExitCode::from(EXIT_INVALID)
        }
    }
}

fn serve(options: &Options, quiet: bool) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the event loop: {error}"))?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(|error| format!("cannot receive signals: {error}"))?;
        let running = weir_origin::start(options).map_err(|error| error.to_string())?;
        if !quiet {
            console::print(&introduction(&running.addresses, &running.tls_addresses));
        }
        loop {
            match signals.next().await {
                signals::Event::Terminate | signals::Event::Interrupt | signals::Event::Finish => {
                    return Ok(());
                }
                signals::Event::Reload
                | signals::Event::HangUp
                | signals::Event::Child
                | signals::Event::Ignored => {}
            }
        }
    })
}

fn introduction(clear: &[Address], tls: &[Address]) -> String {
    let line = |scheme: &str, address: &Address| match address {
        Address::Ip(ip) => format!("  {scheme}://{ip}/\n"),
        other => format!("  {other}\n"),
    };
    let clear = clear.iter().map(|address| line("http", address));
    let lines: String = clear.chain(tls.iter().map(|address| line("https", address))).collect();
    format!("Answers described by their URLs, listed at /:\n\n{lines}\nCtrl-C ends.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, expected: Option<&str>| {
            let shown = parse_address(text).ok().map(|address| address.to_string());
            assert_eq!(shown.as_deref(), expected, "{text}");
        };
        check("8000", Some("127.0.0.1:8000"));
        check(":8000", Some("0.0.0.0:8000"));
        check("*:0", Some("0.0.0.0:0"));
        check("10.0.0.1:80", Some("10.0.0.1:80"));
        check("[::1]:80", Some("[::1]:80"));
        check("localhost:80", Some("127.0.0.1:80"));
        check("/run/a.sock", Some("/run/a.sock"));
        check("a", None);
        check("host:80", None);
        check("70000", None);
    }
}
