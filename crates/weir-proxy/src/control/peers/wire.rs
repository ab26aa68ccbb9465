//! The peers protocol's bytes (version 2.1): messages in, messages out; no socket, no clock.
//!
//! Owns the encoding of numbers, frames, table definitions and entry updates; leaves what they mean to
//! [`super::session`].

use weir_balance::DataType;

use crate::state::stick_table::TYPE_ORDER;

/// First line of a hello.
pub const VERSION_LINE: &str = "HAProxyS 2.1";

/// Longest message that is received.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Most elements of an array in a definition.
const MAX_ELEMENTS: u64 = 100;

/// Entries of the receiving side's dictionary of server names.
pub const DICTIONARY_SIZE: usize = 128;

const CLASS_CONTROL: u8 = 0;
const CLASS_ERROR: u8 = 1;
const CLASS_TABLE: u8 = 10;

/// Messages of types from this on have a length and a body.
const WITH_BODY: u8 = 128;
const UPDATE: u8 = 128;
const INCREMENTAL: u8 = 129;
const DEFINE: u8 = 130;
const SWITCH: u8 = 131;
const ACKNOWLEDGE: u8 = 132;
const TIMED: u8 = 133;
const INCREMENTAL_TIMED: u8 = 134;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Teach me everything.
    ResyncRequest,
    /// That was everything.
    ResyncFinished,
    /// That was what I have, which may not be everything.
    ResyncPartial,
    /// I have learned it.
    ResyncConfirmed,
    /// Nothing to say.
    Heartbeat,
    /// The other side gives up.
    Failed,
    /// A table that updates will be about, which is now the current one.
    Define(Definition),
    /// The current table, defined before.
    Switch(u64),
    /// An entry of the current table; read with its definition.
    Update(RawUpdate),
    /// Updates of a table arrived up to this one.
    Acknowledge {
        /// The sender's number of the table.
        table: u64,
        /// The last update of it that arrived.
        update: u32,
    },
    /// Of a later version.
    Unknown,
}

/// What went wrong with received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// A table as peers describe it to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// The sender's number of it.
    pub id: u64,
    /// The table's name.
    pub name: Vec<u8>,
    /// How its keys are written.
    pub key: KeyForm,
    /// How long its entries last.
    pub expire_ms: u64,
    /// Stored types by number, with elements and period.
    pub stored: Vec<Stored>,
}

/// A stored type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Its number: its place in the protocol's order of types.
    pub number: u8,
    /// Elements of an array; 1 for other types.
    pub elements: u64,
    /// Period of a rate; 0 for other types.
    pub period_ms: u64,
}

/// How keys are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyForm {
    /// Four bytes.
    Integer,
    /// An address.
    Ipv4,
    /// An address.
    Ipv6,
    /// With its length.
    Text {
        /// Most bytes of one.
        most: usize,
    },
    /// Always as long.
    Binary {
        /// Bytes of each.
        len: usize,
    },
}

/// An update whose data wait for the definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawUpdate {
    incremental: bool,
    timed: bool,
    body: Vec<u8>,
}

/// A value of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Datum {
    /// A number.
    Count(u64),
    /// Age of the running period, its events, those of the one before.
    Rate(u64, u64, u64),
    /// A server's name; `None` without one.
    Text(Option<Vec<u8>>),
}

/// An entry as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// Number of the update; incremental ones go on from the last.
    pub number: Option<u32>,
    /// The key as its form writes it.
    pub key: Vec<u8>,
    /// Values by type, an element each.
    pub data: Vec<(DataType, Vec<Datum>)>,
}

/// Names the other side sent, by their numbers.
pub type Dictionary = Vec<Option<Vec<u8>>>;

/// Writes a number: below 240 in one byte, then four bits in the first and seven in each of the next.
pub fn put_number(mut number: u64, out: &mut Vec<u8>) {
    if number < 240 {
        out.push(number as u8);
        return;
    }
    out.push(number as u8 | 240);
    number = (number - 240) >> 4;
    while number >= 128 {
        out.push(number as u8 | 128);
        number = (number - 128) >> 7;
    }
    out.push(number as u8);
}

