//! Stick tables that all threads share.
//!
//! Owns the locks around `weir-balance`'s tables, how tables are named and found, and what the runtime
//! commands see of them; leaves counting traffic to [`crate::state::stick_track`] and persistence to
//! [`crate::server::choose::stick`].

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use weir_balance::{DataType, EntryId, Key, KeyType, RateCounter, Table, TableSettings};
use weir_config::model::{self, Config};
use weir_net::timers::now_ms;
use weir_rules::{Value, facts};

use crate::control::peers::wire::Datum;

/// Entries of a table for each of its locks; small tables have one lock and evict exactly in order.
const ENTRIES_PER_SHARD: usize = 4096;

/// Most locks of a table.
const MAX_SHARDS: usize = 64;

/// Most expired entries removed from one shard at a time.
const PURGE_AT_ONCE: usize = 1024;

/// The tables of a configuration: those of proxies in their order, then those of `peers` sections.
pub struct StickTables {
    tables: Vec<Arc<StickTable>>,
    by_name: HashMap<String, usize>,
    /// For each proxy, the table of each of its `stick` rules.
    of_rules: Vec<Vec<Option<usize>>>,
    /// For each `peers` section, what tells of changes, and the tables it shares.
    sections: BTreeMap<String, Section>,
}

/// The tables that a `peers` section shares.
#[derive(Default)]
pub(crate) struct Section {
    pub(crate) news: Arc<News>,
    /// Indexes of the tables.
    pub(crate) tables: Vec<usize>,
}

/// Tells that shared tables have changed.
#[derive(Default)]
pub(crate) struct News {
    /// Nobody has looked since the last change.
    unread: AtomicBool,
    notify: Notify,
}

impl News {
    fn tell(&self) {
        if !self.unread.swap(true, AcqRel) {
            self.notify.notify_waiters();
        }
    }

    /// Whoever calls this looks for changes next.
    pub(crate) fn read(&self) {
        self.unread.store(false, Release);
    }

    /// Ready after the next change; to be made before looking for changes.
    pub(crate) fn next(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

/// Keys that changed here, in the order of their last change: what peers have to be told.
#[derive(Default)]
struct Changes {
    last: u64,
    by_serial: BTreeMap<u64, Key>,
    of_key: HashMap<Key, u64>,
}

impl Changes {
    /// Notes a change; at most `most` keys are remembered.
    fn note(&mut self, key: &Key, most: usize) {
        self.last += 1;
        if let Some(before) = self.of_key.insert(key.clone(), self.last) {
            self.by_serial.remove(&before);
        }
        self.by_serial.insert(self.last, key.clone());
        if self.by_serial.len() > most
            && let Some((_, oldest)) = self.by_serial.pop_first()
        {
            self.of_key.remove(&oldest);
        }
    }
}

impl StickTables {
    /// Empty tables.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let declared: Vec<&model::StickTable> = {
            let of_proxies = config.proxies.iter().filter_map(|proxy| proxy.stick_table.as_ref());
            let of_peers = config.peers.values().flat_map(|peers| &peers.tables);
            of_proxies.chain(of_peers).collect()
        };
        let mut by_name = HashMap::new();
        for (index, table) in declared.iter().enumerate() {
            by_name.entry(table.name.clone()).or_insert(index);
        }
        let of_rule = |proxy: &model::Proxy, rule: &model::StickRule| {
            let name = rule.table.as_deref().unwrap_or(&proxy.name);
            by_name.get(name).copied()
        };
        let of_rules = config.proxies.iter().map(|proxy| {
            let rules = proxy.stick_rules.iter();
            rules.map(|rule| of_rule(proxy, rule)).collect::<Vec<_>>()
        });
        let of_rules: Vec<_> = of_rules.collect();
        let mut sections: BTreeMap<String, Section> = BTreeMap::new();
        let tables = declared.iter().enumerate().map(|(index, table)| {
            let sticks = of_rules.iter().flatten().any(|target| *target == Some(index));
            let section = table.peers.as_ref().map(|name| sections.entry(name.clone()).or_default());
            let news = section.map(|section| {
                section.tables.push(index);
                Arc::clone(&section.news)
            });
            Arc::new(StickTable::new(table, sticks, news))
        });
        Self { tables: tables.collect(), by_name, of_rules, sections }
    }

