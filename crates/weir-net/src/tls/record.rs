//! The record layer after the handshake: RFC 8446 section 5 for TLS 1.3, RFC 5246 section 6.2, RFC 5288 and
//! RFC 7905 for TLS 1.2.
//!
//! Owns sealing and opening records with the keys of an established connection, straight from and into the
//! connection's buffers. What records say is left to `session`.

use std::fmt;
use std::io::IoSlice;
use std::ops::Range;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::{ConnectionTrafficSecrets, ProtocolVersion};

/// The header: type, version, length.
pub(crate) const HEADER_BYTES: usize = 5;

/// The longest plaintext of a record.
pub(crate) const MAX_PLAINTEXT_BYTES: usize = 1 << 14;

/// How much longer than its plaintext a TLS 1.3 record's body may be (RFC 8446 section 5.2).
const MAX_EXPANSION_BYTES: usize = 256;

/// The same for TLS 1.2 (RFC 5246 section 6.2.3); no AEAD needs as much.
const MAX_TLS12_EXPANSION_BYTES: usize = 2048;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// The longest record.
pub(crate) const MAX_RECORD_BYTES: usize = HEADER_BYTES + MAX_PLAINTEXT_BYTES + MAX_EXPANSION_BYTES;

/// The authentication tag of all three algorithms.
const TAG_BYTES: usize = 16;

/// The part of the AES-GCM nonce that TLS 1.2 sends with each record (RFC 5288 section 3).
const EXPLICIT_NONCE_BYTES: usize = 8;

/// Records after which AES-GCM keys have to change (RFC 8446 section 5.5: 2^24.5 full-sized ones).
const AES_GCM_MAX_RECORDS: u64 = 1 << 24;

/// ChaCha20 has no such limit (RFC 8446 section 5.5); a sequence number must not wrap (section 5.3).
const CHACHA_MAX_RECORDS: u64 = u64::MAX - 2;

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentType {
    Alert,
    Handshake,
    ApplicationData,
}

impl ContentType {
    fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            ALERT => Some(Self::Alert),
            HANDSHAKE => Some(Self::Handshake),
            APPLICATION_DATA => Some(Self::ApplicationData),
            _ => None,
        }
    }

    fn to_wire(self) -> u8 {
        match self {
            Self::Alert => ALERT,
            Self::Handshake => HANDSHAKE,
            Self::ApplicationData => APPLICATION_DATA,
        }
    }
}

/// Why a record is refused. Always the peer's or the path's fault; the connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordError {
    /// The body is longer than allowed.
    Overflow,
    /// A type or form that has no place here.
    Unexpected,
    /// It was not sealed with our keys, or was changed or reordered.
    BadMac,
    /// These keys must not seal any more records.
    KeysUsedUp,
}

impl RecordError {
    /// The alert that tells the peer (RFC 8446 section 6).
    pub(crate) fn alert(self) -> u8 {
        match self {
            Self::Overflow => 22,
            Self::Unexpected => 10,
            Self::BadMac => 20,
            Self::KeysUsedUp => 80,
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overflow => "the peer sent a TLS record that is too long",
            Self::Unexpected => "the peer sent a TLS record that has no place here",
            Self::BadMac => "a TLS record does not decrypt",
            Self::KeysUsedUp => "the TLS keys were used for too many records",
        })
    }
}

impl std::error::Error for RecordError {}

/// How nonce, additional data and plaintext are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Tls13,
    Tls12Gcm,
    Tls12ChaCha,
}

impl Layout {
    fn explicit_nonce(self) -> usize {
        match self {
            Self::Tls12Gcm => EXPLICIT_NONCE_BYTES,
            Self::Tls13 | Self::Tls12ChaCha => 0,
        }
    }
}

/// One direction's key.
struct Direction {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    max_records: u64,
    layout: Layout,
}

impl Direction {
    fn new(version: ProtocolVersion, sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        let (algorithm, key, iv, max_records) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, AES_GCM_MAX_RECORDS),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, AES_GCM_MAX_RECORDS),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (&CHACHA20_POLY1305, key, iv, CHACHA_MAX_RECORDS)
            }
            _ => return None,
        };
        let layout = match (version, secrets) {
            (ProtocolVersion::TLSv1_3, _) => Layout::Tls13,
            (ProtocolVersion::TLSv1_2, ConnectionTrafficSecrets::Chacha20Poly1305 { .. }) => {
                Layout::Tls12ChaCha
            }
            (ProtocolVersion::TLSv1_2, _) => Layout::Tls12Gcm,
            _ => return None,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?);
        Some(Self { key, iv: iv.as_ref().try_into().ok()?, sequence, max_records, layout })
    }

    /// RFC 8446 section 5.3: the sequence number, padded on the left, exclusive-or the static IV.
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, sequence) in nonce.iter_mut().skip(4).zip(self.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        nonce
    }
}