/// Reads a number; `None` when it is not complete (or longer than 64 bits).
pub fn take_number(input: &mut &[u8]) -> Option<u64> {
    let (&first, mut rest) = input.split_first()?;
    let mut number = u64::from(first);
    if first >= 240 {
        let mut shift = 4;
        loop {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            number = number.checked_add(u64::from(byte).checked_shl(shift)?)?;
            shift += 7;
            if byte < 128 {
                break;
            }
        }
    }
    *input = rest;
    Some(number)
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(taken)
}

fn take_u32(input: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = input.split_first_chunk::<4>()?;
    *input = rest;
    Some(u32::from_be_bytes(*bytes))
}

/// Reads the next message; `None` when it is not complete.  Consumes what it read.
pub fn next_message(input: &mut &[u8]) -> Result<Option<Message>, Malformed> {
    let mut rest = *input;
    let Some(&[class, kind]) = take(&mut rest, 2) else { return Ok(None) };
    let mut body = &[][..];
    if kind >= WITH_BODY {
        let before = rest;
        let Some(len) = take_number(&mut rest) else {
            // A number has ten bytes at most.
            return if before.len() < 10 { Ok(None) } else { Err(Malformed) };
        };
        let len = usize::try_from(len).ok().filter(|len| *len <= MAX_MESSAGE_BYTES).ok_or(Malformed)?;
        match take(&mut rest, len) {
            Some(taken) => body = taken,
            None => return Ok(None),
        }
    }
    *input = rest;
    message(class, kind, body).ok_or(Malformed).map(Some)
}

fn message(class: u8, kind: u8, mut body: &[u8]) -> Option<Message> {
    let update = |incremental, timed, body: &[u8]| {
        Message::Update(RawUpdate { incremental, timed, body: body.to_vec() })
    };
    Some(match (class, kind) {
        (CLASS_CONTROL, 0) => Message::ResyncRequest,
        (CLASS_CONTROL, 1) => Message::ResyncFinished,
        (CLASS_CONTROL, 2) => Message::ResyncPartial,
        (CLASS_CONTROL, 3) => Message::ResyncConfirmed,
        (CLASS_CONTROL, 4) => Message::Heartbeat,
        (CLASS_ERROR, _) => Message::Failed,
        (CLASS_TABLE, UPDATE) => update(false, false, body),
        (CLASS_TABLE, INCREMENTAL) => update(true, false, body),
        (CLASS_TABLE, TIMED) => update(false, true, body),
        (CLASS_TABLE, INCREMENTAL_TIMED) => update(true, true, body),
        (CLASS_TABLE, DEFINE) => Message::Define(definition(&mut body)?),
        (CLASS_TABLE, SWITCH) => Message::Switch(take_number(&mut body)?),
        (CLASS_TABLE, ACKNOWLEDGE) => {
            Message::Acknowledge { table: take_number(&mut body)?, update: take_u32(&mut body)? }
        }
        _ => Message::Unknown,
    })
}

/// The body of a definition.
fn definition(body: &mut &[u8]) -> Option<Definition> {
    let id = take_number(body)?;
    let name_len = usize::try_from(take_number(body)?).ok()?;
    let name = take(body, name_len)?.to_vec();
    let (kind, len) = (take_number(body)?, usize::try_from(take_number(body)?).ok()?);
    let key = match (kind, len) {
        (2, 4) => KeyForm::Integer,
        (4, 4) => KeyForm::Ipv4,
        (5, 16) => KeyForm::Ipv6,
        // The length counts the end of the text.
        (6, 1..) => KeyForm::Text { most: len - 1 },
        (7, 1..=MAX_MESSAGE_BYTES) => KeyForm::Binary { len },
        _ => return None,
    };
    let (bits, expire_ms) = (take_number(body)?, take_number(body)?);
    let mut stored: Vec<Stored> = (0..64)
        .filter(|number| bits & (1 << number) != 0)
        .map(|number| Stored { number, elements: 1, period_ms: 0 })
        .collect();
    // Types with parameters follow, each after its number.
    while let Some(number) = take_number(body) {
        let kind = TYPE_ORDER.get(usize::try_from(number).ok()?)?;
        let found = stored.iter_mut().find(|stored| u64::from(stored.number) == number)?;
        if kind.is_array() {
            found.elements = take_number(body).filter(|count| (1..=MAX_ELEMENTS).contains(count))?;
        }
        if kind.is_rate() {
            found.period_ms = take_number(body)?;
        }
    }
    Some(Definition { id, name, key, expire_ms, stored })
}

