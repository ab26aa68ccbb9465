//! One connection to a peer after the hello: what to say and what to do with what is said.
//!
//! Bytes in, bytes out; the tables are the shared ones.  Leaves sockets and times to [`super`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use weir_balance::Key;

use super::wire::{self, Definition, Dictionary, KeyForm, Malformed, Message, Stored, Update};
use crate::state::stick_table::{StickTable, TYPE_ORDER};

/// Output is not added to beyond this much: the other side has to read first.
const ENOUGH_OUTPUT_BYTES: usize = 16 * 1024;

/// Most tables that a peer may define.
const MAX_TABLES: usize = 1024;

/// A table that is kept in step, and the name it has for peers.
#[derive(Clone)]
pub(crate) struct Synced {
    pub(crate) table: Arc<StickTable>,
    pub(crate) name: Vec<u8>,
}

/// Where this process stands in learning what its peers know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Learning {
    /// Nobody has been asked.
    #[default]
    Needed,
    /// A peer is teaching.
    Asked,
    /// All is known, or nobody was there to ask.
    Done,
}

/// What the received bytes lead to beyond the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The peer has taught everything it knows; `complete` when that was everything.
    Taught { complete: bool },
    /// The peer has learned what it asked for.
    Learned,
}

/// The state of a connection.
pub(crate) struct Session {
    tables: Vec<Synced>,
    /// Bytes to send.
    pub(crate) output: Vec<u8>,
    /// What is ours of the tables the peer defined, by its numbers.
    theirs: HashMap<u64, (Definition, Option<usize>)>,
    /// The table that received updates are about, and the number of the last one.
    current: Option<(u64, u32)>,
    /// Updates were received that were not acknowledged.
    owes_acknowledgement: bool,
    dictionary: Dictionary,
    /// For each table: was defined to the peer.
    defined: Vec<bool>,
    /// The table that sent updates are about.
    sending: Option<usize>,
    /// For each table: changes up to this one were sent.
    pub(crate) sent: Vec<u64>,
    /// For each table: changes up to this one have arrived.
    pub(crate) arrived: Vec<u64>,
    /// What is left to teach.
    teaching: Option<Teaching>,
    shard: Shard,
}

/// The keys that a peer is told about: all, or those of one part of several (`shard`, `shards`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shard {
    /// From 1; 0 for all keys.
    pub(crate) number: usize,
    pub(crate) of: usize,
}

impl Shard {
    /// Manual, `shard`: numbers above `shards` are ignored.
    fn has(self, key: &Key) -> bool {
        self.number == 0 || self.number > self.of || key.shard(self.of) + 1 == self.number
    }
}

struct Teaching {
    table: usize,
    keys: VecDeque<Key>,
    part: usize,
}

impl Session {
    /// A session that goes on after what has arrived on an earlier connection.
    pub(crate) fn new(tables: Vec<Synced>, arrived: Vec<u64>) -> Self {
        Self {
            output: Vec::new(),
            theirs: HashMap::new(),
            current: None,
            owes_acknowledgement: false,
            dictionary: Vec::new(),
            defined: vec![false; tables.len()],
            sending: None,
            sent: arrived.clone(),
            arrived,
            teaching: None,
            shard: Shard::default(),
            tables,
        }
    }