/// TLS 1.2's additional data: sequence number, type, version and plaintext length.
fn tls12_additional_data(sequence: u64, kind: u8, plaintext_bytes: usize) -> [u8; 13] {
    let mut data = [0; 13];
    data[..8].copy_from_slice(&sequence.to_be_bytes());
    data[8..11].copy_from_slice(&[kind, 3, 3]);
    data[11..].copy_from_slice(&u16::try_from(plaintext_bytes).unwrap_or(u16::MAX).to_be_bytes());
    data
}

fn header(kind: u8, body_bytes: usize) -> [u8; HEADER_BYTES] {
    let [high, low] = u16::try_from(body_bytes).unwrap_or(u16::MAX).to_be_bytes();
    // The version is 3,3 in both protocols once keys are in use.
    [kind, 3, 3, high, low]
}

/// The total length of the record that starts with these bytes, once its header is there.
pub(crate) fn record_bytes(start: &[u8]) -> Result<Option<usize>, RecordError> {
    let Some([_, _, _, high, low]) = start.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let total = HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
    if total > MAX_RECORD_BYTES {
        return Err(RecordError::Overflow);
    }
    Ok(Some(total))
}

/// The same during the handshake, where any type may come, and the version that sets the limit is not known yet.
pub(crate) fn handshake_record_bytes(start: &[u8]) -> Result<Option<usize>, RecordError> {
    let Some([kind, _, _, high, low]) = start.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let body = usize::from(u16::from_be_bytes([*high, *low]));
    if !(CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(kind) {
        return Err(RecordError::Unexpected);
    }
    if body > MAX_PLAINTEXT_BYTES + MAX_TLS12_EXPANSION_BYTES {
        return Err(RecordError::Overflow);
    }
    Ok(Some(HEADER_BYTES + body))
}

/// An alert before there are keys.
pub(crate) fn plain_alert(level: u8, description: u8) -> [u8; HEADER_BYTES + 2] {
    let [kind, major, minor, high, low] = header(ALERT, 2);
    [kind, major, minor, high, low, level, description]
}

/// The sending direction.
pub(crate) struct Sealer(Direction);

impl Sealer {
    pub(crate) fn new(
        version: ProtocolVersion,
        sequence: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> Option<Self> {
        Direction::new(version, sequence, secrets).map(Self)
    }

    /// Whether the keys should be changed now.
    pub(crate) fn is_worn(&self) -> bool {
        self.0.sequence >= self.0.max_records
    }

    /// The record's length for a plaintext of this length.
    pub(crate) fn sealed_bytes(&self, plaintext_bytes: usize) -> usize {
        let inner_type = usize::from(self.0.layout == Layout::Tls13);
        HEADER_BYTES + self.0.layout.explicit_nonce() + plaintext_bytes + inner_type + TAG_BYTES
    }

    /// Writes one record into `out`, which is long enough for it, and returns its length.
    ///
    /// The plaintext is the `plaintext_bytes` bytes of `parts` from `skip` on.
    pub(crate) fn seal(
        &mut self,
        kind: ContentType,
        parts: &[IoSlice<'_>],
        skip: usize,
        plaintext_bytes: usize,
        out: &mut [u8],
    ) -> Result<usize, RecordError> {
        let direction = &mut self.0;
        // One more than the limit at which keys are changed, so that the change itself can be said.
        if direction.sequence > direction.max_records.saturating_add(1) {
            return Err(RecordError::KeysUsedUp);
        }
        let nonce = direction.nonce();
        let kind = kind.to_wire();
        let total = HEADER_BYTES
            + direction.layout.explicit_nonce()
            + plaintext_bytes
            + usize::from(direction.layout == Layout::Tls13)
            + TAG_BYTES;
        let out = out.get_mut(..total).ok_or(RecordError::Overflow)?;
        let (head, body) = out.split_at_mut(HEADER_BYTES + direction.layout.explicit_nonce());
        let (body, tail) = body.split_at_mut(plaintext_bytes);
        let (tls13_data, tls12_data);
        let (additional_data, inner_type): (&[u8], &[u8]) = match direction.layout {
            Layout::Tls13 => {
                head.copy_from_slice(&header(ContentType::ApplicationData.to_wire(), total - HEADER_BYTES));
                tls13_data = header(ContentType::ApplicationData.to_wire(), total - HEADER_BYTES);
                (&tls13_data, std::slice::from_ref(&kind))
            }
            Layout::Tls12Gcm | Layout::Tls12ChaCha => {
                let (start, explicit) = head.split_at_mut(HEADER_BYTES);
                start.copy_from_slice(&header(kind, total - HEADER_BYTES));
                explicit.copy_from_slice(nonce.get(NONCE_LEN - explicit.len()..).unwrap_or_default());
                tls12_data = tls12_additional_data(direction.sequence, kind, plaintext_bytes);
                (&tls12_data, &[])
            }
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(additional_data);
        let key = &direction.key;
        match only_part(parts, skip, plaintext_bytes) {
            Some(plaintext) => key.seal_out_of_place_scatter(nonce, aad, plaintext, body, inner_type, tail),
            None => {
                gather(parts, skip, body);
                key.seal_in_place_scatter(nonce, aad, body, inner_type, tail)
            }
        }
        .map_err(|_| RecordError::KeysUsedUp)?;
        direction.sequence += 1;
        Ok(total)
    }
}

/// The wanted bytes, when they lie in one part.
fn only_part<'a>(parts: &'a [IoSlice<'_>], mut skip: usize, count: usize) -> Option<&'a [u8]> {
    for part in parts {
        if skip < part.len() {
            return part.get(skip..)?.get(..count);
        }
        skip -= part.len();
    }
    (count == 0).then_some(&[])
}

/// Copies the wanted bytes together.
fn gather(parts: &[IoSlice<'_>], mut skip: usize, mut out: &mut [u8]) {
    for part in parts {
        let from = skip.min(part.len());
        skip -= from;
        let part = part.get(from..).unwrap_or_default();
        let count = part.len().min(out.len());
        let (front, rest) = out.split_at_mut(count);
        front.copy_from_slice(part.get(..count).unwrap_or_default());
        out = rest;
    }
}

/// The receiving direction.
pub(crate) struct Opener(Direction);

impl Opener {
    pub(crate) fn new(
        version: ProtocolVersion,
        sequence: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> Option<Self> {
        Direction::new(version, sequence, secrets).map(Self)
    }

    /// Decrypts one complete record in place and says what it is and where in it the plaintext lies.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> Result<(ContentType, Range<usize>), RecordError> {
        let direction = &mut self.0;
        let Some((header, body)) = record.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Err(RecordError::Unexpected);
        };
        // RFC 8446 section 5.2: the outer type is always application data.
        if direction.layout == Layout::Tls13 && header[0] != APPLICATION_DATA {
            return Err(RecordError::Unexpected);
        }
        let explicit = direction.layout.explicit_nonce();
        // An empty plaintext still has its nonce, tag and, in TLS 1.3, type.
        let Some(plaintext_bytes) = body.len().checked_sub(explicit + TAG_BYTES) else {
            return Err(RecordError::BadMac);
        };
        let (explicit_nonce, sealed) = body.split_at_mut(explicit);
        let mut nonce = direction.nonce();
        let tls12_data;
        let additional_data: &[u8] = match direction.layout {
            Layout::Tls13 => &*header,
            Layout::Tls12Gcm | Layout::Tls12ChaCha => {
                if explicit > 0 {
                    nonce[..4].copy_from_slice(&direction.iv[..4]);
                    nonce[4..].copy_from_slice(explicit_nonce);
                }
                tls12_data = tls12_additional_data(direction.sequence, header[0], plaintext_bytes);
                &tls12_data
            }
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = direction
            .key
            .open_in_place(nonce, Aad::from(additional_data), sealed)
            .map_err(|_| RecordError::BadMac)?;
        direction.sequence = direction.sequence.checked_add(1).ok_or(RecordError::KeysUsedUp)?;
        let start = HEADER_BYTES + explicit;
        let (kind, length) = match direction.layout {
            // RFC 8446 section 5.4: the type is the last byte that is not zero; an all-zero record is refused.
            Layout::Tls13 => {
                // RFC 8446 section 5.4: padding does not make a record longer than it may be without.
                if opened.len() > MAX_PLAINTEXT_BYTES + 1 {
                    return Err(RecordError::Overflow);
                }
                let at = opened.iter().rposition(|byte| *byte != 0).ok_or(RecordError::Unexpected)?;
                (opened.get(at).copied().unwrap_or(0), at)
            }
            Layout::Tls12Gcm | Layout::Tls12ChaCha => (header[0], opened.len()),
        };
        if length > MAX_PLAINTEXT_BYTES {
            return Err(RecordError::Overflow);
        }
        let kind = ContentType::from_wire(kind).ok_or(RecordError::Unexpected)?;
        // RFC 8446 section 5.4: alerts and handshake messages are never empty.
        if length == 0 && kind != ContentType::ApplicationData {
            return Err(RecordError::Unexpected);
        }
        Ok((kind, start..start + length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::crypto::cipher::{AeadKey, Iv};

    fn secrets(name: &str) -> ConnectionTrafficSecrets {
        let iv = Iv::from([7; 12]);
        let key = AeadKey::from([9; 32]);
        match name {
            "chacha" => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
            _ => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
        }
    }

    fn both() -> [(ProtocolVersion, &'static str); 4] {
        let versions = [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3];
        [(versions[0], "aes"), (versions[0], "chacha"), (versions[1], "aes"), (versions[1], "chacha")]
    }

    fn seal(sealer: &mut Sealer, parts: &[&[u8]], skip: usize, count: usize) -> Vec<u8> {
        let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut out = vec![0; sealer.sealed_bytes(count)];
        let written = sealer.seal(ContentType::ApplicationData, &parts, skip, count, &mut out).unwrap();
        assert_eq!(written, out.len());
        assert_eq!(record_bytes(&out), Ok(Some(written)));
        out
    }

    #[test]
    fn what_was_sealed_opens_in_order_and_only_so() {
        for (version, cipher) in both() {
            let mut sealer = Sealer::new(version, 3, &secrets(cipher)).unwrap();
            let mut opener = Opener::new(version, 3, &secrets(cipher)).unwrap();
            let mut check = |parts: &[&[u8]], skip: usize, expected: &[u8]| {
                let mut record = seal(&mut sealer, parts, skip, expected.len());
                let (kind, range) = opener.open(&mut record).unwrap();
                assert_eq!((kind, &record[range]), (ContentType::ApplicationData, expected));
            };
            check(&[b"hello"], 0, b"hello");
            check(&[b""], 0, b"");
            check(&[], 0, b"");
            check(&[b"hello", b" ", b"world"], 0, b"hello world");
            check(&[b"hello", b" ", b"world"], 3, b"lo w");
            check(&[b"hello", b"", b"world"], 5, b"wor");
            check(&[b"hello", b"world"], 7, b"rld");
            check(&[&[1; MAX_PLAINTEXT_BYTES]], 0, &[1; MAX_PLAINTEXT_BYTES]);
            let first = seal(&mut sealer, &[b"a"], 0, 1);
            let mut second = seal(&mut sealer, &[b"b"], 0, 1);
            assert_eq!(opener.open(&mut second).unwrap_err(), RecordError::BadMac, "out of order");
            for at in 0..first.len() {
                let mut changed = first.clone();
                changed[at] ^= 1;
                // TLS 1.2's version is not looked at: it is authenticated as what it must be.
                let ignored = version == ProtocolVersion::TLSv1_2 && (1..5).contains(&at);
                assert!(ignored || opener.open(&mut changed).is_err(), "{version:?} {cipher} byte {at}");
            }
        }
    }

    #[test]
    fn malformed_records_are_refused() {
        for (version, cipher) in both() {
            let mut opener = Opener::new(version, 0, &secrets(cipher)).unwrap();
            for length in 0..64 {
                let mut record = vec![23; length];
                assert!(opener.open(&mut record).is_err());
            }
        }
        assert_eq!(record_bytes(&[23, 3, 3, 0]), Ok(None));
        assert_eq!(record_bytes(&[23, 3, 3, 0x41, 0]), Ok(Some(MAX_RECORD_BYTES)));
        assert_eq!(record_bytes(&[23, 3, 3, 0x41, 1]), Err(RecordError::Overflow));
    }

    #[test]
    fn worn_keys_say_so_and_then_refuse() {
        let aes = secrets("aes");
        let mut sealer = Sealer::new(ProtocolVersion::TLSv1_3, AES_GCM_MAX_RECORDS - 1, &aes).unwrap();
        assert!(!sealer.is_worn());
        let mut out = [0; 64];
        let mut results = (0..4).map(|_| sealer.seal(ContentType::Alert, &[], 0, 0, &mut out));
        assert!(results.by_ref().take(3).all(|result| result.is_ok()));
        assert_eq!(results.next(), Some(Err(RecordError::KeysUsedUp)));
        drop(results);
        assert!(sealer.is_worn());
    }

    proptest! {
        #[test]
        fn a_record_is_the_same_in_memory_that_held_another(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..4),
            before in any::<u8>(),
            room in 0..40_usize,
            skip in 0..20_usize,
        ) {
            let all = parts.concat().len();
            let skip = skip.min(all);
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            for (version, cipher) in both() {
                let sealer = || Sealer::new(version, 3, &secrets(cipher)).unwrap();
                let fresh = seal(&mut sealer(), &parts, skip, all - skip);
                let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
                let mut used = vec![before; fresh.len() + room];
                let written = sealer()
                    .seal(ContentType::ApplicationData, &slices, skip, all - skip, &mut used)
                    .unwrap();
                prop_assert_eq!(&used[..written], &fresh[..]);
                prop_assert!(used[written..].iter().all(|byte| *byte == before));
                // And it opens to the same, whatever follows it.
                let mut opener = Opener::new(version, 3, &secrets(cipher)).unwrap();
                let (_, range) = opener.open(&mut used[..written]).unwrap();
                prop_assert_eq!(&used[range], &parts.concat()[skip..]);
            }
        }
    }
}