fn frame(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    out.extend([CLASS_TABLE, kind]);
    put_number(body.len() as u64, out);
    out.extend_from_slice(body);
}

/// Writes a message.
pub fn put(message: &Message, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    match message {
        Message::ResyncRequest => out.extend([CLASS_CONTROL, 0]),
        Message::ResyncFinished => out.extend([CLASS_CONTROL, 1]),
        Message::ResyncPartial => out.extend([CLASS_CONTROL, 2]),
        Message::ResyncConfirmed => out.extend([CLASS_CONTROL, 3]),
        Message::Heartbeat => out.extend([CLASS_CONTROL, 4]),
        Message::Failed | Message::Unknown => out.extend([CLASS_ERROR, 0]),
        Message::Define(definition) => {
            put_definition(definition, &mut body);
            frame(DEFINE, &body, out);
        }
        Message::Switch(id) => {
            put_number(*id, &mut body);
            frame(SWITCH, &body, out);
        }
        Message::Acknowledge { table, update } => {
            put_number(*table, &mut body);
            body.extend(update.to_be_bytes());
            frame(ACKNOWLEDGE, &body, out);
        }
        Message::Update(RawUpdate { incremental, timed, body }) => {
            let kind = match (incremental, timed) {
                (false, false) => UPDATE,
                (true, false) => INCREMENTAL,
                (false, true) => TIMED,
                (true, true) => INCREMENTAL_TIMED,
            };
            frame(kind, body, out);
        }
    }
}

fn put_definition(definition: &Definition, body: &mut Vec<u8>) {
    let (kind, len) = match definition.key {
        KeyForm::Integer => (2, 4),
        KeyForm::Ipv4 => (4, 4),
        KeyForm::Ipv6 => (5, 16),
        KeyForm::Text { most } => (6, most + 1),
        KeyForm::Binary { len } => (7, len),
    };
    let bits = definition.stored.iter().fold(0u64, |bits, stored| bits | 1 << stored.number);
    put_number(definition.id, body);
    put_number(definition.name.len() as u64, body);
    body.extend_from_slice(&definition.name);
    for number in [kind, len as u64, bits, definition.expire_ms] {
        put_number(number, body);
    }
    for stored in &definition.stored {
        let Some(kind) = TYPE_ORDER.get(usize::from(stored.number)) else { continue };
        if kind.is_array() || kind.is_rate() {
            put_number(u64::from(stored.number), body);
        }
        if kind.is_array() {
            put_number(stored.elements, body);
        }
        if kind.is_rate() {
            put_number(stored.period_ms, body);
        }
    }
}

/// The update of an entry, in the form of its table.
pub fn raw_update(definition: &Definition, update: &Update) -> RawUpdate {
    let mut body = Vec::new();
    if let Some(number) = update.number {
        body.extend(number.to_be_bytes());
    }
    if let KeyForm::Text { .. } = definition.key {
        put_number(update.key.len() as u64, &mut body);
    }
    body.extend_from_slice(&update.key);
    for datum in update.data.iter().flat_map(|(_, data)| data) {
        match datum {
            Datum::Count(value) => put_number(*value, &mut body),
            Datum::Rate(age_ms, current, previous) => {
                for number in [age_ms, current, previous] {
                    put_number(*number, &mut body);
                }
            }
            Datum::Text(None) => put_number(0, &mut body),
            Datum::Text(Some(text)) => {
                // Always sent in full, under the dictionary's first number.
                let mut entry = Vec::new();
                put_number(1, &mut entry);
                put_number(text.len() as u64, &mut entry);
                entry.extend_from_slice(text);
                put_number(entry.len() as u64, &mut body);
                body.extend_from_slice(&entry);
            }
        }
    }
    RawUpdate { incremental: update.number.is_none(), timed: false, body }
}

