//! Scripts with the interface of wrk: what is sent, what is done with answers, what is said at the end.
//!
//! Owns the script's life: one state of Lua for the run, which calls `setup` and `done`, and one for each
//! thread, which calls `init`, `request`, `delay` and `response`.  How requests travel is `connection`'s.

mod batch;

mod state;

mod thread;

mod summary;

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mlua::{BString, Lua, Table, Value};

use crate::request::RequestText;
use crate::result::RunResult;
use crate::url::ConnectTo;

use state::{State, in_words};
use thread::Handle;

pub(crate) use thread::{Answered, ThreadScript};

/// The most bytes of a script.
pub const MAX_SCRIPT_BYTES: u64 = 16 * 1024 * 1024;

/// A script and what it was called with.
pub struct Script {
    /// How errors call it.
    name: String,
    source: Vec<u8>,
    /// The URL and the header fields of the command line.
    request: RequestText,
    /// Behind `--`; the URL stands before them.
    arguments: Vec<String>,
    run: State,
    threads: Mutex<Vec<Handle>>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Script {
    /// Reads a script and runs it once, in the state that belongs to the run.
    ///
    /// # Errors
    /// What Lua says of it.
    pub fn load(
        name: &str,
        source: Vec<u8>,
        request: RequestText,
        arguments: Vec<String>,
    ) -> Result<Self, String> {
        let run = State::new(name, &source, &request)?;
        let (name, threads) = (name.to_owned(), Mutex::default());
        Ok(Self { name, source, request, arguments, run, threads })
    }

    /// Makes the states of the threads: `setup` and `init` of each, and a first look at what `request` returns.
    ///
    /// # Errors
    /// What is wrong with the script or with its first request.
    pub fn start(&self, threads: u32, connect_to: &[ConnectTo]) -> Result<(), String> {
        let address = self.first_address(connect_to)?;
        for number in 0..threads as usize {
            let state = State::new(&self.name, &self.source, &self.request)?;
            let handle = Handle::new(state, address);
            self.begin_thread(&handle).map_err(|error| self.failed(&error))?;
            if number == 0 {
                // The number of requests that one call returns shows here, and most mistakes do.
                ThreadScript::new(&handle)?.request()?;
            }
            self.handles().push(handle);
        }
        self.flush();
        Ok(())
    }

    /// Writes what scripts have printed, before the program prints something itself.
    pub(crate) fn flush(&self) {
        self.run.flush();
    }

    fn begin_thread(&self, handle: &Handle) -> mlua::Result<()> {
        let lua = handle.state.lua();
        lua.globals().get::<Table>("wrk")?.set("thread", handle.of_script())?;
        self.run.call::<()>("setup", handle.of_script())?;
        let arguments = lua.create_table()?;
        arguments.raw_set(0, self.request.url.to_string())?;
        for (number, argument) in self.arguments.iter().enumerate() {
            arguments.raw_set(number + 1, argument.as_str())?;
        }
        handle.state.call::<()>("init", arguments)
    }

    /// The script as a thread uses it, and where its connections go.
    pub(crate) fn thread(&self, number: usize) -> Result<(ThreadScript, SocketAddr), String> {
        let handles = self.handles();
        let handle = handles.get(number).ok_or("the script was not started")?;
        Ok((ThreadScript::new(handle)?, handle.address()))
    }

    /// Calls `done` when the run is over, where the script has it.
    ///
    /// # Errors
    /// What Lua says of it.
    pub fn done(&self, result: &RunResult) -> Result<(), String> {
        if !self.run.defines("done").map_err(|error| self.failed(&error))? {
            return Ok(());
        }
        let arguments = summary::arguments(self.run.lua(), result);
        let done = arguments.and_then(|arguments| self.run.call::<()>("done", arguments));
        self.flush();
        done.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &mlua::Error) -> String {
        format!("{}: {}", self.name, in_words(error))
    }

    /// Where `thread.addr` points if the script says nothing else.
    fn first_address(&self, connect_to: &[ConnectTo]) -> Result<SocketAddr, String> {
        let origin = &self.request.url.origin;
        let (host, port) = ConnectTo::apply(connect_to, origin);
        let mut found =
            (host.as_str(), port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        found.next().ok_or_else(|| format!("{host}: no address"))
    }

    fn handles(&self) -> MutexGuard<'_, Vec<Handle>> {
        // Nothing that could panic is done while it is held.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fields of `wrk` that the command line says.
fn describe(wrk: &Table, request: &RequestText) -> mlua::Result<()> {
    let origin = &request.url.origin;
    let default = if origin.https { 443 } else { 80 };
    wrk.set("scheme", origin.scheme())?;
    wrk.set("host", origin.host.as_str())?;
    wrk.set("port", (origin.port != default).then(|| origin.port.to_string()))?;
    wrk.set("path", request.url.path.as_str())?;
    wrk.set("method", request.method.as_str())?;
    wrk.set("body", (!request.body.is_empty()).then(|| BString::from(request.body.as_slice())))
}

/// The most tables within tables that go from one state to another.
const MAX_DEPTH: usize = 32;

/// Copies a value into another state: what `thread:get` and `thread:set` carry.
fn copy(value: &Value, to: &Lua, depth: usize) -> mlua::Result<Value> {
    Ok(match value {
        Value::Nil | Value::Boolean(_) | Value::Integer(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(to.create_string(text.as_bytes())?),
        Value::Table(table) if depth < MAX_DEPTH => {
            let copied = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                copied.raw_set(copy(&key, to, depth + 1)?, copy(&value, to, depth + 1)?)?;
            }
            Value::Table(copied)
        }
        Value::Table(_) => return Err(mlua::Error::runtime("a table of too many tables")),
        other => {
            let kind = other.type_name();
            return Err(mlua::Error::runtime(format!("cannot transfer '{kind}' to a thread")));
        }
    })
}
