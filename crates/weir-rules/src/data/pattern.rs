//! Maps and ACL files: read once, looked up by all who name them, changed at run time.
//!
//! A [`PatternFile`] is the list; a [`PatternView`] is the list compiled for one matching method and one type of
//! values.  Look-ups read a snapshot without locks; a change compiles a new snapshot.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;

use crate::data::matcher::{METHODS, Operator, Patterns, Rules, Source};
use crate::data::pcre;
use crate::value::{Type, Value, parse_ip, strict_int};
use crate::{Diagnostic, Word};

/// Most entries of one file: bounds what run-time additions may take.
pub const MAX_ENTRIES: usize = 4 << 20;

/// All pattern files of a configuration, by name.
#[derive(Debug, Default)]
pub struct PatternFiles {
    list: Mutex<BTreeMap<String, Arc<PatternFile>>>,
}

/// A line of a pattern file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatternEntry {
    /// Number that stays the same while the entry lives (`#0x...` on the runtime socket).
    pub id: u64,
    /// The pattern.
    pub key: Box<[u8]>,
    /// The value of a map's entry; empty for ACLs.
    pub value: Box<[u8]>,
}

/// A map or ACL file.
#[derive(Debug)]
pub struct PatternFile {
    /// Name, without `file@` and `opt@`.
    pub name: String,
    /// Number in the order of first use (`#N` on the runtime socket).
    pub id: usize,
    /// Used by a map converter.
    pub is_map: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<PatternEntry>,
    next_id: u64,
    views: Vec<Arc<PatternView>>,
}

/// What one use of a pattern file finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// Name of the matching method.
    pub method: &'static str,
    /// Letters match in both cases.
    pub ignore_case: bool,
    /// The entry found.
    pub entry: Option<PatternEntry>,
}

/// A pattern file compiled for one use.
#[derive(Debug)]
pub struct PatternView {
    rules: Rules,
    output: Type,
    compiled: ArcSwap<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    patterns: Patterns,
    values: Vec<Value<'static>>,
}

/// Locks; a panic while the lock was held leaves plain data that is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl PatternFiles {
    /// All files by number.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<PatternFile>> {
        let mut all: Vec<_> = lock(&self.list).values().cloned().collect();
        all.sort_by_key(|f| f.id);
        all
    }

    /// The file with this name (with or without prefix) or `#number`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<PatternFile>> {
        if let Some(number) = name.strip_prefix('#') {
            let number: usize = number.parse().ok()?;
            return lock(&self.list).values().find(|f| f.id == number).cloned();
        }
        lock(&self.list).get(plain_name(name)).cloned()
    }

    /// The file a word names, read when it is new.
    pub(crate) fn open(
        &self,
        word: &Word,
        is_map: bool,
        read: impl FnOnce(&Word) -> Result<Vec<u8>, Vec<Diagnostic>>,
    ) -> Result<Arc<PatternFile>, Vec<Diagnostic>> {
        let name = word.as_str();
        let key = plain_name(&name).to_owned();
        if let Some(known) = lock(&self.list).get(&key) {
            return Ok(Arc::clone(known));
        }
        let bytes = if name.starts_with("virt@") {
            Vec::new()
        } else {
            let path = Word { text: key.clone().into_bytes(), pos: word.pos };
            match (read(&path), name.starts_with("opt@")) {
                (Ok(bytes), _) => bytes,
                (Err(_), true) => Vec::new(),
                (Err(e), false) => return Err(e),
            }
        };
        let mut state = State::default();
        for (key, value) in read_lines(&bytes, is_map) {
            if is_map && value.is_empty() {
                let message = format!("'{}' in map '{name}' has no value", String::from_utf8_lossy(key));
                return Err(vec![Diagnostic::error(word.pos, message)]);
            }
            state.push(key, value);
        }
        let mut list = lock(&self.list);
        let file = PatternFile { name: key.clone(), id: list.len(), is_map, state: Mutex::new(state) };
        let file = Arc::new(file);
        list.insert(key, Arc::clone(&file));
        Ok(file)
    }
}

/// A name without the prefixes that are not part of it.
fn plain_name(name: &str) -> &str {
    name.strip_prefix("file@").or_else(|| name.strip_prefix("opt@")).unwrap_or(name)
}