/// Reads an update with the definition of its table; values of types unknown here end it.
pub fn read_update(
    definition: &Definition,
    raw: &RawUpdate,
    dictionary: &mut Dictionary,
) -> Result<Update, Malformed> {
    update(definition, raw, dictionary).ok_or(Malformed)
}

fn update(definition: &Definition, raw: &RawUpdate, dictionary: &mut Dictionary) -> Option<Update> {
    let mut body = &raw.body[..];
    let number = if raw.incremental { None } else { Some(take_u32(&mut body)?) };
    if raw.timed {
        take_u32(&mut body)?;
    }
    let key_len = match definition.key {
        KeyForm::Integer | KeyForm::Ipv4 => 4,
        KeyForm::Ipv6 => 16,
        KeyForm::Text { .. } => usize::try_from(take_number(&mut body)?).ok()?,
        KeyForm::Binary { len } => len,
    };
    let key = take(&mut body, key_len)?.to_vec();
    let mut data = Vec::new();
    for stored in &definition.stored {
        // What a later version stores comes last.
        let Some(&kind) = TYPE_ORDER.get(usize::from(stored.number)) else { break };
        let elements = (0..stored.elements).map(|_| datum(kind, &mut body, dictionary));
        data.push((kind, elements.collect::<Option<Vec<_>>>()?));
    }
    Some(Update { number, key, data })
}