    /// Tells about some keys only.
    pub(crate) fn only(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// Asks the peer for everything it knows.
    pub(crate) fn ask(&mut self) {
        wire::put(&Message::ResyncRequest, &mut self.output);
    }

    /// Says that this side is alive.
    pub(crate) fn beat(&mut self) {
        wire::put(&Message::Heartbeat, &mut self.output);
    }

    /// Takes what is complete of the received bytes.
    pub(crate) fn handle(&mut self, input: &mut Vec<u8>) -> Result<Vec<Event>, Malformed> {
        let mut events = Vec::new();
        let mut rest = &input[..];
        while let Some(message) = wire::next_message(&mut rest)? {
            self.receive(message, &mut events)?;
        }
        let used = input.len() - rest.len();
        input.drain(..used);
        self.acknowledge();
        Ok(events)
    }

    fn receive(&mut self, message: Message, events: &mut Vec<Event>) -> Result<(), Malformed> {
        match message {
            Message::ResyncRequest => {
                self.teaching = Some(Teaching { table: 0, keys: VecDeque::new(), part: 0 });
            }
            Message::ResyncFinished | Message::ResyncPartial => {
                // A peer that gets no answer to its lesson tells nothing else.
                wire::put(&Message::ResyncConfirmed, &mut self.output);
                events.push(Event::Taught { complete: message == Message::ResyncFinished });
            }
            Message::ResyncConfirmed => events.push(Event::Learned),
            Message::Heartbeat | Message::Unknown => {}
            Message::Failed => return Err(Malformed),
            Message::Define(definition) => {
                self.acknowledge();
                if self.theirs.len() >= MAX_TABLES {
                    return Err(Malformed);
                }
                let ours = self.tables.iter().position(|table| {
                    table.name == definition.name && key_form(&table.table) == definition.key
                });
                self.current = Some((definition.id, 0));
                self.theirs.insert(definition.id, (definition, ours));
            }
            Message::Switch(id) => {
                self.acknowledge();
                self.current = Some((id, 0));
            }
            Message::Update(raw) => {
                let Some((id, last)) = self.current else { return Err(Malformed) };
                let Some((definition, ours)) = self.theirs.get(&id) else { return Err(Malformed) };
                let update = wire::read_update(definition, &raw, &mut self.dictionary)?;
                let number = update.number.unwrap_or_else(|| last.wrapping_add(1));
                if let Some(table) = ours.and_then(|at| self.tables.get(at)) {
                    table.table.import(&update.key, &update.data);
                }
                self.current = Some((id, number));
                self.owes_acknowledgement = true;
            }
            Message::Acknowledge { table, update } => self.arrive(table, update),
        }
        Ok(())
    }

    fn acknowledge(&mut self) {
        if let (true, Some((table, update))) = (self.owes_acknowledgement, self.current) {
            wire::put(&Message::Acknowledge { table, update }, &mut self.output);
        }
        self.owes_acknowledgement = false;
    }

    /// The peer has updates of a table up to a number, of which it knows the low half.
    fn arrive(&mut self, table: u64, update: u32) {
        let Some(at) = usize::try_from(table).ok().and_then(|id| id.checked_sub(1)) else { return };
        let (Some(arrived), Some(sent)) = (self.arrived.get_mut(at), self.sent.get(at)) else { return };
        let behind = (*sent as u32).wrapping_sub(update);
        *arrived = (*arrived).max(sent.saturating_sub(behind.into()));
    }

    /// Adds what is to be said until there is enough to send; `complete` is what a lesson may claim.
    pub(crate) fn talk(&mut self, complete: bool) {
        while self.output.len() < ENOUGH_OUTPUT_BYTES {
            if !self.teach(complete) && !self.tell() {
                return;
            }
        }
    }

    /// Sends one entry of a lesson; false when there is none to give.
    fn teach(&mut self, complete: bool) -> bool {
        let Some(mut teaching) = self.teaching.take() else { return false };
        loop {
            let Some(synced) = self.tables.get(teaching.table) else {
                let end = if complete { Message::ResyncFinished } else { Message::ResyncPartial };
                wire::put(&end, &mut self.output);
                return true;
            };
            if let Some(key) = teaching.keys.pop_front() {
                let (at, serial) = (teaching.table, self.sent[teaching.table]);
                self.teaching = Some(teaching);
                self.send(at, &key, serial);
                return true;
            }
            match teaching.part < synced.table.parts() {
                true => {
                    teaching.keys = synced.table.keys(teaching.part).into();
                    teaching.part += 1;
                }
                false => teaching = Teaching { table: teaching.table + 1, keys: VecDeque::new(), part: 0 },
            }
        }
    }

    /// Sends one change; false when there is none.
    fn tell(&mut self) -> bool {
        for at in 0..self.tables.len() {
            if let Some((serial, key)) = self.tables[at].table.change_after(self.sent[at]) {
                self.sent[at] = serial;
                self.send(at, &key, serial);
                return true;
            }
        }
        false
    }

    fn send(&mut self, at: usize, key: &Key, serial: u64) {
        if !self.shard.has(key) {
            return;
        }
        let Synced { table, name } = &self.tables[at];
        // Removed meanwhile: peers let it expire.
        let Some(data) = table.export(key) else { return };
        let definition = definition(at, table, name);
        if !std::mem::replace(&mut self.defined[at], true) {
            wire::put(&Message::Define(definition.clone()), &mut self.output);
        } else if self.sending != Some(at) {
            wire::put(&Message::Switch(definition.id), &mut self.output);
        }
        self.sending = Some(at);
        let update = Update { number: Some(serial as u32), key: key.bytes().to_vec(), data };
        wire::put(&Message::Update(wire::raw_update(&definition, &update)), &mut self.output);
    }
}

fn key_form(table: &StickTable) -> KeyForm {
    use weir_balance::KeyType;
    match table.settings().key {
        KeyType::Ipv4 => KeyForm::Ipv4,
        KeyType::Ipv6 => KeyForm::Ipv6,
        KeyType::Integer => KeyForm::Integer,
        KeyType::String { len } => KeyForm::Text { most: len },
        KeyType::Binary { len } => KeyForm::Binary { len },
    }
}

/// A table as it is described to peers: numbered from 1.
fn definition(at: usize, table: &StickTable, name: &[u8]) -> Definition {
    let stored = TYPE_ORDER.iter().enumerate().filter_map(|(number, &kind)| {
        let found = table.shared_types().find(|(stored, ..)| *stored == kind)?;
        Some(Stored { number: number as u8, elements: found.1 as u64, period_ms: found.2 })
    });
    Definition {
        id: at as u64 + 1,
        name: name.to_vec(),
        key: key_form(table),
        expire_ms: table.settings().expire_ms.unwrap_or(0),
        stored: stored.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::stick_table::StickTables;
    use weir_balance::DataType;

    const TABLES: &str = "peers p\n peer here 127.0.0.1:1000\n table t type string size 1k store gpc0,conn_cur,conn_rate(10s),server_key\n table u type integer size 1k store gpc(2)\n";

    fn tables() -> StickTables {
        let loaded = weir_config::load_str("test", TABLES).unwrap_or_else(|errors| panic!("{errors:?}"));
        StickTables::new(&loaded.config)
    }

    fn session(tables: &StickTables) -> Session {
        let synced =
            tables.iter().map(|table| Synced { table: Arc::clone(table), name: table.name().into() });
        let synced: Vec<Synced> = synced.collect();
        let arrived = vec![0; synced.len()];
        Session::new(synced, arrived)
    }

    fn set(tables: &StickTables, table: &str, key: &str, data: &str, value: u64) {
        let table = tables.named(table).unwrap();
        let (kind, element) = table.data_type(data).unwrap();
        assert!(table.set(&table.parse_key(key).unwrap(), kind, element, value));
    }

    fn get(tables: &StickTables, table: &str, key: &str) -> String {
        let table = tables.named(table).unwrap();
        let row = table.row(&table.parse_key(key).unwrap());
        row.map(|row| row.data.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" "))
            .unwrap_or_default()
    }

    /// Both sides talk until they have nothing to say; returns what happened on the left.
    fn converse(left: &mut Session, right: &mut Session) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            left.talk(true);
            right.talk(true);
            if left.output.is_empty() && right.output.is_empty() {
                return events;
            }
            right.handle(&mut std::mem::take(&mut left.output)).unwrap();
            events.extend(left.handle(&mut std::mem::take(&mut right.output)).unwrap());
        }
    }

    #[test]
    fn changes_are_told() {
        let (here, there) = (tables(), tables());
        let (mut left, mut right) = (session(&here), session(&there));
        set(&here, "p/t", "a", "data.gpc0", 5);
        set(&here, "p/t", "a", "data.conn_rate", 7);
        set(&here, "p/t", "a", "data.conn_cur", 3);
        set(&here, "p/u", "42", "data.gpc(1)", 9);
        let named = here.named("p/t").unwrap();
        named.with_made(&named.parse_key("a").unwrap(), |table, id, _| {
            table.set_text(id, DataType::ServerKey, b"srv1")
        });
        converse(&mut left, &mut right);
        // Connections are each process's own.
        assert_eq!((get(&there, "p/t", "a"), get(&there, "p/u", "42")), ("5 7 0 srv1".into(), "0 9".into()));
        assert_eq!(left.arrived, left.sent);
        // What was learned is not told again, what changes is.
        assert!(there.named("p/t").unwrap().change_after(0).is_none());
        set(&there, "p/t", "b", "data.gpc0", 1);
        set(&here, "p/t", "a", "data.gpc0", 6);
        converse(&mut left, &mut right);
        assert_eq!(
            (get(&here, "p/t", "b"), get(&there, "p/t", "a")),
            ("1 0 0 -".into(), "6 7 0 srv1".into())
        );
        // A new connection goes on where the last one was.
        let mut again = Session::new(left.tables.clone(), left.arrived.clone());
        again.talk(true);
        assert!(again.output.is_empty());
    }

    #[test]
    fn shards_part_the_keys_among_peers() {
        let here = tables();
        for number in 0..300 {
            set(&here, "p/t", &format!("k{number}"), "data.gpc0", number + 1);
        }
        let keys_of = |number| {
            let there = tables();
            let (left, mut right) = (session(&here), session(&there));
            converse(&mut left.only(Shard { number, of: 3 }), &mut right);
            (0..300).filter(|key| !get(&there, "p/t", &format!("k{key}")).is_empty()).collect::<Vec<_>>()
        };
        let mut parts: Vec<u64> = [1, 2, 3].into_iter().flat_map(keys_of).collect();
        assert!(keys_of(1).len() > 50);
        parts.sort_unstable();
        assert_eq!(parts, (0..300).collect::<Vec<_>>());
        assert_eq!((keys_of(0).len(), keys_of(4).len()), (300, 300));
    }

    #[test]
    fn a_newcomer_is_taught() {
        let (here, there) = (tables(), tables());
        for number in 0..500 {
            set(&there, "p/t", &format!("k{number}"), "data.gpc0", number);
        }
        let (mut left, mut right) = (session(&here), session(&there));
        // As if all had been sent to somebody before.
        right.sent = vec![500, 0];
        left.ask();
        assert_eq!(converse(&mut left, &mut right), [Event::Taught { complete: true }]);
        assert_eq!(here.named("p/t").unwrap().used(), 500);
        assert_eq!(get(&here, "p/t", "k77"), "77 0 0 -");
    }

    #[test]
    fn a_predecessor_only_teaches() {
        let (here, there) = (tables(), tables());
        set(&there, "p/t", "a", "data.gpc0", 5);
        let teacher = session(&there);
        let mut teacher = Session::new(teacher.tables, vec![u64::MAX; 2]);
        teacher.talk(true);
        assert!(teacher.output.is_empty());
        let mut pupil = session(&here);
        pupil.ask();
        assert_eq!(converse(&mut pupil, &mut teacher), [Event::Taught { complete: true }]);
        assert_eq!(get(&here, "p/t", "a"), "5 0 0 -");
    }

    #[test]
    fn tables_that_differ_are_left_alone() {
        let here = tables();
        let other = TABLES.replace("table t type string", "table t type ip");
        let loaded = weir_config::load_str("test", &other).unwrap_or_else(|errors| panic!("{errors:?}"));
        let there = StickTables::new(&loaded.config);
        set(&there, "p/t", "1.2.3.4", "data.gpc0", 5);
        let (mut left, mut right) = (session(&here), session(&there));
        converse(&mut left, &mut right);
        assert_eq!(here.named("p/t").unwrap().used(), 0);
    }

    #[test]
    fn nonsense_ends_the_session() {
        let check = |bytes: &[u8]| {
            assert_eq!(session(&tables()).handle(&mut bytes.to_vec()), Err(Malformed), "{bytes:?}");
        };
        // An update of no table, of one that was never defined; the other side's failure.
        check(&[10, 128, 1, 0]);
        check(&[10, 131, 1, 9, 10, 128, 1, 0]);
        check(&[1, 0]);
    }
}