    /// All tables, in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<StickTable>> {
        self.tables.iter()
    }

    /// The table of a proxy, or `SECTION/NAME` of a `peers` section.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<StickTable>> {
        self.at(self.index(name)?)
    }

    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn at(&self, index: usize) -> Option<&Arc<StickTable>> {
        self.tables.get(index)
    }

    /// The table of a `stick` rule.
    pub(crate) fn of_rule(&self, proxy: usize, rule: usize) -> Option<usize> {
        *self.of_rules.get(proxy)?.get(rule)?
    }

    /// What a `peers` section shares.
    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.get(name)
    }

    /// Removes entries that expired.
    pub(crate) fn purge(&self) {
        self.tables.iter().for_each(|table| table.purge());
    }
}

/// A table.
pub struct StickTable {
    name: String,
    settings: TableSettings,
    /// `srvkey addr`
    pub(crate) by_address: bool,
    shards: Box<[Mutex<Table>]>,
    /// What peers have to be told, when there are any.
    changes: Option<(Mutex<Changes>, Arc<News>)>,
}

impl StickTable {
    fn new(table: &model::StickTable, sticks: bool, news: Option<Arc<News>>) -> Self {
        let key = match table.key {
            model::KeyType::Ip => KeyType::Ipv4,
            model::KeyType::Ipv6 => KeyType::Ipv6,
            model::KeyType::Integer => KeyType::Integer,
            model::KeyType::String(len) => KeyType::String { len },
            model::KeyType::Binary(len) => KeyType::Binary { len },
        };
        let ms = |time: std::time::Duration| time.as_millis() as u64;
        let mut settings = TableSettings::new(key, table.size, table.expire.map(ms));
        settings.nopurge = table.nopurge;
        settings.brates_factor = u64::from(table.brates_factor.max(1));
        for (kind, period, elements) in &table.store {
            settings = settings.store(*kind, *elements, period.map_or(0, ms));
        }
        if sticks {
            settings = settings.store(DataType::ServerId, 1, 0).store(DataType::ServerKey, 1, 0);
        }
        let shards = (table.size / ENTRIES_PER_SHARD).clamp(1, MAX_SHARDS);
        let mut of_shard = settings.clone();
        of_shard.size = table.size.div_ceil(shards);
        Self {
            name: table.name.clone(),
            settings,
            by_address: table.srvkey_addr,
            changes: news.map(|news| (Mutex::default(), news)),
            shards: (0..shards).map(|_| Mutex::new(Table::new(of_shard.clone()))).collect(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Key type, size and what is stored.
    #[must_use]
    pub fn settings(&self) -> &TableSettings {
        &self.settings
    }

    /// `ip`, `ipv6`, `integer`, `string` or `binary`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self.settings.key {
            KeyType::Ipv4 => "ip",
            KeyType::Ipv6 => "ipv6",
            KeyType::Integer => "integer",
            KeyType::String { .. } => "string",
            KeyType::Binary { .. } => "binary",
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn used(&self) -> usize {
        (0..self.shards.len()).map(|shard| self.shard(shard).len()).sum()
    }

    /// The first line of `show table`, without its end.
    #[must_use]
    pub fn header(&self) -> String {
        self.purge();
        let size = self.settings.size;
        format!("# table: {}, type: {}, size:{size}, used:{}", self.name, self.type_name(), self.used())
    }

    fn purge(&self) {
        let now = now_ms();
        for shard in 0..self.shards.len() {
            self.shard(shard).purge_expired(now, PURGE_AT_ONCE);
        }
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Table> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, key: &Key) -> MutexGuard<'_, Table> {
        self.shard(key.shard(self.shards.len()))
    }

    /// The key of these bytes, when the table can have it.
    pub(crate) fn key_of(&self, bytes: &[u8]) -> Option<Key> {
        Key::new(self.settings.key, bytes)
    }

    /// The key that a sample makes, when it can be one.
    pub(crate) fn key_from(&self, value: Value<'_>) -> Option<Key> {
        self.key_of(&self.sample_type().key(value)?)
    }

    /// The key type as rules have it.
    pub(crate) fn sample_type(&self) -> facts::KeyType {
        match self.settings.key {
            KeyType::Ipv4 => facts::KeyType::Ip,
            KeyType::Ipv6 => facts::KeyType::Ipv6,
            KeyType::Integer => facts::KeyType::Integer,
            KeyType::String { len } => facts::KeyType::String(len),
            KeyType::Binary { len } => facts::KeyType::Binary(len),
        }
    }

    /// Does something with the entry of a key, if there is one; peers are not told.
    pub(crate) fn with<T>(&self, key: &Key, f: impl FnOnce(&mut Table, EntryId, u64) -> T) -> Option<T> {
        let now = now_ms();
        let mut table = self.lock(key);
        let id = table.lookup(key, now)?;
        Some(f(&mut table, id, now))
    }

    /// Changes the entry of a key, if there is one; it lives its full time again.
    pub(crate) fn with_changed<T>(
        &self,
        key: &Key,
        f: impl FnOnce(&mut Table, EntryId, u64) -> T,
    ) -> Option<T> {
        let done = self.with(key, |table, id, now| {
            table.touch(id, now);
            f(table, id, now)
        })?;
        self.note(key);
        Some(done)
    }

    /// Changes the entry of a key, made when there is none; it lives its full time again.
    pub(crate) fn with_made<T>(&self, key: &Key, f: impl FnOnce(&mut Table, EntryId, u64) -> T) -> Option<T> {
        let done = self.with_made_quietly(key, f)?;
        self.note(key);
        Some(done)
    }

    fn with_made_quietly<T>(&self, key: &Key, f: impl FnOnce(&mut Table, EntryId, u64) -> T) -> Option<T> {
        let now = now_ms();
        let mut table = self.lock(key);
        let id = table.get_or_create(key, now).ok()?;
        Some(f(&mut table, id, now))
    }

    // What peers use.

    fn note(&self, key: &Key) {
        let Some((changes, news)) = &self.changes else { return };
        changes.lock().unwrap_or_else(PoisonError::into_inner).note(key, self.settings.size);
        news.tell();
    }

    /// The first change after a number, and its own number.
    pub(crate) fn change_after(&self, serial: u64) -> Option<(u64, Key)> {
        let (changes, _) = self.changes.as_ref()?;
        let changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.by_serial.range(serial.checked_add(1)?..).next().map(|(serial, key)| (*serial, key.clone()))
    }

    /// The keys of one part.
    pub(crate) fn keys(&self, part: usize) -> Vec<Key> {
        self.shard(part).iter().map(|(_, entry)| entry.key().clone()).collect()
    }

    /// Stored types that peers share, with elements and periods.
    pub(crate) fn shared_types(&self) -> impl Iterator<Item = (DataType, usize, u64)> {
        // Concurrent connections are each process's own.
        self.settings.stored().filter(|(kind, ..)| *kind != DataType::ConnCur)
    }

    /// The shared values of an entry, in the order of their types' numbers.
    pub(crate) fn export(&self, key: &Key) -> Option<Vec<(DataType, Vec<Datum>)>> {
        self.with(key, |table, id, now| {
            let datum = |kind: DataType, element: usize| match kind {
                DataType::ServerKey => {
                    Datum::Text(table.text(id, kind).filter(|text| !text.is_empty()).map(<[u8]>::to_vec))
                }
                kind if kind.is_rate() => {
                    let (age_ms, current, previous) = table
                        .rate(id, kind, element)
                        .map_or((0, 0, 0), |(counter, period_ms)| counter.parts(now, period_ms));
                    Datum::Rate(age_ms, current, previous)
                }
                kind => Datum::Count(table.value(id, kind, element, now).unwrap_or(0)),
            };
            let stored = TYPE_ORDER.iter().filter_map(|kind| {
                let (kind, elements, _) = self.shared_types().find(|(stored, ..)| stored == kind)?;
                Some((kind, (0..elements).map(|element| datum(kind, element)).collect()))
            });
            stored.collect()
        })
    }

    /// Takes over what a peer says about an entry.
    pub(crate) fn import(&self, key: &[u8], data: &[(DataType, Vec<Datum>)]) {
        let Some(key) = self.key_of(key) else { return };
        // A full table refuses; the peer has no use for knowing.
        let _imported = self.with_made_quietly(&key, |table, id, now| {
            for (kind, elements) in data.iter().filter(|(kind, _)| *kind != DataType::ConnCur) {
                for (element, datum) in elements.iter().enumerate() {
                    // False where this table does not store it.
                    match datum {
                        Datum::Count(value) => table.set(id, *kind, element, *value, now),
                        Datum::Rate(age_ms, current, previous) => {
                            let parts = (*age_ms, *current, *previous);
                            table.set_rate(id, *kind, element, RateCounter::from_parts(now, parts))
                        }
                        Datum::Text(Some(text)) => table.set_text(id, *kind, text),
                        Datum::Text(None) => false,
                    };
                }
            }
        });
    }

    // What the runtime commands use.

    /// The key that a word of a command names.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_key(&self, word: &str) -> Result<Key, String> {
        let bytes = match self.settings.key {
            KeyType::Ipv4 => match word.parse::<IpAddr>().ok().map(|ip| ip.to_canonical()) {
                Some(IpAddr::V4(ip)) => ip.octets().to_vec(),
                _ => return Err("Invalid key: not an IPv4 address".to_owned()),
            },
            KeyType::Ipv6 => match word.parse::<IpAddr>() {
                Ok(IpAddr::V6(ip)) => ip.octets().to_vec(),
                Ok(IpAddr::V4(ip)) => ip.to_ipv6_mapped().octets().to_vec(),
                Err(_) => return Err("Invalid key: not an IP address".to_owned()),
            },
            KeyType::Integer => match word.parse::<u32>() {
                Ok(number) => number.to_be_bytes().to_vec(),
                Err(_) => return Err("Invalid key: not a number".to_owned()),
            },
            KeyType::String { .. } => word.as_bytes().to_vec(),
            KeyType::Binary { .. } => unhex(word).ok_or_else(|| "Invalid key: not hexadecimal".to_owned())?,
        };
        self.key_of(&bytes).ok_or_else(|| "Invalid key".to_owned())
    }

    /// The row of a key.
    #[must_use]
    pub fn row(&self, key: &Key) -> Option<Row> {
        self.with(key, |table, id, now| self.row_of(table, id, now)).flatten()
    }

    /// Number of parts to ask [`Self::rows`] for.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.shards.len()
    }

