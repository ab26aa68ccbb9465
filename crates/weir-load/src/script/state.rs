//! One state of Lua: the table `wrk`, the script, and the limits of both.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mlua::{
    FromLuaMulti, HookTriggers, IntoLuaMulti, Lua, Table, UserData, UserDataMethods, UserDataRef, VmState,
};

use crate::request::RequestText;

/// The most memory of one state, in bytes.
const MAX_MEMORY_BYTES: usize = 1024 * 1024 * 1024;

/// After so many instructions it is looked whether a call goes on for ever.
const STEP: u32 = 1_000_000;

/// The most instructions of one call, in steps: some seconds.
const MAX_STEPS: u64 = 500;

/// How long `wrk.connect` waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A state with the script loaded.
#[derive(Clone)]
pub(super) struct State {
    lua: Lua,
    /// What the program calls, by name.
    entries: Table,
    /// Steps of the call that runs.
    steps: Arc<AtomicU64>,
}

impl State {
    pub(super) fn new(name: &str, source: &[u8], request: &RequestText) -> Result<Self, String> {
        Self::with_limits(name, source, request, MAX_MEMORY_BYTES, MAX_STEPS)
    }

    fn with_limits(
        name: &str,
        source: &[u8],
        request: &RequestText,
        max_memory_bytes: usize,
        max_steps: u64,
    ) -> Result<Self, String> {
        let lua = Lua::new();
        let made = prepare(&lua, request).and_then(|entries| {
            let steps = limit(&lua, max_memory_bytes, max_steps)?;
            let state = Self { lua: lua.clone(), entries, steps };
            // What a script prints stands between the program's own lines: see `flush`.
            state.lua.load("io.stdout:setvbuf('line')").exec()?;
            state
                .lua
                .load(source)
                .set_name(format!("@{name}"))
                .set_mode(mlua::chunk::ChunkMode::Text)
                .exec()?;
            Ok(state)
        });
        made.map_err(|error| format!("{name}: {}", in_words(&error)))
    }

    pub(super) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Calls one of the program's entries.
    pub(super) fn call<R: FromLuaMulti>(&self, entry: &str, arguments: impl IntoLuaMulti) -> mlua::Result<R> {
        self.call_function(&self.entry(entry)?, arguments)
    }

    pub(super) fn entry(&self, name: &str) -> mlua::Result<mlua::Function> {
        self.entries.get(name)
    }

    /// Calls with a new allowance of instructions.
    pub(super) fn call_function<R: FromLuaMulti>(
        &self,
        function: &mlua::Function,
        arguments: impl IntoLuaMulti,
    ) -> mlua::Result<R> {
        self.steps.store(0, Ordering::Relaxed);
        function.call(arguments)
    }

    /// Writes what was printed without the end of a line, of all states: they share their output.
    pub(super) fn flush(&self) {
        // A closed output is the script's own wish, or the end of who reads it.
        self.lua.load("io.stdout:flush()").exec().ok();
    }

    /// Whether the script has a function of that name.
    pub(super) fn defines(&self, name: &str) -> mlua::Result<bool> {
        self.call("defines", name)
    }
}

/// Makes the table `wrk`, and returns what the program calls.
fn prepare(lua: &Lua, request: &RequestText) -> mlua::Result<Table> {
    let wrk = lua.create_table()?;
    super::describe(&wrk, request)?;
    let headers = lua.create_table()?;
    for (name, value) in &request.headers {
        headers.set(name.as_str(), value.as_str())?;
    }
    wrk.set("headers", headers)?;
    wrk.set("lookup", lua.create_function(|_, (host, service)| lookup(host, service))?)?;
    let connects = |_: &Lua, address: UserDataRef<Address>| {
        Ok(TcpStream::connect_timeout(&address.0, CONNECT_TIMEOUT).is_ok())
    };
    wrk.set("connect", lua.create_function(connects)?)?;
    let time_us = |_: &Lua, ()| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(since.as_micros() as f64)
    };
    wrk.set("time_us", lua.create_function(time_us)?)?;
    lua.globals().set("wrk", wrk)?;
    lua.load(include_str!("wrk.lua")).set_name("=wrk").eval()
}

fn limit(lua: &Lua, max_memory_bytes: usize, max_steps: u64) -> mlua::Result<Arc<AtomicU64>> {
    lua.set_memory_limit(max_memory_bytes)?;
    let steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&steps);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(STEP), move |_, _| {
        if counted.fetch_add(1, Ordering::Relaxed) < max_steps {
            return Ok(VmState::Continue);
        }
        Err(mlua::Error::runtime(format!("stopped after {} instructions", max_steps * u64::from(STEP))))
    })?;
    Ok(steps)
}

/// An address of a server, as `wrk.lookup` finds it and `thread.addr` takes it.
#[derive(Clone, Copy)]
pub(super) struct Address(pub(super) SocketAddr);

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method("__tostring", |_, address, ()| Ok(address.0.to_string()));
    }
}

/// A service is a port or the name of one of HTTP's.
fn lookup(host: String, service: String) -> mlua::Result<Vec<Address>> {
    let port = match service.as_str() {
        "http" => 80,
        "https" => 443,
        number => number.parse().map_err(|_| mlua::Error::runtime(format!("'{service}' is no service")))?,
    };
    let found = (host.as_str(), port).to_socket_addrs();
    Ok(found.map_err(|error| mlua::Error::runtime(format!("{host}: {error}")))?.map(Address).collect())
}

/// The message without the chain of calls, which is the program's own.
pub(super) fn in_words(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return in_words(cause),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::MemoryError(_) => {
            format!("more than {} MiB of memory", MAX_MEMORY_BYTES / 1024 / 1024)
        }
        other => other.to_string(),
    };
    text.split("\nstack traceback:").next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::Url;

    #[test]
    fn scripts_are_limited() {
        let check = |source: &str, why: &str| {
            let url = Url::parse("http://127.0.0.1:1/").unwrap();
            let request = RequestText { method: "GET".into(), url, headers: Vec::new(), body: Vec::new() };
            let made = State::with_limits("s.lua", source.as_bytes(), &request, 16 * 1024 * 1024, 2);
            let error = made.err().unwrap();
            assert!(error.contains(why), "{source}: {error}");
        };
        check("local t = {} for n = 1, 1e9 do t[n] = ('x'):rep(1e6) .. n end", "of memory");
        check("while true do end", "stopped after 2000000 instructions");
    }
}
