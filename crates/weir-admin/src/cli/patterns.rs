//! Commands about maps and ACL files.
//!
//! Owns prepared versions (`prepare`, `commit`), which exist for commands alone; the lists in force and their
//! look-ups are `weir-rules`'.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_rules::data::pattern::{MAX_ENTRIES, PatternFile};

use super::{Answer, Request, Session};

/// Most prepared versions of all files together.
const MAX_VERSIONS: usize = 64;

/// Keys and values.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Versions that are not in force yet.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    files: Mutex<BTreeMap<usize, OfFile>>,
}

#[derive(Debug, Default)]
struct OfFile {
    /// Version in force.
    current: u32,
    /// Newest version.
    next: u32,
    prepared: BTreeMap<u32, Entries>,
}

impl Versions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, OfFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps or ACL files: what a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Acl,
    Map,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::Acl => "ACL",
            Self::Map => "map",
        }
    }
}

/// What a command names: a file, and a version of it that is not in force.
struct Target {
    file: Arc<PatternFile>,
    version: Option<u32>,
}

type Outcome = Result<Answer, Answer>;

fn either(outcome: Outcome) -> Answer {
    outcome.unwrap_or_else(|refused| refused)
}

/// The file that the third word names, after a version if there is one.
fn target(session: &Session, request: &Request, family: Family) -> Result<Target, Answer> {
    let (version, at) = match request.word(2).strip_prefix('@') {
        Some(number) => {
            let number = number.parse::<u32>();
            (Some(number.map_err(|_| Answer::error("Version number out of range."))?), 3)
        }
        None => (None, 2),
    };
    let name = request.word(at);
    if name.is_empty() {
        return Err(Answer::error(format!("Missing {} identifier.", family.name())));
    }
    let file = session.shared.config.patterns.find(name);
    let file = file.filter(|file| file.is_map == (family == Family::Map));
    let unknown =
        || Answer::error(format!("Unknown {} identifier. Please use #<id> or <file>.", family.name()));
    Ok(Target { file: file.ok_or_else(unknown)?, version })
}

// Showing.

/// `show acl [[@<ver>] <acl>]`
pub(crate) fn show_acl(session: &mut Session, request: &Request) -> Answer {
    either(show(session, request, Family::Acl))
}

/// `show map [[@<ver>] <map>]`
pub(crate) fn show_map(session: &mut Session, request: &Request) -> Answer {
    either(show(session, request, Family::Map))
}

fn show(session: &Session, request: &Request, family: Family) -> Outcome {
    if request.word(2).is_empty() {
        return Ok(Answer::Data(list(session, family)));
    }
    let target = target(session, request, family)?;
    let mut text = String::new();
    let mut line = |id: u64, key: &[u8], value: &[u8]| {
        // Writing to memory cannot fail.
        write!(text, "{id:#018x} {}", String::from_utf8_lossy(key)).unwrap_or_default();
        if family == Family::Map {
            write!(text, " {}", String::from_utf8_lossy(value)).unwrap_or_default();
        }
        text.push('\n');
    };
    let versions = session.versions.lock();
    let of_file = versions.get(&target.file.id);
    let current = of_file.map_or(0, |of_file| of_file.current);
    match target.version.filter(|version| *version != current) {
        None => target
            .file
            .entries()
            .iter()
            .for_each(|entry| line(reference(&target.file, entry.id), &entry.key, &entry.value)),
        Some(version) => {
            let entries = of_file.and_then(|of_file| of_file.prepared.get(&version));
            for (at, (key, value)) in entries.into_iter().flatten().enumerate() {
                line(reference(&target.file, u64::from(version) << 32 | at as u64), key, value);
            }
        }
    }
    Ok(Answer::Data(text))
}

/// The number of an entry as commands show and read it: unique over all files.
fn reference(file: &PatternFile, entry: u64) -> u64 {
    (file.id as u64 + 1) << 40 | entry
}

fn list(session: &Session, family: Family) -> String {
    let mut text = "# id (file) description\n".to_owned();
    let versions = session.versions.lock();
    for file in session.shared.config.patterns.all() {
        if file.is_map != (family == Family::Map) {
            continue;
        }
        let of_file = versions.get(&file.id);
        let (current, next) = of_file.map_or((0, 0), |of_file| (of_file.current, of_file.next));
        let prepared: usize = of_file.map_or(0, |of_file| of_file.prepared.values().map(Vec::len).sum());
        // Writing to memory cannot fail.
        writeln!(
            text,
            "{} ({name}) pattern loaded from file '{name}'. curr_ver={current} next_ver={next} entry_cnt={}",
            file.id,
            file.len() + prepared,
            name = file.name,
        )
        .unwrap_or_default();
    }
    text
}

/// `get acl <acl> <value>`
pub(crate) fn get_acl(session: &mut Session, request: &Request) -> Answer {
    either(get(session, request, Family::Acl))
}

/// `get map <map> <value>`
pub(crate) fn get_map(session: &mut Session, request: &Request) -> Answer {
    either(get(session, request, Family::Map))
}