    /// The rows of one part that pass all filters; a dump asks for one part after the other, so that traffic
    /// does not wait for the whole table.
    #[must_use]
    pub fn rows(&self, part: usize, filters: &[Filter]) -> Vec<Row> {
        if part >= self.shards.len() {
            return Vec::new();
        }
        let now = now_ms();
        let table = self.shard(part);
        let alive = table.iter().filter(|(_, entry)| entry.expire_ms() > now || entry.holders() > 0);
        let passing = alive.filter(|&(id, _)| filters.iter().all(|filter| filter.passes(&table, id, now)));
        passing.filter_map(|(id, _)| self.row_of(&table, id, now)).collect()
    }

    fn row_of(&self, table: &Table, id: EntryId, now: u64) -> Option<Row> {
        let entry = table.entry(id)?;
        let value = |kind: DataType, element: usize| match kind {
            DataType::ServerKey => match table.text(id, kind) {
                Some(text) if !text.is_empty() => String::from_utf8_lossy(text).into_owned(),
                _ => "-".to_owned(),
            },
            _ => table.value(id, kind, element, now).unwrap_or(0).to_string(),
        };
        let mut data = Vec::new();
        for &kind in TYPE_ORDER {
            let Some((_, elements, period_ms)) = self.settings.stored().find(|(stored, ..)| *stored == kind)
            else {
                continue;
            };
            for element in 0..elements {
                let mut name = match kind {
                    // As the types of one element were called before there were arrays.
                    DataType::GpcRate => format!("gpc{element}_rate"),
                    kind if kind.is_array() => format!("{}{element}", kind.name()),
                    kind => kind.name().to_owned(),
                };
                if kind.is_rate() {
                    name.push_str(&format!("({period_ms})"));
                }
                data.push((name, value(kind, element)));
            }
        }
        Some(Row {
            key: key_text(self.settings.key, entry.key().bytes()),
            uses: entry.holders(),
            expires_ms: match entry.expire_ms() {
                u64::MAX => 0,
                at_ms => at_ms.saturating_sub(now),
            },
            data,
        })
    }