/// Patterns (and values) of a file's lines; comments start with `#` in the first column.
fn read_lines(bytes: &[u8], is_map: bool) -> impl Iterator<Item = (&[u8], &[u8])> {
    bytes.split(|b| *b == b'\n').filter(|line| !line.starts_with(b"#")).filter_map(move |line| {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        if !is_map {
            return Some((line, &b""[..]));
        }
        let end = line.iter().position(|b| matches!(b, b' ' | b'\t')).unwrap_or(line.len());
        Some((&line[..end], line[end..].trim_ascii()))
    })
}

impl State {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.entries.push(PatternEntry { id: self.next_id, key: key.into(), value: value.into() });
        self.next_id += 1;
    }

    /// Compiles all views anew; none changes when one cannot.
    fn publish(&self) -> Result<(), String> {
        let compiled: Result<Vec<_>, _> = self.views.iter().map(|view| view.compile(&self.entries)).collect();
        for (view, compiled) in self.views.iter().zip(compiled?) {
            view.compiled.store(Arc::new(compiled));
        }
        Ok(())
    }

    /// Changes the entries and publishes them, or leaves all as it was.
    fn change(&mut self, edit: impl FnOnce(&mut Self)) -> Result<(), String> {
        let before = self.entries.clone();
        edit(self);
        let result = match self.entries.len() <= MAX_ENTRIES {
            true => self.publish(),
            false => Err(format!("more than {MAX_ENTRIES} entries")),
        };
        if result.is_err() {
            self.entries = before;
        }
        result
    }
}

impl PatternFile {
    /// A copy of its entries, in order.
    #[must_use]
    pub fn entries(&self) -> Vec<PatternEntry> {
        lock(&self.state).entries.clone()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.state).entries.len()
    }

    /// Without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an entry, also when there is one with this key.
    ///
    /// # Errors
    /// The key or value does not fit a use of the file.
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        lock(&self.state).change(|state| state.push(key, value))
    }

    /// Adds many entries at once, or none.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn extend(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
        lock(&self.state).change(|state| {
            for (key, value) in entries {
                state.push(key, value);
            }
        })
    }

    /// Adds an entry unless there is one with this key (`add-acl`).
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_once(&self, key: &[u8]) -> Result<(), String> {
        let mut state = lock(&self.state);
        if state.entries.iter().any(|e| *e.key == *key) {
            return Ok(());
        }
        state.change(|state| state.push(key, b""))
    }

    /// Sets the value of the entries with this key; returns how many there were.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<usize, String> {
        let mut state = lock(&self.state);
        let mut count = 0;
        state.change(|state| {
            for entry in state.entries.iter_mut().filter(|e| *e.key == *key) {
                entry.value = value.into();
                count += 1;
            }
        })?;
        Ok(count)
    }

    /// Sets the value of the entry with this number; false when there is none.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn set_by_id(&self, id: u64, value: &[u8]) -> Result<bool, String> {
        let mut state = lock(&self.state);
        let mut found = false;
        state.change(|state| {
            if let Some(entry) = state.entries.iter_mut().find(|e| e.id == id) {
                entry.value = value.into();
                found = true;
            }
        })?;
        Ok(found)
    }

    /// Sets the value of a key, adding an entry when there is none (`set-map`).
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn upsert(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        match self.set(key, value)? {
            0 => self.add(key, value),
            _ => Ok(()),
        }
    }

    /// Removes the entries for which `matches` holds; returns how many there were.
    pub fn remove(&self, matches: impl Fn(&PatternEntry) -> bool) -> usize {
        let mut state = lock(&self.state);
        let before = state.entries.len();
        // Fewer entries of a list that compiled still compile.
        drop(state.change(|state| state.entries.retain(|e| !matches(e))));
        before - state.entries.len()
    }

    /// Replaces all entries at once (`commit map`).
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn replace(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
        lock(&self.state).change(|state| {
            state.entries.clear();
            for (key, value) in entries {
                state.push(key, value);
            }
        })
    }

    /// The entry that a look-up of this text finds, by the first use of the file (`get map`).
    #[must_use]
    pub fn lookup(&self, text: &[u8]) -> Option<PatternEntry> {
        let state = lock(&self.state);
        let view = state.views.first()?;
        let at = view.compiled.load().patterns.find(&Value::text(text))?;
        state.entries.get(at).cloned()
    }

    /// What a look-up of this text finds in each use of the file (`get map`, `get acl`).
    #[must_use]
    pub fn lookups(&self, text: &[u8]) -> Vec<Lookup> {
        let state = lock(&self.state);
        let look = |view: &Arc<PatternView>| {
            let at = view.compiled.load().patterns.find(&Value::text(text));
            Lookup {
                method: METHODS[view.rules.method as usize].name,
                ignore_case: view.rules.ignore_case,
                entry: at.and_then(|at| state.entries.get(at).cloned()),
            }
        };
        state.views.iter().map(look).collect()
    }

    /// The file compiled for a use; uses alike share one.
    pub(crate) fn view(
        &self,
        rules: Rules,
        output: Type,
        word: &Word,
    ) -> Result<Arc<PatternView>, Diagnostic> {
        let mut state = lock(&self.state);
        if let Some(known) = state.views.iter().find(|v| v.rules == rules && v.output == output) {
            return Ok(Arc::clone(known));
        }
        let empty = Compiled {
            patterns: compile(rules, &[]).map_err(|e| Diagnostic::error(word.pos, e))?,
            values: vec![],
        };
        let view = PatternView { rules, output, compiled: ArcSwap::from_pointee(empty) };
        let compiled = view.compile(&state.entries);
        let compiled =
            compiled.map_err(|e| Diagnostic::error(word.pos, format!("{e} (in '{}')", self.name)))?;
        view.compiled.store(Arc::new(compiled));
        let view = Arc::new(view);
        state.views.push(Arc::clone(&view));
        Ok(view)
    }
}