fn get(session: &Session, request: &Request, family: Family) -> Outcome {
    if request.word(3).is_empty() {
        return Err(Answer::error(format!("Missing {} identifier and/or key.", family.name())));
    }
    let target = target(session, request, family)?;
    let mut text = String::new();
    for lookup in target.file.lookups(request.word(3).as_bytes()) {
        let case = if lookup.ignore_case { "insensitive" } else { "sensitive" };
        let (found, pattern) = match family {
            Family::Acl => ("match", "pattern"),
            Family::Map => ("found", "key"),
        };
        // Writing to memory cannot fail.
        write!(text, "type={}, case={case}, ", lookup.method).unwrap_or_default();
        match lookup.entry {
            None => write!(text, "{found}=no").unwrap_or_default(),
            Some(entry) => {
                let index = if matches!(lookup.method, "str" | "ip" | "beg") { "tree" } else { "list" };
                let key = String::from_utf8_lossy(&entry.key);
                write!(text, "{found}=yes, idx={index}, {pattern}=\"{key}\"").unwrap_or_default();
                if family == Family::Map {
                    let value = String::from_utf8_lossy(&entry.value);
                    write!(text, ", value=\"{value}\", type=\"str\"").unwrap_or_default();
                }
            }
        }
        text.push('\n');
    }
    Ok(Answer::Data(text))
}

// Changing.

/// `add acl [@<ver>] <acl> <pattern>`
pub(crate) fn add_acl(session: &mut Session, request: &Request) -> Answer {
    either(try_add_acl(session, request))
}

fn try_add_acl(session: &Session, request: &Request) -> Outcome {
    let name_at = if request.word(2).starts_with('@') { 3 } else { 2 };
    let pattern = request.word(name_at + 1);
    if pattern.is_empty() && request.payload.is_none() {
        return Err(Answer::error("'add acl' expects two parameters: ACL identifier and pattern."));
    }
    let shared_with_map =
        session.shared.config.patterns.find(request.word(name_at)).is_some_and(|f| f.is_map);
    if shared_with_map {
        return Err(Answer::error(
            "This ACL is shared with a map containing samples. You must use the command 'add map' to add values.",
        ));
    }
    let target = target(session, request, Family::Acl)?;
    let entries = match &request.payload {
        Some(payload) => lines(payload).map(|line| (line.to_vec(), Vec::new())).collect(),
        None => vec![(pattern.as_bytes().to_vec(), Vec::new())],
    };
    add(session, &target, entries)
}

/// `add map [@<ver>] <map> <key> <value>`, or with the entries as payload.
pub(crate) fn add_map(session: &mut Session, request: &Request) -> Answer {
    either(try_add_map(session, request))
}

fn try_add_map(session: &Session, request: &Request) -> Outcome {
    let name_at = if request.word(2).starts_with('@') { 3 } else { 2 };
    let (key, value) = (request.word(name_at + 1), request.word(name_at + 2));
    let complete = match &request.payload {
        Some(_) => !request.word(name_at).is_empty() && key.is_empty(),
        None => !value.is_empty(),
    };
    if !complete {
        return Err(Answer::error(
            "'add map' expects three parameters (map identifier, key and value) or one parameter \
             (map identifier) and a payload",
        ));
    }
    let target = target(session, request, Family::Map)?;
    let mut entries = Vec::new();
    match &request.payload {
        None => entries.push((key.as_bytes().to_vec(), value.as_bytes().to_vec())),
        Some(payload) => {
            for line in lines(payload) {
                let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
                let (key, value) = (&line[..end], line[end..].trim_ascii());
                if value.is_empty() {
                    let key = String::from_utf8_lossy(key);
                    return Err(Answer::error(format!("Missing value for key '{key}'.")));
                }
                entries.push((key.to_vec(), value.to_vec()));
            }
        }
    }
    add(session, &target, entries)
}