    /// `set table`: changes a value, making the entry; false when the table does not store it or is full.
    pub fn set(&self, key: &Key, kind: DataType, element: usize, value: u64) -> bool {
        let set = self.with_made(key, |table, id, now| match kind {
            DataType::ServerKey => false,
            _ => table.set(id, kind, element, value, now),
        });
        set.unwrap_or(false)
    }

    /// `set table` without data: makes the entry; false when the table is full.
    pub fn make(&self, key: &Key) -> bool {
        self.with_made(key, |_, _, _| ()).is_some()
    }

    /// `clear table key`.
    pub fn remove(&self, key: &Key) -> Removal {
        match self.with(key, |table, id, _| table.remove(id)) {
            None => Removal::Absent,
            Some(true) => Removal::Gone,
            Some(false) => Removal::InUse,
        }
    }

    /// `clear table`: removes all entries that pass all filters and are not in use; returns how many went.
    pub fn clear(&self, filters: &[Filter]) -> usize {
        let now = now_ms();
        let mut gone = 0;
        for shard in 0..self.shards.len() {
            let mut table = self.shard(shard);
            let ids: Vec<EntryId> = table.iter().map(|(id, _)| id).collect();
            let passing = |table: &Table, id| filters.iter().all(|filter| filter.passes(table, id, now));
            gone += ids.into_iter().filter(|&id| passing(&table, id) && table.remove(id)).count();
        }
        gone
    }
}

