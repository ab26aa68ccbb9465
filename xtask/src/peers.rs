//! Programs of others that tests compare with or speak to. What cannot be had is left out with the reason, and the
//! tests that ask for it skip themselves. The tests beside HAProxy take a minute or two of waiting and are run by hand:
//! `HAPROXY=PATH cargo test -p weir --test beside_haproxy`.

use crate::{debian, python};
use std::ffi::OsString;
use std::path::Path;

/// What the tests of WebSockets import.
const PYTHON_PACKAGES: &[&str] = &["websockets", "h2"];

/// The environment in which the tests find them.
pub(crate) fn environment() -> Vec<(&'static str, OsString)> {
    let mut found = Vec::new();
    // Somebody may have named one already.
    if std::env::var_os("PROMTOOL").is_none() {
        match debian::need("promtool", "prometheus") {
            Ok(path) => found.push(("PROMTOOL", path.into_os_string())),
            Err(why) => println!("{why}"),
        }
    }
    match python::packages(PYTHON_PACKAGES) {
        Ok(programs) => found.push(("PATH", first_on_path(&programs))),
        Err(why) => println!("{why}"),
    }
    found
}

fn first_on_path(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}