/// The lines of a payload that hold something.
fn lines(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    payload.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

fn add(session: &Session, target: &Target, entries: Vec<(Vec<u8>, Vec<u8>)>) -> Outcome {
    let mut versions = session.versions.lock();
    let of_file = versions.get_mut(&target.file.id);
    let current = of_file.as_ref().map_or(0, |of_file| of_file.current);
    match target.version.filter(|version| *version != current) {
        None => target.file.extend(&entries).map_err(Answer::error)?,
        Some(version) => {
            let prepared = of_file.and_then(|of_file| of_file.prepared.get_mut(&version));
            let prepared = prepared.ok_or_else(|| Answer::error("Version number out of range."))?;
            if prepared.len() + entries.len() > MAX_ENTRIES {
                return Err(Answer::error(format!("more than {MAX_ENTRIES} entries")));
            }
            prepared.extend(entries);
        }
    }
    Ok(Answer::Done)
}

/// `set map <map> [<key>|#<ref>] <value>`
pub(crate) fn set_map(session: &mut Session, request: &Request) -> Answer {
    either(try_set_map(session, request))
}

fn try_set_map(session: &Session, request: &Request) -> Outcome {
    let (key, value) = (request.word(3), request.word(4));
    if value.is_empty() {
        return Err(Answer::error("'set map' expects three parameters: map identifier, key and value."));
    }
    let target = target(session, request, Family::Map)?;
    let found = match by_reference(&target.file, key) {
        Some(id) => target.file.set_by_id(id, value.as_bytes()),
        None => target.file.set(key.as_bytes(), value.as_bytes()).map(|count| count > 0),
    };
    match found.map_err(Answer::error)? {
        true => Ok(Answer::Done),
        false => Err(Answer::error("entry not found.")),
    }
}

/// The entry that `#0x...` means in a file.
fn by_reference(file: &PatternFile, word: &str) -> Option<u64> {
    let digits = word.strip_prefix("#0x")?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    number.checked_sub(reference(file, 0)).filter(|entry| *entry < 1 << 40)
}

/// `del acl <acl> [<key>|#<ref>]`
pub(crate) fn delete_acl(session: &mut Session, request: &Request) -> Answer {
    either(delete(session, request, Family::Acl))
}

/// `del map <map> [<key>|#<ref>]`
pub(crate) fn delete_map(session: &mut Session, request: &Request) -> Answer {
    either(delete(session, request, Family::Map))
}

fn delete(session: &Session, request: &Request, family: Family) -> Outcome {
    let key = request.word(3);
    if key.is_empty() {
        let what = if family == Family::Acl { "ACL" } else { "map" };
        return Err(Answer::error(format!(
            "This command expects two parameters: {what} identifier and key."
        )));
    }
    let target = target(session, request, family)?;
    let removed = match (by_reference(&target.file, key), key.starts_with("#0x")) {
        (Some(id), _) => target.file.remove(|entry| entry.id == id),
        (None, true) => 0,
        (None, false) => target.file.remove(|entry| *entry.key == *key.as_bytes()),
    };
    if removed == 0 { Err(Answer::error("Key not found.")) } else { Ok(Answer::Done) }
}

/// `clear acl [@<ver>] <acl>`
pub(crate) fn clear_acl(session: &mut Session, request: &Request) -> Answer {
    either(clear(session, request, Family::Acl))
}

/// `clear map [@<ver>] <map>`
pub(crate) fn clear_map(session: &mut Session, request: &Request) -> Answer {
    either(clear(session, request, Family::Map))
}

fn clear(session: &Session, request: &Request, family: Family) -> Outcome {
    let target = target(session, request, family)?;
    let mut versions = session.versions.lock();
    let of_file = versions.get_mut(&target.file.id);
    let current = of_file.as_ref().map_or(0, |of_file| of_file.current);
    match target.version.filter(|version| *version != current) {
        None => {
            target.file.remove(|_| true);
        }
        Some(version) => {
            if let Some(prepared) = of_file.and_then(|of_file| of_file.prepared.get_mut(&version)) {
                prepared.clear();
            }
        }
    }
    Ok(Answer::Done)
}

// Versions.

/// `prepare acl <acl>`
pub(crate) fn prepare_acl(session: &mut Session, request: &Request) -> Answer {
    either(prepare(session, request, Family::Acl))
}

/// `prepare map <map>`
pub(crate) fn prepare_map(session: &mut Session, request: &Request) -> Answer {
    either(prepare(session, request, Family::Map))
}

fn prepare(session: &Session, request: &Request, family: Family) -> Outcome {
    let target = target(session, request, family)?;
    let mut versions = session.versions.lock();
    if versions.values().map(|of_file| of_file.prepared.len()).sum::<usize>() >= MAX_VERSIONS {
        return Err(Answer::error(format!(
            "There are {MAX_VERSIONS} versions already that wait for a commit."
        )));
    }
    let of_file = versions.entry(target.file.id).or_default();
    of_file.next = of_file.next.wrapping_add(1);
    of_file.prepared.insert(of_file.next, Vec::new());
    Ok(Answer::info(format!("New version created: {}", of_file.next)))
}

/// `commit acl @<ver> <acl>`
pub(crate) fn commit_acl(session: &mut Session, request: &Request) -> Answer {
    either(commit(session, request, Family::Acl))
}

/// `commit map @<ver> <map>`
pub(crate) fn commit_map(session: &mut Session, request: &Request) -> Answer {
    either(commit(session, request, Family::Map))
}

fn commit(session: &Session, request: &Request, family: Family) -> Outcome {
    if !request.word(2).starts_with('@') {
        return Err(Answer::error("Missing version number."));
    }
    let target = target(session, request, family)?;
    let out_of_range = || Answer::error("Version number out of range.");
    let version = target.version.ok_or_else(out_of_range)?;
    let mut versions = session.versions.lock();
    let of_file = versions.get_mut(&target.file.id).ok_or_else(out_of_range)?;
    let entries = of_file.prepared.get(&version).ok_or_else(out_of_range)?;
    target.file.replace(entries).map_err(Answer::error)?;
    // Older versions will never be in force.
    of_file.prepared.retain(|other, _| *other > version);
    of_file.current = version;
    Ok(Answer::Done)
}