/// Data types in the order in which they are shown, which is that of their numbers between peers.
pub(crate) const TYPE_ORDER: &[DataType] = &[
    DataType::ServerId,
    DataType::Gpt0,
    DataType::Gpc0,
    DataType::Gpc0Rate,
    DataType::ConnCnt,
    DataType::ConnRate,
    DataType::ConnCur,
    DataType::SessCnt,
    DataType::SessRate,
    DataType::HttpReqCnt,
    DataType::HttpReqRate,
    DataType::HttpErrCnt,
    DataType::HttpErrRate,
    DataType::BytesInCnt,
    DataType::BytesInRate,
    DataType::BytesOutCnt,
    DataType::BytesOutRate,
    DataType::Gpc1,
    DataType::Gpc1Rate,
    DataType::ServerKey,
    DataType::HttpFailCnt,
    DataType::HttpFailRate,
    DataType::Gpt,
    DataType::Gpc,
    DataType::GpcRate,
    DataType::GlitchCnt,
    DataType::GlitchRate,
];

/// What became of an entry that was to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// It is gone.
    Gone,
    /// There was none.
    Absent,
    /// It is being tracked.
    InUse,
}

/// An entry as `show table` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The key as text.
    pub key: String,
    /// How many track it.
    pub uses: u32,
    /// Time left, milliseconds; 0 where entries do not expire.
    pub expires_ms: u64,
    /// Names and values of what is stored.
    pub data: Vec<(String, String)>,
}

impl std::fmt::Display for Row {
    /// A line of `show table`, without its end.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Where HAProxy shows the entry's place in memory, a number made of the key.
        let place = self.key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let Self { key, uses, expires_ms, data } = self;
        write!(f, "{:#x}: key={key} use={uses} exp={expires_ms} shard=0", place >> 16)?;
        data.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// How a value is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Eq,
    Ne,
    Le,
    Ge,
    Lt,
    Gt,
}

/// `data.TYPE OPERATOR VALUE`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter {
    kind: DataType,
    element: usize,
    operator: Operator,
    value: i64,
}

