//! `cargo xtask COMMAND`: what the project runs on itself.
//!
//! This file owns the list of commands; each command has a file of its name.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks to its terminal")]

mod arguments;

mod debian;
mod peers;
mod place;
mod program;
mod python;
mod tls_client;

mod attack;
mod bench;
mod check;
mod counts;
mod cycles;
mod dist;
mod documents;
mod fuzz;
mod guards;
mod h2spec;
mod imports;
mod layers;
mod model_fields;
mod regtests;
mod reused_memory;
mod suite;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND [options]

  check       what has to hold before a merge: format, lints, tests, guards, regression cases
  regtests    run HAProxy's regression cases on weir
              [--program PATH] [--case SUBSTRING] [--jobs N] [--list FILE] [--keep-logs] [--update]
  bench       measure CPU time a request, memory and start-up time, beside haproxy, nginx and h2o
              [--row NAME] [--rounds N] [--seconds S] [--subjects weir,haproxy,haproxy-3.0,nginx,h2o,pump]
              [--program PATH] [--profile PROFILE]
  bench latency
              highest rate, and latency by percentile at parts of it, over HTTPS; writes a page with plots
              [--seconds S] [--rounds N] [--subjects weir,haproxy,nginx,h2o,envoy,caddy] [--step S]
              [--from RATE] [--connections N] [--path /bytes/1000] [--program PATH] [--profile PROFILE]
  bench compression
              requests/s, CPU time and size of every algorithm and level; writes a page with plots
              [--seconds S] [--rounds N] [--subjects weir,haproxy,nginx] [--program PATH] [--profile PROFILE]
  bench cost  instructions, cache misses, allocations, atomics and system calls a request, under callgrind;
              --accept writes those that check compares with
              [--row NAME] [--subjects weir,haproxy,nginx] [--program PATH] [--profile PROFILE] | [--accept]
  bench deflate
              the encoder's size and speed beside zlib-ng, igzip, libdeflate and slz, over bodies out of packages
              [--part test|tune] [--rounds N] [--piece-kb N] [--gather]
  attack      send what hostile clients and origins send, to weir, haproxy and nginx: CPU time, memory,
              and whether a well-behaved client is still served
              [--list] [--row NAME] [--seconds S] [--subjects weir,haproxy,haproxy-3.0,nginx]
              [--program PATH] [--profile PROFILE]
  dist        build the packaged binary, optimised by profile, as a tarball and a Debian package
              [--bolt] [--program PATH]
  fuzz        feed mutated input to the parsers; one target, or all in turn
              [--seconds N] [TARGET]
  h2spec      run the HTTP/2 conformance cases on weir, in clear and over TLS
              [--program PATH]
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    let outcome = match command.as_str() {
        "attack" => attack::run(&rest),
        "check" => check::run(&rest),
        "bench" => bench::run(&rest),
        "dist" => dist::run(&rest),
        "fuzz" => fuzz::run(&rest),
        "h2spec" => h2spec::run(&rest),
        "regtests" => regtests::run(&rest),
        "" | "help" | "--help" | "-h" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => Err(format!("there is no command '{other}'\n{USAGE}")),
    };
    match outcome {
        Ok(code) => code,
        Err(message) => {
            eprintln!("xtask {command}: {message}");
            ExitCode::FAILURE
        }
    }
}
