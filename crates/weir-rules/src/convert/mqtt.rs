//! MQTT 3.1, 3.1.1 and 5.0: fields of a CONNECT or CONNACK packet.

use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "mqtt_field_value",
        args(2, &[K::Str, K::Str]),
        Type::Bin,
        Type::Bin,
        "A field or property of an MQTT packet.",
        mqtt_field_value,
    )
    .prepare(prepare_field),
    converter(
        "mqtt_is_valid",
        NONE,
        Type::Bin,
        Type::Bool,
        "Whether the bytes are a valid MQTT packet.",
        mqtt_is_valid,
    ),
];

const CONNECT: u8 = 1;
const CONNACK: u8 = 2;

/// Fields by name; the place in the list is the argument.
const FIELDS: [&str; 10] = [
    "flags",
    "protocol_name",
    "protocol_version",
    "client_identifier",
    "will_topic",
    "will_payload",
    "username",
    "password",
    "keepalive",
    "reason_code",
];

/// A value as it is printed: bytes, or a number in decimal.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Bytes(&'a [u8]),
    Number(u32),
}

/// What a packet says.
#[derive(Default, Debug)]
struct Packet<'a> {
    kind: u8,
    fields: [Option<Field<'a>>; FIELDS.len()],
    properties: Vec<(u8, Field<'a>)>,
}

/// Most properties of one packet.
const MAX_PROPERTIES: usize = 64;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self, bytes: usize) -> Option<u32> {
        Some(self.take(bytes)?.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.number(2)?;
        self.take(len as usize)
    }

    /// MQTT 5.0 section 1.5.5: seven bits a byte, at most four bytes.
    fn varint(&mut self) -> Option<u32> {
        let mut n = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.number(1)?;
            n |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// MQTT 5.0 section 2.2.2: identifiers and values, each allowed once but for user properties.
    fn properties(&mut self, out: &mut Vec<(u8, Field<'a>)>) -> Option<()> {
        let len = self.varint()? as usize;
        let mut block = Reader(self.take(len)?);
        while !block.0.is_empty() {
            let id = block.number(1)? as u8;
            let value = match id {
                1 | 23 | 25 | 36 | 37 | 40..=42 => Field::Number(block.number(1)?),
                19 | 33..=35 => Field::Number(block.number(2)?),
                2 | 17 | 18 | 24 | 39 => Field::Number(block.number(4)?),
                11 => Field::Number(block.varint()?),
                3 | 8 | 9 | 18..=22 | 26 | 28 | 31 => Field::Bytes(block.string()?),
                38 => {
                    block.string()?;
                    block.string()?;
                    continue;
                }
                _ => return None,
            };
            if out.len() == MAX_PROPERTIES || out.iter().any(|(known, _)| *known == id) {
                return None;
            }
            out.push((id, value));
        }
        Some(())
    }
}

/// Reads the packet that the bytes are; `None` when they are no whole packet of a known kind.
fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    let mut reader = Reader(bytes);
    let first = reader.number(1)? as u8;
    let length = reader.varint()? as usize;
    // No flags are defined for these two (MQTT 3.1.1 section 2.2.2), and nothing may follow.
    if first & 0x0f != 0 || reader.0.len() != length {
        return None;
    }
    let mut packet = Packet { kind: first >> 4, ..Packet::default() };
    match packet.kind {
        CONNECT => connect(&mut reader, &mut packet)?,
        CONNACK => connack(&mut reader, &mut packet)?,
        _ => return None,
    }
    reader.0.is_empty().then_some(packet)
}

fn connect<'a>(reader: &mut Reader<'a>, packet: &mut Packet<'a>) -> Option<()> {
    let name = reader.string()?;
    let version = reader.number(1)?;
    if !matches!((name, version), (b"MQIsdp", 3) | (b"MQTT", 4 | 5)) {
        return None;
    }
    let flags = reader.number(1)?;
    let set = |bit: u32| flags >> bit & 1 == 1;
    // Bit 0 is reserved; a password needs a user name before 5.0; no will means no will flags.
    let will_flags = flags & 0x38;
    if set(0)
        || (set(6) && !set(7) && version < 5)
        || (!set(2) && will_flags != 0)
        || will_flags & 0x18 == 0x18
    {
        return None;
    }
    let keepalive = reader.number(2)?;
    if version == 5 {
        reader.properties(&mut packet.properties)?;
    }
    let client = reader.string()?;
    packet.fields[0] = Some(Field::Number(flags));
    packet.fields[1] = Some(Field::Bytes(name));
    packet.fields[2] = Some(Field::Number(version));
    packet.fields[3] = Some(Field::Bytes(client));
    packet.fields[8] = Some(Field::Number(keepalive));
    if set(2) {
        if version == 5 {
            let mut will = Vec::new();
            reader.properties(&mut will)?;
            packet.properties.extend(will);
        }
        packet.fields[4] = Some(Field::Bytes(reader.string()?));
        packet.fields[5] = Some(Field::Bytes(reader.string()?));
    }
    if set(7) {
        packet.fields[6] = Some(Field::Bytes(reader.string()?));
    }
    if set(6) {
        packet.fields[7] = Some(Field::Bytes(reader.string()?));
    }
    Some(())
}