/// Most filters of one command.
pub const MAX_FILTERS: usize = 4;

impl Filter {
    /// A filter of its three words.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(table: &StickTable, data: &str, operator: &str, value: &str) -> Result<Self, String> {
        let (kind, element) = table.data_type(data)?;
        let operator = match operator {
            "eq" => Operator::Eq,
            "ne" => Operator::Ne,
            "le" => Operator::Le,
            "ge" => Operator::Ge,
            "lt" => Operator::Lt,
            "gt" => Operator::Gt,
            _ => {
                let known = "\"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\"";
                return Err(format!("Require and operator among {known}"));
            }
        };
        let value =
            value.parse().map_err(|_| "Require a valid integer value to compare against".to_owned())?;
        Ok(Self { kind, element, operator, value })
    }

    fn passes(&self, table: &Table, id: EntryId, now: u64) -> bool {
        let Some(value) = table.value(id, self.kind, self.element, now) else { return false };
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        match self.operator {
            Operator::Eq => value == self.value,
            Operator::Ne => value != self.value,
            Operator::Le => value <= self.value,
            Operator::Ge => value >= self.value,
            Operator::Lt => value < self.value,
            Operator::Gt => value > self.value,
        }
    }
}

impl StickTable {
    /// The data type and element that `data.gpc0` or `data.gpc(2)` (also `data.gpc[2]`) names.
    ///
    /// # Errors
    /// It is none, or not stored in this table.
    pub fn data_type(&self, word: &str) -> Result<(DataType, usize), String> {
        let name = word.strip_prefix("data.").ok_or("Data type must start with 'data.'")?;
        let (kind, element) = data_name(name).ok_or("Unknown data type")?;
        if !self.settings.stores_element(kind, element) {
            return Err("Data type not stored in this table".to_owned());
        }
        Ok((kind, element))
    }
}

/// `gpc0`, `gpc(3)`, `gpc[3]`
pub(crate) fn data_name(name: &str) -> Option<(DataType, usize)> {
    let (name, element) = match name.split_once(['(', '[']) {
        Some((name, rest)) => (name, rest.strip_suffix([')', ']'])?.parse().ok()?),
        None => (name, 0),
    };
    Some((DataType::from_name(name)?, element))
}

fn key_text(kind: KeyType, bytes: &[u8]) -> String {
    let four = || <[u8; 4]>::try_from(bytes).unwrap_or_default();
    match kind {
        KeyType::Ipv4 => Ipv4Addr::from(four()).to_string(),
        KeyType::Ipv6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap_or_default()).to_string(),
        KeyType::Integer => u32::from_be_bytes(four()).to_string(),
        KeyType::String { .. } => escaped(bytes),
        KeyType::Binary { .. } => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    }
}

