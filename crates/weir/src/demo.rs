//! `weir demo`: three origins behind Weir, all in this process and on loopback.
//!
//! Owns the ports, the certificate and the key press that takes an origin away; leaves the origins, their
//! site and the configuration to the files of its folder.

mod config;
mod images;
mod origin;
mod site;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokio::sync::mpsc;
use tokio::task::LocalSet;
use weir_net::handover::Inheritance;

use crate::command_line::{Options, Role};
use crate::console::{self, Console};
use crate::demo::config::Places;
use crate::demo::origin::Origin;
use crate::demo::site::PERSONAS;
use crate::serve::{self, Plane};
use crate::signals::{self, Signals};
use crate::{EXIT_INVALID, configuration};

/// Key presses that wait to be followed.
const MAX_KEYS: usize = 16;

/// Prints the configuration without running it.
pub(crate) fn print_config() -> ExitCode {
    console::print(&config::text(&Places::default(), Path::new("demo.pem")));
    ExitCode::SUCCESS
}

/// Runs until Ctrl-C.
pub(crate) fn run() -> ExitCode {
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the event loop: {error}"))
        .and_then(|runtime| LocalSet::new().block_on(&runtime, show()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            Console::default().alert(&message);
            ExitCode::from(EXIT_INVALID)
        }
    }
}

async fn show() -> Result<(), String> {
    let because = |what: &'static str| move |error: io::Error| format!("cannot {what}: {error}");
    let mut signals = Signals::new().map_err(because("receive signals"))?;
    let mut origins = Vec::new();
    for persona in PERSONAS {
        origins.push(Origin::start(persona).await.map_err(because("start an origin"))?);
    }
    let folder = Folder::create().map_err(because("create a folder for the certificate"))?;
    let mut places = free_places().map_err(because("find free ports"))?;
    for (place, origin) in places.origins.iter_mut().zip(&origins) {
        *place = origin.address;
    }
    let plane = weir(&folder, &places)?;
    console::print(&introduction(&places, &folder));
    let mut keys = io::stdin().is_terminal().then(keys);
    let mut victim = 0;
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                signals::Event::Terminate | signals::Event::Interrupt | signals::Event::Finish => break,
                signals::Event::Reload | signals::Event::HangUp | signals::Event::Child | signals::Event::Ignored => {}
            },
            () = plane.finished() => break,
            Some(key) = next_key(&mut keys) => match key {
                Key::Toggle => toggle(&mut origins, &mut victim).await.map_err(because("bring an origin back"))?,
                Key::Quit => break,
            },
        }
    }
    console::print("\nThe demo is over.\n");
    Ok(())
}

/// Weir in front of the origins, from a configuration file like any other.
fn weir(folder: &Folder, places: &Places) -> Result<Plane, String> {
    let certificate = folder.path.join("demo.pem");
    let configuration = folder.path.join("haproxy.cfg");
    let because = |error: io::Error| format!("cannot write to {}: {error}", folder.path.display());
    folder.write(&certificate, &self_signed()?).map_err(because)?;
    folder.write(&configuration, &config::text(places, &certificate)).map_err(because)?;
    let options = Options { files: vec![configuration], ..Options::default() };
    let loaded = configuration::load(&options, Role::First, &Console::default())
        .map_err(|_| "the demo's own configuration cannot be used".to_owned())?;
    serve::start_plane(loaded.config, &mut Inheritance::default())
}

/// A certificate for this machine, and its key, in one file as `crt` reads it.
fn self_signed() -> Result<String, String> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| format!("cannot make a certificate: {error}"))?;
    Ok(format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem()))
}

/// The usual ports where they are free, others where they are not.
fn free_places() -> io::Result<Places> {
    let mut places = Places::default();
    for place in [&mut places.plain, &mut places.tls, &mut places.statistics] {
        *place = free(*place)?;
    }
    Ok(places)
}

fn free(usual: SocketAddr) -> io::Result<SocketAddr> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    TcpListener::bind(usual).or_else(|_| TcpListener::bind(any))?.local_addr()
}

/// The demo's own folder, readable by nobody else; it goes away with the demo.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn create() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("weir-demo-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning of temporary files.
        std::fs::remove_dir_all(&self.path).ok();
    }
}

enum Key {
    Toggle,
    Quit,
}

async fn next_key(keys: &mut Option<mpsc::Receiver<Key>>) -> Option<Key> {
    match keys {
        Some(keys) => keys.recv().await,
        None => std::future::pending().await,
    }
}

/// Lines from the terminal.
fn keys() -> mpsc::Receiver<Key> {
    let (sender, receiver) = mpsc::channel(MAX_KEYS);
    // Reading a terminal blocks, and the process does not wait for this thread when it ends.
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let key = match line.as_deref().map(str::trim) {
                Ok("" | "k") => Key::Toggle,
                Ok("q") => Key::Quit,
                Ok(_) => continue,
                Err(_) => return,
            };
            if sender.blocking_send(key).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Takes the next origin away, or brings the missing one back.
async fn toggle(origins: &mut [Origin], victim: &mut usize) -> io::Result<()> {
    let count = origins.len();
    let Some(origin) = origins.get_mut(*victim) else { return Ok(()) };
    if origin.is_running() {
        origin.take_away();
        console::print(&format!("  - {} is gone (Enter brings it back)\n", origin.persona.name));
    } else {
        origin.bring_back().await?;
        console::print(&format!("  + {} is back (Enter takes the next one away)\n", origin.persona.name));
        *victim = (*victim + 1) % count;
    }
    Ok(())
}

fn introduction(places: &Places, folder: &Folder) -> String {
    let Places { plain, tls, statistics, .. } = places;
    let keys = if io::stdin().is_terminal() {
        "Enter takes an origin away and brings it back, q or Ctrl-C ends.\n"
    } else {
        "Ctrl-C ends.\n"
    };
    format!(
        "
Three origins behind one Weir:

  pages        http://{plain}/
  with TLS     https://{tls}/   (self-signed certificate, HTTP/2)
  statistics   http://{statistics}/
  read from    {}

Try:

  curl -i http://{plain}/
  curl -ik --http2 https://{tls}/api/status
  curl -v --compressed -o /dev/null http://{plain}/api/items
  curl -i http://{plain}/admin
  for i in 1 2 3 4 5 6; do curl -s http://{plain}/api/status; done

{keys}",
        folder.path.join("haproxy.cfg").display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_is_replaced() {
        let busy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let usual = busy.local_addr().unwrap();
        assert_ne!(free(usual).unwrap(), usual);
        drop(busy);
        assert_eq!(free(usual).unwrap(), usual);
    }

    #[test]
    fn the_certificate_has_its_key() {
        let pem = self_signed().unwrap();
        assert!(pem.contains("-----BEGIN CERTIFICATE-----") && pem.contains("-----BEGIN PRIVATE KEY-----"));
    }
}
