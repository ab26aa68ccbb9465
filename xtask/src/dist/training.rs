//! What the counting binary does before it is built again: it proxies, answers and asks, all on this machine.
//!
//! Not all of it is what the benchmarks measure, and most of what they measure is not among it: the binary is to be
//! fast at its work and not at them.

use crate::bench::{Place, Subject, startup};
use crate::{place, program};
use std::path::Path;
use std::process::Command;

/// How long each load runs.
const SECONDS: &str = "3s";

/// A configuration of `bench/haproxy`, and what is asked of it.
struct Load {
    setup: &'static str,
    scheme: &'static str,
    /// As `weir origin` takes it.
    path: &'static str,
    options: &'static [&'static str],
}

const LOADS: [Load; 7] = [
    Load { setup: "h1", scheme: "http", path: "/bytes/9000", options: &["-c", "32"] },
    Load {
        setup: "h1",
        scheme: "http",
        path: "/echo",
        options: &["-c", "32", "-H", "Accept: text/plain", "--body", "a=b"],
    },
    Load {
        setup: "h1",
        scheme: "http",
        path: "/chunked/3000?status=404",
        options: &["-c", "4", "--new-connections"],
    },
    Load {
        setup: "tls",
        scheme: "https",
        path: "/bytes/500",
        options: &["-k", "-c", "8", "--new-connections"],
    },
    Load {
        setup: "comp",
        scheme: "http",
        path: "/bytes/20000?type=html",
        options: &["-c", "16", "-H", "Accept-Encoding: gzip"],
    },
    Load {
        setup: "h2-tls",
        scheme: "https",
        path: "/bytes/2000",
        options: &["-k", "--h2", "-c", "8", "-m", "10"],
    },
    Load { setup: "tcp", scheme: "http", path: "/bytes/1000", options: &["-c", "16"] },
];

/// Runs every load with the binary as client, proxy and origin; each writes its counts when it ends.
pub(super) fn run(weir: &Path) -> Result<(), String> {
    let place = Place::new()?;
    let subject = Subject::new("weir", weir.to_path_buf())?;
    let origin = place.weir_origin(weir, 1)?;
    for load in &LOADS {
        println!("training: {} {}", load.setup, load.path);
        let running = subject.start(&place, load.setup, origin.port)?;
        let url = format!("{}://127.0.0.1:{}{}", load.scheme, running.port, load.path);
        let mut client = Command::new(weir);
        client.args(["load", "-q", "-t", "1", "-d", SECONDS]).args(load.options).arg(url);
        program::output(&mut client)?;
    }
    let large = place.scratch.path().join("large.cfg");
    place::write(&large, &startup::configuration(origin.port))?;
    program::output(Command::new(weir).arg("check").arg(large)).map(drop)
}
