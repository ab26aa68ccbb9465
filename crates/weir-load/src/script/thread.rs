//! A thread of the run as its script sees it, and the script as the thread uses it.

use std::cell::{Ref, RefCell};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mlua::{Function, LuaString, UserData, UserDataFields, UserDataMethods, UserDataRef, Value, WeakLua};

use super::batch::Batch;
use super::copy;
use super::state::{Address, State, in_words};

/// The longest pause that `delay` asks for.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// One thread's state, kept for `done`.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) state: State,
    address: Arc<Mutex<SocketAddr>>,
    stopped: Arc<AtomicBool>,
}

impl Handle {
    pub(super) fn new(state: State, address: SocketAddr) -> Self {
        Self { state, address: Arc::new(Mutex::new(address)), stopped: Arc::default() }
    }

    pub(super) fn address(&self) -> SocketAddr {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value that scripts have of a thread.
    pub(super) fn of_script(&self) -> ScriptThread {
        ScriptThread {
            lua: self.state.lua().weak(),
            address: Arc::clone(&self.address),
            stopped: Arc::clone(&self.stopped),
        }
    }
}

/// `wrk.thread`, and what `setup` is called with.
pub(super) struct ScriptThread {
    /// A state does not keep itself.
    lua: WeakLua,
    address: Arc<Mutex<SocketAddr>>,
    stopped: Arc<AtomicBool>,
}

impl UserData for ScriptThread {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, thread| {
            Ok(Address(*thread.address.lock().unwrap_or_else(PoisonError::into_inner)))
        });
        fields.add_field_method_set("addr", |_, thread, address: UserDataRef<Address>| {
            *thread.address.lock().unwrap_or_else(PoisonError::into_inner) = address.0;
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        let gone = || mlua::Error::runtime("the thread has ended");
        methods.add_method("get", move |lua, thread, name: LuaString| {
            let other = thread.lua.try_upgrade().ok_or_else(gone)?;
            let value: Value = other.globals().get(other.create_string(name.as_bytes())?)?;
            copy(&value, lua, 0)
        });
        methods.add_method("set", move |_, thread, (name, value): (LuaString, Value)| {
            let other = thread.lua.try_upgrade().ok_or_else(gone)?;
            let value = copy(&value, &other, 0)?;
            other.globals().set(other.create_string(name.as_bytes())?, value)
        });
        methods.add_method("stop", |_, thread, ()| {
            thread.stopped.store(true, Ordering::Relaxed);
            Ok(())
        });
    }
}

/// A complete answer, for `response`.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    /// As it came, with the status line.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Answered {
    /// The header fields with their names as the server wrote them.
    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((line.get(..colon)?, line.get(colon + 1..)?.trim_ascii()))
        })
    }
}

/// The script in the hands of its thread.
pub(crate) struct ThreadScript {
    state: State,
    stopped: Arc<AtomicBool>,
    batch: RefCell<Batch>,
    /// None where every request is the same.
    request: Option<Function>,
    delay: Option<Function>,
    response: Option<Function>,
}

impl ThreadScript {
    pub(super) fn new(handle: &Handle) -> Result<Self, String> {
        let state = handle.state.clone();
        let entry = |name: &str| -> mlua::Result<Option<Function>> {
            if state.defines(name)? { state.entry(name).map(Some) } else { Ok(None) }
        };
        let entries = (|| Ok((entry("request")?, entry("delay")?, entry("response")?)))();
        let (request, delay, response) = entries.map_err(|error| in_words(&error))?;
        let (stopped, batch) = (Arc::clone(&handle.stopped), RefCell::default());
        let script = Self { state, stopped, batch, request, delay, response };
        if script.request.is_none() {
            let text = script.state.call::<LuaString>("request", ()).map_err(|error| in_words(&error))?;
            script.take(&text)?;
        }
        Ok(script)
    }

    /// The next request, or several.
    pub(crate) fn request(&self) -> Result<Ref<'_, Batch>, String> {
        if let Some(request) = &self.request {
            let text: LuaString = self
                .state
                .call_function(request, ())
                .map_err(|error| format!("request: {}", in_words(&error)))?;
            self.take(&text)?;
        }
        Ok(self.batch.borrow())
    }

    fn take(&self, text: &LuaString) -> Result<(), String> {
        let set = self.batch.borrow_mut().set(&text.as_bytes());
        set.map_err(|why| format!("what 'request' returned is no request: {why}"))
    }

    /// How long to wait before the next request; nothing where the script has no `delay`.
    pub(crate) fn delay(&self) -> Result<Option<Duration>, String> {
        let Some(delay) = &self.delay else { return Ok(None) };
        let ms: f64 =
            self.state.call_function(delay, ()).map_err(|error| format!("delay: {}", in_words(&error)))?;
        let longest_ms = LONGEST_DELAY.as_millis() as f64;
        // NaN becomes the first of them.
        Ok(Some(Duration::from_secs_f64(ms.max(0.0).min(longest_ms) / 1000.0)))
    }

    /// Whether heads and bodies are to be kept for it.
    pub(crate) fn wants_answers(&self) -> bool {
        self.response.is_some()
    }

    /// Hands it an answer.
    pub(crate) fn answered(&self, answered: &Answered) -> Result<(), String> {
        let Some(response) = &self.response else { return Ok(()) };
        let lua = self.state.lua();
        let told = lua.create_table().and_then(|headers| {
            for (name, value) in answered.fields() {
                headers.raw_set(lua.create_string(name)?, lua.create_string(value)?)?;
            }
            let body = lua.create_string(&answered.body)?;
            self.state.call_function::<()>(response, (answered.status, headers, body))
        });
        told.map_err(|error| format!("response: {}", in_words(&error)))
    }

    /// Whether it has said that its thread is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