fn datum(kind: DataType, body: &mut &[u8], dictionary: &mut Dictionary) -> Option<Datum> {
    if kind.is_rate() {
        return Some(Datum::Rate(take_number(body)?, take_number(body)?, take_number(body)?));
    }
    let value = take_number(body)?;
    if kind != DataType::ServerKey {
        return Some(Datum::Count(value));
    }
    if value == 0 {
        return Some(Datum::Text(None));
    }
    let mut entry = take(body, usize::try_from(value).ok()?)?;
    let number = usize::try_from(take_number(&mut entry)?).ok()?.checked_sub(1)?;
    if number >= DICTIONARY_SIZE {
        return None;
    }
    if dictionary.len() <= number {
        dictionary.resize(number + 1, None);
    }
    if !entry.is_empty() {
        let len = usize::try_from(take_number(&mut entry)?).ok()?;
        dictionary[number] = Some(take(&mut entry, len)?.to_vec());
    }
    Some(Datum::Text(dictionary[number].clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let check = |number: u64, expected: &[u8]| {
            let mut out = Vec::new();
            put_number(number, &mut out);
            assert_eq!(out, expected, "{number}");
            assert_eq!(take_number(&mut &out[..]), Some(number));
            for cut in 0..out.len() {
                assert_eq!(take_number(&mut &out[..cut]), None, "{number} {cut}");
            }
        };
        check(0, &[0]);
        check(239, &[239]);
        check(240, &[0xf0, 0]);
        check(255, &[0xff, 0]);
        check(256, &[0xf0, 1]);
        check(2287, &[0xff, 0x7f]);
        check(2288, &[0xf0, 0x80, 0]);
        let mut longest = Vec::new();
        put_number(u64::MAX, &mut longest);
        assert_eq!(take_number(&mut &longest[..]), Some(u64::MAX));
        assert_eq!(take_number(&mut &[0xff; 20][..]), None);
    }

    fn example() -> (Definition, Update) {
        let stored = |number, elements, period_ms| Stored { number, elements, period_ms };
        let definition = Definition {
            id: 3,
            name: b"stkt".to_vec(),
            key: KeyForm::Text { most: 32 },
            expire_ms: 30_000,
            // server_id, gpc0, conn_rate, server_key, gpc, gpc_rate
            stored: vec![
                stored(0, 1, 0),
                stored(2, 1, 0),
                stored(5, 1, 10_000),
                stored(19, 1, 0),
                stored(23, 2, 0),
                stored(24, 2, 60_000),
            ],
        };
        let data = vec![
            (DataType::ServerId, vec![Datum::Count(7)]),
            (DataType::Gpc0, vec![Datum::Count(300)]),
            (DataType::ConnRate, vec![Datum::Rate(10, 5, 1000)]),
            (DataType::ServerKey, vec![Datum::Text(Some(b"srv1".to_vec()))]),
            (DataType::Gpc, vec![Datum::Count(1), Datum::Count(2)]),
            (DataType::GpcRate, vec![Datum::Rate(1, 2, 3), Datum::Rate(4, 5, 6)]),
        ];
        (definition, Update { number: Some(9), key: b"key".to_vec(), data })
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let (definition, update) = example();
        let messages = [
            Message::ResyncRequest,
            Message::ResyncFinished,
            Message::ResyncPartial,
            Message::ResyncConfirmed,
            Message::Heartbeat,
            Message::Define(definition.clone()),
            Message::Switch(300),
            Message::Acknowledge { table: 3, update: 77 },
            Message::Update(raw_update(&definition, &update)),
            Message::Update(raw_update(&definition, &Update { number: None, ..update })),
        ];
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| put(message, &mut bytes));
        let mut input = &bytes[..];
        for message in &messages {
            assert_eq!(next_message(&mut input), Ok(Some(message.clone())));
        }
        assert_eq!(next_message(&mut input), Ok(None));
        // In parts, nothing is consumed before it is complete.
        for cut in 0..bytes.len() {
            let mut input = &bytes[..cut];
            while let Ok(Some(_)) = next_message(&mut input) {}
            assert!(next_message(&mut input) == Ok(None), "{cut}");
        }
    }

    #[test]
    fn updates_are_read_with_their_definition() {
        let (definition, update) = example();
        let raw = raw_update(&definition, &update);
        assert_eq!(read_update(&definition, &raw, &mut Vec::new()), Ok(update));
        // A name sent before comes as its number.
        let only_key =
            Definition { stored: vec![Stored { number: 19, elements: 1, period_ms: 0 }], ..definition };
        let body = [&9u32.to_be_bytes()[..], &[3], b"key", &[1, 2]].concat();
        let raw = RawUpdate { incremental: false, timed: false, body };
        let mut dictionary = vec![None, Some(b"srv2".to_vec())];
        let read = read_update(&only_key, &raw, &mut dictionary).unwrap();
        assert_eq!(read.data, [(DataType::ServerKey, vec![Datum::Text(Some(b"srv2".to_vec()))])]);
        // Short of data.
        let raw = RawUpdate { incremental: true, timed: true, body: vec![0, 0, 0, 1, 3, b'k'] };
        assert_eq!(read_update(&only_key, &raw, &mut dictionary), Err(Malformed));
    }

    #[test]
    fn nonsense_is_refused() {
        let check = |bytes: &[u8]| assert_eq!(next_message(&mut &bytes[..]), Err(Malformed), "{bytes:?}");
        // Longer than any message.
        check(&[10, 128, 0xff, 0xff, 0xff, 0x7f]);
        // A number without an end.
        check(&[10, 128, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        // A definition with a key type that is none.
        check(&[10, 130, 7, 1, 1, b't', 99, 4, 0, 0]);
        assert_eq!(next_message(&mut &[99, 3][..]), Ok(Some(Message::Unknown)));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_fine(bytes: Vec<u8>, body: Vec<u8>, timed: bool) {
            let mut input = &bytes[..];
            while let Ok(Some(_)) = next_message(&mut input) {}
            let (definition, _) = example();
            let raw = RawUpdate { incremental: false, timed, body };
            let _read = read_update(&definition, &raw, &mut Vec::new());
        }
    }
}