fn compile(rules: Rules, entries: &[PatternEntry]) -> Result<Patterns, String> {
    let source = |e: &PatternEntry| Source { text: e.key.clone(), operator: Operator::Eq };
    let sources: Vec<_> = entries.iter().map(source).collect();
    Patterns::compile(rules, &sources).map_err(|(_, message)| message)
}

impl PatternView {
    fn compile(&self, entries: &[PatternEntry]) -> Result<Compiled, String> {
        let patterns = compile(self.rules, entries)?;
        let values = match self.output {
            Type::Any => Vec::new(),
            _ => entries.iter().map(|e| typed_value(&e.value, self.output)).collect::<Result<_, _>>()?,
        };
        Ok(Compiled { patterns, values })
    }

    /// Whether any pattern matches.
    pub(crate) fn matches(&self, value: &Value<'_>) -> bool {
        self.compiled.load().patterns.matches(value)
    }

    /// The value of the entry that matches.
    pub(crate) fn lookup(&self, value: &Value<'_>) -> Option<Value<'static>> {
        let compiled = self.compiled.load();
        compiled.values.get(compiled.patterns.find(value)?).cloned()
    }

    /// The key of the entry that matches (`map_..._key`): its place is enough for those who keep the list.
    /// For `map_regm`: the value with back-references filled in.
    pub(crate) fn expand(&self, value: &Value<'_>) -> Option<Value<'static>> {
        let compiled = self.compiled.load();
        let at = compiled.patterns.find(value)?;
        let text = value.clone().into_bytes();
        let groups = compiled.patterns.regex(at)?.captures(&text)?;
        let Some(Value::Str(replacement)) = compiled.values.get(at) else { return None };
        let mut out = Vec::new();
        pcre::expand(replacement, &groups, &mut out);
        Some(Value::owned(out))
    }
}

/// A map's value as the converter's output type.
fn typed_value(text: &[u8], output: Type) -> Result<Value<'static>, String> {
    let shown = || String::from_utf8_lossy(text).into_owned();
    match output {
        Type::Int => strict_int(text).map(Value::Int).ok_or_else(|| format!("'{}' is no integer", shown())),
        Type::Ip => parse_ip(text)
            .map(|ip: IpAddr| Value::Ip(ip))
            .ok_or_else(|| format!("'{}' is no address", shown())),
        _ => Ok(Value::owned(text.to_vec())),
    }
}