fn connack<'a>(reader: &mut Reader<'a>, packet: &mut Packet<'a>) -> Option<()> {
    let flags = reader.number(1)?;
    let code = reader.number(1)?;
    if flags & 0xfe != 0 {
        return None;
    }
    // Only 5.0 has properties behind the code.
    let version = if reader.0.is_empty() { 4 } else { 5 };
    if version == 5 {
        reader.properties(&mut packet.properties)?;
    }
    packet.fields[0] = Some(Field::Number(flags));
    packet.fields[2] = Some(Field::Number(version));
    packet.fields[9] = Some(Field::Number(code));
    Some(())
}

fn mqtt_is_valid<'a>(value: Value<'a>, _: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_binary();
    let valid = parse(&bytes).is_some();
    // What is not all there yet may still become one.
    (valid || !txn.inspecting || !is_incomplete(&bytes)).then_some(Value::Bool(valid))
}

/// Fewer bytes than the fixed header announces (MQTT 3.1.1 section 2.2).
fn is_incomplete(bytes: &[u8]) -> bool {
    let mut reader = Reader(bytes);
    match reader.number(1).and_then(|_| reader.varint()) {
        Some(length) => reader.0.len() < length as usize,
        // Five bytes hold the longest fixed header.
        None => bytes.len() < 5,
    }
}

/// Arguments: kind of packet, then the place of a field or the number of a property.
fn prepare_field(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let [kind, field] = call.args() else {
        return Err(vec![Diagnostic::error(
            call.name.pos,
            "'mqtt_field_value' needs a packet type and a field",
        )]);
    };
    let kind_number = match kind.text.to_ascii_lowercase().as_slice() {
        b"connect" | b"1" => CONNECT,
        b"connack" | b"2" => CONNACK,
        _ => return Err(vec![Diagnostic::unknown("MQTT packet type", kind, ["connect", "connack"])]),
    };
    let name = field.text.to_ascii_lowercase();
    if let Some(at) = FIELDS.iter().position(|f| f.as_bytes() == name) {
        return Ok(vec![Arg::Int(i64::from(kind_number)), Arg::Choice(at as u8)]);
    }
    match field.as_str().parse::<u8>() {
        Ok(id) => Ok(vec![Arg::Int(i64::from(kind_number)), Arg::Int(i64::from(id))]),
        Err(_) => Err(vec![Diagnostic::unknown("MQTT field", field, FIELDS)]),
    }
}

fn mqtt_field_value<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_binary();
    let packet = parse(&bytes)?;
    if i64::from(packet.kind) != args.int(0)? {
        return None;
    }
    let field = match args.get(1)? {
        Arg::Choice(at) => packet.fields.get(usize::from(*at)).copied()??,
        Arg::Int(id) => packet.properties.iter().find(|(known, _)| i64::from(*known) == *id)?.1,
        _ => return None,
    };
    Some(Value::Bin(match field {
        Field::Bytes(bytes) => bytes.to_vec().into(),
        Field::Number(n) => n.to_string().into_bytes().into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        crate::value::codec::decode_hex(hex.as_bytes()).expect(hex)
    }

    #[test]
    fn packets() {
        let check = |hex: &str, expected: bool| assert_eq!(parse(&bytes(hex)).is_some(), expected, "{hex}");
        check("101a00044d51545404c2003c00000004746573740006706173737764", true);
        check(
            "103a00044d51545404ee003c0008746573745f737562000977696c6c746f706963000b77696c6c7061796c6f61640004746573740006706173737764",
            true,
        );
        check("101800044d5154540502003c032100140008746573745f737562", true);
        check("102400064d514973647003c200000008746573745f7375620004746573740006706173737764", true);
        check("20020000", true);
        check("200600000322000a", true);
        check("20250000221100000078217fff24012501270000ffff22000a2600016100016226000163000164", true);
        check("d000", false);
        check("21020000", false);
        check("111400044d5154540402003c0008746573745f737562", false);
        check("10ffffffff1400044d5154540402003c0008746573745f737562", false);
        check("101300044d5154540402003c000874657374a5f737562f", false);
    }

    #[test]
    fn more_may_come() {
        let check = |hex: &str, expected: bool| assert_eq!(is_incomplete(&bytes(hex)), expected, "{hex}");
        check("", true);
        check("10", true);
        check("10ff", true);
        check("2002", true);
        check("20020000", false);
        check("2002000000", false);
        check("10ffffffff", false);
    }
}