/// Text of a key on one line, its blanks and controls escaped.
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            0x1b => out.push_str("\\e"),
            b'\\' | b' ' | b'=' => out.extend(['\\', char::from(byte)]),
            0x21..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02X}")),
        }
    }
    out
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> StickTables {
        let loaded = weir_config::load_str("test", text).unwrap_or_else(|errors| panic!("{errors:?}"));
        StickTables::new(&loaded.config)
    }

    fn table(words: &str) -> Arc<StickTable> {
        Arc::clone(tables(&format!("backend b\n stick-table {words}")).named("b").unwrap())
    }

    #[test]
    fn tables_are_named() {
        let tables = tables(
            "peers p\n table t type string size 10\nbackend a\nbackend b\n stick-table type ip size 1k",
        );
        let names: Vec<&str> = tables.iter().map(|table| table.name()).collect();
        assert_eq!(names, ["b", "p/t"]);
        assert!(tables.named("a").is_none());
        assert_eq!(
            tables.named("p/t").map(|table| table.header()).as_deref(),
            Some("# table: p/t, type: string, size:10, used:0")
        );
    }

    #[test]
    fn keys_are_read_and_shown() {
        let check = |kind: &str, word: &str, expected: Result<&str, ()>| {
            let table = table(&format!("type {kind} size 100"));
            let shown = table.parse_key(word).map(|key| {
                assert!(table.make(&key));
                table.row(&key).map(|row| row.key).unwrap_or_default()
            });
            assert_eq!(shown.as_deref().map_err(|_| ()), expected, "{kind} {word}");
        };
        check("ip", "127.0.0.1", Ok("127.0.0.1"));
        check("ip", "::ffff:127.0.0.1", Ok("127.0.0.1"));
        check("ip", "::1", Err(()));
        check("ipv6", "::1", Ok("::1"));
        check("ipv6", "127.0.0.1", Ok("::ffff:127.0.0.1"));
        check("integer", "42", Ok("42"));
        check("integer", "x", Err(()));
        check("string", "a b=c", Ok("a\\ b\\=c"));
        check("string len 2", "abc", Ok("ab"));
        check("binary len 3", "0aff", Ok("0AFF00"));
        check("binary", "0", Err(()));
    }

    #[test]
    fn rows() {
        let words = "type ip size 100 expire 10s store gpc0,gpt0,conn_rate(10s),gpc_rate(2,1m),server_key,http_req_cnt";
        let table = table(words);
        let key = table.parse_key("1.2.3.4").unwrap();
        let set = |name: &str, value| {
            let (kind, element) = table.data_type(&format!("data.{name}")).unwrap();
            assert!(table.set(&key, kind, element, value));
        };
        set("gpc0", 5);
        set("conn_rate", 7);
        set("gpc_rate(1)", 9);
        let row = table.row(&key).unwrap().to_string();
        let (place, rest) = row.split_once(": ").unwrap();
        assert!(place.starts_with("0x"));
        let (before, after) = rest.split_once(" exp=").unwrap();
        assert_eq!(before, "key=1.2.3.4 use=0");
        let (expires, after) = after.split_once(' ').unwrap();
        assert!((9000..=10_000).contains(&expires.parse::<u64>().unwrap()));
        let expected = "shard=0 gpt0=0 gpc0=5 conn_rate(10000)=7 http_req_cnt=0 server_key=- gpc0_rate(60000)=0 gpc1_rate(60000)=9";
        assert_eq!(after, expected);
    }

    #[test]
    fn filters() {
        let table = table("type integer size 100k store gpc0");
        assert!(table.parts() > 1);
        for number in 0..10u32 {
            let key = table.key_of(&number.to_be_bytes()).unwrap();
            assert!(table.set(&key, DataType::Gpc0, 0, number.into()));
        }
        let check = |operator: &str, value: &str, expected: &[&str]| {
            let filter = Filter::parse(&table, "data.gpc0", operator, value).unwrap();
            let rows = (0..table.parts()).flat_map(|part| table.rows(part, &[filter]));
            let mut keys: Vec<String> = rows.map(|row| row.key).collect();
            keys.sort();
            assert_eq!(keys, expected, "{operator} {value}");
        };
        check("eq", "3", &["3"]);
        check("lt", "2", &["0", "1"]);
        check("le", "0", &["0"]);
        check("gt", "8", &["9"]);
        check("ge", "-1", &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        check("ne", "10", &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        assert!(Filter::parse(&table, "data.gpc0", "is", "3").is_err());
        assert!(Filter::parse(&table, "data.gpc1", "eq", "3").is_err());
        assert!(Filter::parse(&table, "gpc0", "eq", "3").is_err());
        assert!(Filter::parse(&table, "data.gpc0", "eq", "x").is_err());
        let filter = Filter::parse(&table, "data.gpc0", "ge", "5").unwrap();
        assert_eq!((table.clear(&[filter]), table.used()), (5, 5));
    }

    #[test]
    fn removal() {
        let table = table("type integer size 100 store gpc0");
        let key = table.parse_key("7").unwrap();
        assert_eq!(table.remove(&key), Removal::Absent);
        table.with_made(&key, |table, id, _| table.hold(id));
        assert_eq!((table.remove(&key), table.clear(&[])), (Removal::InUse, 0));
        table.with(&key, |table, id, now| table.release(id, now));
        assert_eq!(table.remove(&key), Removal::Gone);
    }
}
