//! Parameters: names and values with their lengths before them (FastCGI section 3.4).

use std::ops::Range;

use super::record::MAX_CONTENT;
use crate::message::{FieldName, Fields};

/// Most bytes of a request's parameters, lengths included: one record.
pub const MAX_PARAMS: usize = MAX_CONTENT;

/// The parameters of a request. A name has one value: the first.
#[derive(Clone, Debug, Default)]
pub struct Params {
    bytes: Vec<u8>,
    /// Where each name stands.
    names: Vec<Range<usize>>,
}

impl Params {
    /// Adds a parameter, unless its name is there already.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.names.iter().any(|known| self.bytes[known.clone()] == *name) {
            return;
        }
        write_length(name.len(), &mut self.bytes);
        write_length(value.len(), &mut self.bytes);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.names.push(start..self.bytes.len());
        self.bytes.extend_from_slice(value);
    }

    /// Adds those fields of a request that `passes` lets pass, each as `HTTP_` and its name (RFC 3875 section 4.1.18).
    pub fn add_fields(&mut self, fields: &Fields, passes: impl Fn(FieldName, &[u8]) -> bool) {
        let passed = || fields.list().iter().filter(|field| passes(field.id, fields.bytes(field.name)));
        for field in passed() {
            let name = of_field(fields.bytes(field.name));
            // Same section: lines of one name become one value.
            let separator: &[u8] = if field.id == FieldName::Cookie { b"; " } else { b", " };
            let mut value = Vec::new();
            for line in passed().filter(|line| of_field(fields.bytes(line.name)) == name) {
                if !value.is_empty() {
                    value.extend_from_slice(separator);
                }
                value.extend_from_slice(fields.bytes(line.value));
            }
            self.add(&name, &value);
        }
    }

    /// As they stand in their record; more than [`MAX_PARAMS`] cannot be sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// `HTTP_USER_AGENT` of `user-agent`.
fn of_field(name: &[u8]) -> Vec<u8> {
    let byte = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_uppercase() } else { b'_' };
    b"HTTP_".iter().copied().chain(name.iter().map(byte)).collect()
}

/// One byte for what fits in seven bits, else four with the highest bit set.
fn write_length(length: usize, out: &mut Vec<u8>) {
    const LONG: u32 = 1 << 31;
    match u8::try_from(length) {
        Ok(short @ 0..=127) => out.push(short),
        _ => out.extend_from_slice(&(length as u32 | LONG).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut params = Params::default();
        for (name, value) in pairs {
            params.add(name.as_bytes(), value.as_bytes());
        }
        params.bytes().to_vec()
    }

    #[test]
    fn lengths_stand_before_names_and_values() {
        assert_eq!(encoded(&[("A", "bc")]), b"\x01\x02Abc");
        assert_eq!(encoded(&[("A", "")]), b"\x01\x00A");
        let long = "x".repeat(128);
        assert_eq!(encoded(&[("A", &long)]), [&b"\x01\x80\x00\x00\x80A"[..], long.as_bytes()].concat());
        assert_eq!(encoded(&[("A", "1"), ("B", "2"), ("A", "3")]), b"\x01\x01A1\x01\x01B2");
    }

    #[test]
    fn fields_become_parameters() {
        let check = |fields: &[(&str, &str)], expected: &[(&str, &str)]| {
            let mut list = Fields::default();
            fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
            let mut params = Params::default();
            params.add_fields(&list, |id, name| id != FieldName::Authorization && name != b"x-not");
            assert_eq!(params.bytes(), encoded(expected), "{fields:?}");
        };
        check(&[("user-agent", "me")], &[("HTTP_USER_AGENT", "me")]);
        check(&[("x.y_z", "1")], &[("HTTP_X_Y_Z", "1")]);
        check(&[("x", "1"), ("y", "2"), ("X", "3")], &[("HTTP_X", "1, 3"), ("HTTP_Y", "2")]);
        check(&[("cookie", "a=1"), ("cookie", "b=2")], &[("HTTP_COOKIE", "a=1; b=2")]);
        check(&[("authorization", "secret"), ("x-not", "1")], &[]);
    }
}
