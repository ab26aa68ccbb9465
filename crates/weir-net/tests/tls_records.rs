//! The record layer against a peer that writes its records by hand: every rule of RFC 8446 sections 4.6.3, 5
//! and 6 (for TLS 1.2: RFC 5246 section 6.2) about what may arrive on an established connection, and what may
//! stand before a hello.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::kernel::KernelConnection;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion,
    version,
};
use weir_net::stream::Stream;
use weir_net::tls::certificate::CertificateStore;
use weir_net::tls::server::{CertificateSource, ServerOptions, TlsServer};

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

const CLOSE_NOTIFY: &[u8] = &[1, 0];
const UPDATE: &[u8] = &[24, 0, 0, 1, 0];
const UPDATE_BOTH: &[u8] = &[24, 0, 0, 1, 1];

/// Alerts by their names in RFC 8446 section 6.
const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;

const FULL: usize = 1 << 14;

/// How a test's peers know each other.
struct World {
    folder: PathBuf,
    server: Arc<TlsServer>,
    roots: RootCertStore,
}

static NEXT_FOLDER: AtomicU32 = AtomicU32::new(0);

impl World {
    /// A server with a certificate for `a.example` and one for `b.example`; `crt_list` names them `a.pem` and `b.pem`.
    fn new(crt_list: &str) -> Self {
        let number = NEXT_FOLDER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-net-records-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut roots = RootCertStore::empty();
        for name in ["a", "b"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![format!("{name}.example")]).unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
            std::fs::write(folder.join(format!("{name}.pem")), pem + &key.serialize_pem()).unwrap();
        }
        let list = crt_list.replace("FOLDER", &folder.display().to_string());
        std::fs::write(folder.join("list"), list).unwrap();
        let certificates = vec![CertificateSource::CrtList(folder.join("list"))];
        let options = ServerOptions { certificates, ..ServerOptions::default() };
        let server = TlsServer::new(&options, &CertificateStore::default()).unwrap().0;
        Self { folder, server, roots }
    }

    fn client(&self, version: Version, protocols: Vec<Vec<u8>>) -> UnbufferedClientConnection {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites = vec![version.suite()];
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version.protocol()])
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.enable_secret_extraction = true;
        config.alpn_protocols = protocols;
        let name = ServerName::try_from("a.example").unwrap();
        UnbufferedClientConnection::new(Arc::new(config), name).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Tls13,
    Tls13ChaCha,
    Tls12,
    Tls12ChaCha,
}

const TLS13: [Version; 2] = [Version::Tls13, Version::Tls13ChaCha];
const TLS12: [Version; 2] = [Version::Tls12, Version::Tls12ChaCha];
const ALL: [Version; 4] = [Version::Tls13, Version::Tls13ChaCha, Version::Tls12, Version::Tls12ChaCha];

impl Version {
    fn is_13(self) -> bool {
        matches!(self, Self::Tls13 | Self::Tls13ChaCha)
    }

    fn protocol(self) -> &'static SupportedProtocolVersion {
        if self.is_13() { &version::TLS13 } else { &version::TLS12 }
    }

    fn suite(self) -> SupportedCipherSuite {
        match self {
            Self::Tls13 => cipher_suite::TLS13_AES_256_GCM_SHA384,
            Self::Tls13ChaCha => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            Self::Tls12 => cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            Self::Tls12ChaCha => cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        }
    }
}

/// A record's type and content.
type Opened = (u8, Vec<u8>);

/// One direction's key, used as the RFCs say and no more cleverly.
struct Key {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Key {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Self {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => panic!("the test's suites have none of these"),
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).unwrap());
        Self { key, iv: iv.as_ref().try_into().unwrap(), sequence }
    }

    /// The sequence number mixed into the IV.
    fn nonce(&mut self) -> [u8; 12] {
        let mut nonce = self.iv;
        for (at, byte) in self.sequence.to_be_bytes().iter().enumerate() {
            nonce[at + 4] ^= byte;
        }
        self.sequence += 1;
        nonce
    }
}

/// The peer of the server: a client that has no rules.
struct Peer {
    stream: Stream,
    version: Version,
    send: Key,
    receive: Key,
    kernel: KernelConnection<ClientConnectionData>,
}

impl Peer {
    /// Shakes hands; `first` changes the first flight.
    async fn connect(
        mut stream: Stream,
        version: Version,
        mut client: UnbufferedClientConnection,
        first: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> Option<Self> {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut first = Some(first);
        loop {
            let UnbufferedStatus { discard, state, .. } = client.process_tls_records(&mut input);
            let mut wait = false;
            let mut done = false;
            match state.ok()? {
                ConnectionState::EncodeTlsData(mut message) => {
                    let mut room = vec![0; 70_000];
                    let written = message.encode(&mut room).unwrap();
                    output.extend_from_slice(&room[..written]);
                }
                ConnectionState::TransmitTlsData(sent) => {
                    let flight = std::mem::take(&mut output);
                    let flight = match first.take() {
                        Some(first) => first(flight),
                        None => flight,
                    };
                    stream.write_all(&flight).await.ok()?;
                    sent.done();
                }
                ConnectionState::BlockedHandshake => wait = true,
                ConnectionState::WriteTraffic(_) => done = true,
                other => panic!("{other:?}"),
            }
            input.drain(..discard);
            if done {
                assert!(input.is_empty(), "tickets come behind the last message");
                let (secrets, kernel) = client.dangerous_into_kernel_connection().unwrap();
                let (send, receive) = (Key::new(secrets.tx), Key::new(secrets.rx));
                return Some(Self { stream, version, send, receive, kernel });
            }
            if wait && stream.read(&mut input, 70_000).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// A record with this content.
    fn record(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let sequence = self.send.sequence;
        let mut nonce = self.send.nonce();
        let mut sealed = content.to_vec();
        let mut explicit = Vec::new();
        let (outer, aad) = if self.version.is_13() {
            sealed.push(kind);
            sealed.resize(sealed.len() + padding, 0);
            (DATA, header(DATA, sealed.len() + 16))
        } else {
            if self.version == Version::Tls12 {
                // Any number will do that was not used before (RFC 5288 section 3).
                explicit = (sequence ^ 0x55AA_0000_1234_5678).to_be_bytes().to_vec();
                nonce[..4].copy_from_slice(&self.send.iv[..4]);
                nonce[4..].copy_from_slice(&explicit);
            }
            let mut aad = sequence.to_be_bytes().to_vec();
            aad.extend(header(kind, content.len()));
            (kind, aad)
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.send.key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut sealed).unwrap();
        let mut record = header(outer, explicit.len() + sealed.len());
        record.extend(explicit);
        record.extend(sealed);
        record
    }

    /// Opens the records in `input`: type and content.
    fn open(&mut self, mut input: &[u8]) -> Vec<Opened> {
        let mut found = Vec::new();
        while !input.is_empty() {
            let (record, rest) = input.split_at(5 + usize::from(u16::from_be_bytes([input[3], input[4]])));
            input = rest;
            let sequence = self.receive.sequence;
            let mut nonce = self.receive.nonce();
            let (head, body) = record.split_at(5);
            let (mut kind, mut body, mut aad) = (head[0], body.to_vec(), head.to_vec());
            if !self.version.is_13() {
                if self.version == Version::Tls12 {
                    nonce[..4].copy_from_slice(&self.receive.iv[..4]);
                    nonce[4..].copy_from_slice(&body[..8]);
                    body.drain(..8);
                }
                aad = sequence.to_be_bytes().to_vec();
                aad.extend(header(kind, body.len() - 16));
            }
            let nonce = Nonce::assume_unique_for_key(nonce);
            let plain = self.receive.key.open_in_place(nonce, Aad::from(aad), &mut body).unwrap();
            let mut plain = plain.to_vec();
            if self.version.is_13() {
                while plain.last() == Some(&0) {
                    plain.pop();
                }
                kind = plain.pop().unwrap();
            }
            if kind == HANDSHAKE && plain.first() == Some(&24) {
                self.receive = Key::new(self.kernel.update_rx_secret().unwrap());
            }
            found.push((kind, plain));
        }
        found
    }
}

fn header(kind: u8, length: usize) -> Vec<u8> {
    let [high, low] = u16::try_from(length).unwrap().to_be_bytes();
    vec![kind, 3, 3, high, low]
}

/// What the peer does after the handshake.
enum Act {
    /// Type, content and length of the padding.
    Record(u8, Vec<u8>, usize),
    /// The same, changed before it is sent.
    Changed(fn(&mut Vec<u8>)),
    Raw(Vec<u8>),
    /// The peer's next keys.
    NewKey,
}

fn record(kind: u8, content: &[u8]) -> Act {
    Act::Record(kind, content.to_vec(), 0)
}

fn data(content: &[u8]) -> Act {
    record(DATA, content)
}

/// How the server sees the connection end.
#[derive(PartialEq, Eq, Debug)]
enum End {
    /// By a close_notify.
    Clean,
    /// By the end of the socket's data.
    Truncated,
    /// By an error: the alert that the server sends about it.
    Failed(Option<u8>),
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(std::time::Duration::from_secs(20), future).await.expect("takes too long")
    })
}

/// Reads to the end, then sends `!` if that can still be done, and closes.
async fn serve(mut stream: Stream, server: &Arc<TlsServer>) -> (Vec<u8>, End) {
    stream.start_server_tls(server, &[]);
    let mut received = Vec::new();
    let end = loop {
        match stream.read(&mut received, 100_000).await {
            Ok(0) if stream.ended_cleanly() => break End::Clean,
            Ok(0) => break End::Truncated,
            Ok(_) => {}
            Err(_) => break End::Failed(None),
        }
    };
    stream.write_all(b"!").await.ok();
    (received, end)
}

/// What the server received, how it saw the end, and what the peer got from it besides tickets.
fn play(version: Version, acts: Vec<Act>) -> (Vec<u8>, End, Vec<Opened>) {
    let world = World::new("FOLDER/a.pem\n");
    run(async {
        let (near, far) = Stream::pair().unwrap();
        let peer = async {
            let client = world.client(version, Vec::new());
            let mut peer = Peer::connect(near, version, client, |flight| flight).await.unwrap();
            for act in acts {
                let bytes = match act {
                    Act::Record(kind, content, padding) => peer.record(kind, &content, padding),
                    Act::Changed(change) => {
                        let mut record = peer.record(DATA, b"changed", 0);
                        change(&mut record);
                        record
                    }
                    Act::Raw(bytes) => bytes,
                    Act::NewKey => {
                        peer.send = Key::new(peer.kernel.update_tx_secret().unwrap());
                        continue;
                    }
                };
                // The server may have seen enough.
                peer.stream.write_all(&bytes).await.ok();
            }
            peer.stream.shutdown_write().await.ok();
            let mut input = Vec::new();
            while peer.stream.read(&mut input, 70_000).await.is_ok_and(|count| count > 0) {}
            let mut got = peer.open(&input);
            got.retain(|(kind, content)| *kind != HANDSHAKE || content.first() != Some(&4));
            got
        };
        let ((received, mut end), got) = tokio::join!(serve(far, &world.server), peer);
        if let (End::Failed(_), Some((ALERT, alert))) = (&end, got.last()) {
            assert_eq!(alert[0], 2, "an alert about an error is fatal");
            end = End::Failed(Some(alert[1]));
        }
        (received, end, got)
    })
}

#[track_caller]
fn check(versions: &[Version], acts: fn() -> Vec<Act>, received: &[u8], end: &End) {
    for version in versions {
        let (got, ended, _) = play(*version, acts());
        assert_eq!((got.len(), &ended), (received.len(), end), "{version:?}");
        assert!(got == received, "{version:?}");
    }
}

#[track_caller]
fn refused(versions: &[Version], acts: fn() -> Vec<Act>, alert: u8) {
    check(versions, acts, b"", &End::Failed(Some(alert)));
}

#[test]
fn data_of_every_length_arrives() {
    let check = |versions, acts, received: &[u8]| check(versions, acts, received, &End::Truncated);
    check(&ALL, Vec::new, b"");
    check(&ALL, || vec![data(b"a"), data(b""), data(b"bc")], b"abc");
    check(&ALL, || vec![data(&[7; FULL]), data(b"x")], &[&[7; FULL][..], b"x"].concat());
    check(&TLS13, || vec![Act::Record(DATA, b"padded".to_vec(), 100)], b"padded");
    check(&TLS13, || vec![Act::Record(DATA, Vec::new(), 100), data(b"x")], b"x");
    // The longest record there may be: with its type byte 2^14 + 1.
    check(&TLS13, || vec![Act::Record(DATA, b"x".to_vec(), FULL - 1)], b"x");
    // A record that never gets complete is nothing.
    check(&ALL, || vec![data(b"a"), Act::Raw(vec![23, 3, 3, 1, 0, 5])], b"a");
}

#[test]
fn records_that_are_too_long_are_refused() {
    refused(&TLS13, || vec![data(&[0; FULL + 1])], RECORD_OVERFLOW);
    refused(&TLS12, || vec![data(&[0; FULL + 1])], RECORD_OVERFLOW);
    refused(&TLS13, || vec![Act::Record(DATA, b"x".to_vec(), FULL)], RECORD_OVERFLOW);
    refused(&TLS13, || vec![Act::Record(DATA, Vec::new(), FULL + 1)], RECORD_OVERFLOW);
    refused(&ALL, || vec![Act::Raw(vec![23, 3, 3, 0x41, 1])], RECORD_OVERFLOW);
    refused(&ALL, || vec![Act::Raw(vec![23, 3, 3, 0xFF, 0xFF])], RECORD_OVERFLOW);
}

#[test]
fn records_of_no_use_are_refused() {
    // Inside: no type at all, change_cipher_spec, heartbeat, unknown.
    refused(&TLS13, || vec![record(0, b"")], UNEXPECTED_MESSAGE);
    refused(&TLS13, || vec![Act::Record(0, b"".to_vec(), 50)], UNEXPECTED_MESSAGE);
    refused(&ALL, || vec![record(20, &[1])], UNEXPECTED_MESSAGE);
    refused(&ALL, || vec![record(24, b"x")], UNEXPECTED_MESSAGE);
    refused(&ALL, || vec![record(99, b"x")], UNEXPECTED_MESSAGE);
    // Outside, not encrypted: after the handshake there is no place for them either.
    refused(&TLS13, || vec![Act::Raw(vec![20, 3, 3, 0, 1, 1])], UNEXPECTED_MESSAGE);
    refused(&TLS13, || vec![Act::Raw(vec![21, 3, 3, 0, 2, 1, 0])], UNEXPECTED_MESSAGE);
    refused(&TLS12, || vec![Act::Raw(vec![21, 3, 3, 0, 2, 1, 0])], BAD_RECORD_MAC);
    refused(&ALL, || vec![Act::Raw(vec![23, 3, 3, 0, 0])], BAD_RECORD_MAC);
    refused(
        &ALL,
        || vec![Act::Raw(vec![23, 3, 3, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
        BAD_RECORD_MAC,
    );
}

#[test]
fn changed_records_are_refused() {
    refused(&ALL, || vec![Act::Changed(|record| *record.last_mut().unwrap() ^= 1)], BAD_RECORD_MAC);
    refused(&ALL, || vec![Act::Changed(|record| record[5] ^= 1)], BAD_RECORD_MAC);
    refused(&ALL, || vec![Act::Changed(|record| record[20] ^= 1)], BAD_RECORD_MAC);
    refused(&TLS13, || vec![Act::Changed(|record| record[2] = 4)], BAD_RECORD_MAC);
    refused(&TLS13, || vec![Act::Changed(|record| record[0] = HANDSHAKE)], UNEXPECTED_MESSAGE);
    refused(&TLS12, || vec![Act::Changed(|record| record[0] = HANDSHAKE)], BAD_RECORD_MAC);
    // One is missing.
    let (received, end, _) =
        play(Version::Tls13, vec![data(b"a"), Act::Changed(|record| record.clear()), data(b"b")]);
    assert_eq!((&received[..], end), (&b"a"[..], End::Failed(Some(BAD_RECORD_MAC))));
}

#[test]
fn alerts_end_the_connection_in_their_way() {
    check(&ALL, || vec![data(b"a"), record(ALERT, CLOSE_NOTIFY)], b"a", &End::Clean);
    // RFC 8446 section 6.1: what comes after it is ignored, whatever it is.
    check(&ALL, || vec![record(ALERT, CLOSE_NOTIFY), data(b"late")], b"", &End::Clean);
    check(&ALL, || vec![record(ALERT, CLOSE_NOTIFY), Act::Raw(vec![0xFF; 99])], b"", &End::Clean);
    // user_canceled only announces the close_notify.
    check(&ALL, || vec![record(ALERT, &[1, 90]), record(ALERT, CLOSE_NOTIFY)], b"", &End::Clean);
    // An error is not answered with another one.
    check(&ALL, || vec![record(ALERT, &[2, 40])], b"", &End::Failed(None));
    check(&TLS13, || vec![record(ALERT, &[1, 40])], b"", &End::Failed(None));
    check(&TLS12, || vec![record(ALERT, &[1, 100]), data(b"a")], b"a", &End::Truncated);
    refused(&ALL, || vec![record(ALERT, &[])], UNEXPECTED_MESSAGE);
    refused(&TLS13, || vec![Act::Record(ALERT, Vec::new(), 9)], UNEXPECTED_MESSAGE);
    refused(&ALL, || vec![record(ALERT, &[1])], UNEXPECTED_MESSAGE);
    refused(&ALL, || vec![record(ALERT, &[1, 0, 1, 0])], UNEXPECTED_MESSAGE);
}

#[test]
fn keys_change_when_the_peer_says_so() {
    let check = |acts, received: &[u8], end: &End| check(&TLS13, acts, received, end);
    let truncated = &End::Truncated;
    check(|| vec![data(b"a"), record(HANDSHAKE, UPDATE), Act::NewKey, data(b"b")], b"ab", truncated);
    check(|| vec![record(HANDSHAKE, UPDATE_BOTH), Act::NewKey, data(b"b")], b"b", truncated);
    // In pieces.
    check(
        || vec![record(HANDSHAKE, &UPDATE[..1]), record(HANDSHAKE, &UPDATE[1..]), Act::NewKey, data(b"b")],
        b"b",
        truncated,
    );
    // The keys did change.
    check(|| vec![record(HANDSHAKE, UPDATE), data(b"b")], b"", &End::Failed(Some(BAD_RECORD_MAC)));
    refused(&TLS13, || vec![record(HANDSHAKE, &[24, 0, 0, 1, 2])], ILLEGAL_PARAMETER);
    refused(&TLS13, || vec![record(HANDSHAKE, &[24, 0, 0, 0])], DECODE_ERROR);
    refused(&TLS13, || vec![record(HANDSHAKE, &[24, 0, 0, 2, 0, 0])], DECODE_ERROR);
    // RFC 8446 section 5.1: nothing follows in the same record.
    refused(&TLS13, || vec![record(HANDSHAKE, &[UPDATE, UPDATE].concat())], UNEXPECTED_MESSAGE);
    refused(&TLS13, || vec![record(HANDSHAKE, &[UPDATE, &[24]].concat())], UNEXPECTED_MESSAGE);
    refused(&TLS12, || vec![record(HANDSHAKE, UPDATE)], UNEXPECTED_MESSAGE);
}

#[test]
fn a_wish_for_new_keys_is_answered_once() {
    let both = || [record(HANDSHAKE, UPDATE_BOTH), Act::NewKey];
    for count in [1, 2, 5] {
        let acts = (0..count).flat_map(|_| both()).collect();
        let (_, end, got) = play(Version::Tls13, acts);
        assert_eq!(end, End::Truncated);
        let answers =
            got.iter().filter(|(kind, content)| (*kind, &content[..]) == (HANDSHAKE, UPDATE)).count();
        // As many as were asked for, or fewer when several wishes came before an answer was sent.
        assert!((1..=count).contains(&answers), "{answers} for {count}");
        // And what follows is sealed with the new keys.
        assert_eq!(got.last(), Some(&(DATA, b"!".to_vec())));
    }
}

#[test]
fn records_that_carry_nothing_are_counted() {
    fn acts(count: usize, one: fn() -> Vec<Act>) -> Vec<Act> {
        (0..count).flat_map(|_| one()).chain([data(b"x")]).collect()
    }
    let update = || vec![record(HANDSHAKE, UPDATE), Act::NewKey];
    let play = |version, acts| {
        let (received, end, _) = play(version, acts);
        (received, end)
    };
    let arrived = || (b"x".to_vec(), End::Truncated);
    let stopped = || (Vec::new(), End::Failed(Some(UNEXPECTED_MESSAGE)));
    for version in ALL {
        assert_eq!(play(version, acts(64, || vec![data(b"")])), arrived());
        assert_eq!(play(version, acts(65, || vec![data(b"")])), stopped());
    }
    assert_eq!(play(Version::Tls13, acts(64, update)), arrived());
    assert_eq!(play(Version::Tls13, acts(65, update)), stopped());
}

#[test]
fn messages_that_have_no_place_are_refused_at_once() {
    refused(&ALL, || vec![record(HANDSHAKE, &[])], UNEXPECTED_MESSAGE);
    refused(&TLS13, || vec![Act::Record(HANDSHAKE, Vec::new(), 9)], UNEXPECTED_MESSAGE);
    // Ticket, ClientHello (negotiating again), Finished, unknown: from their first bytes on.
    refused(&ALL, || vec![record(HANDSHAKE, &[4, 0, 0xFF, 0])], UNEXPECTED_MESSAGE);
    refused(&ALL, || vec![record(HANDSHAKE, &[1, 0, 0, 99])], UNEXPECTED_MESSAGE);
    refused(&ALL, || vec![record(HANDSHAKE, &[20, 0, 0, 12])], UNEXPECTED_MESSAGE);
    refused(&ALL, || vec![record(HANDSHAKE, &[99, 0, 0, 0])], UNEXPECTED_MESSAGE);
    refused(&TLS13, || vec![record(HANDSHAKE, &[24, 0xFF, 0xFF, 0xFF])], DECODE_ERROR);
    // RFC 8446 section 5.1: nothing stands between the pieces of a message.
    refused(&TLS13, || vec![record(HANDSHAKE, &UPDATE[..2]), data(b"x")], UNEXPECTED_MESSAGE);
    refused(&TLS13, || vec![record(HANDSHAKE, &UPDATE[..2]), data(b"")], UNEXPECTED_MESSAGE);
    refused(
        &TLS13,
        || vec![record(HANDSHAKE, &UPDATE[..2]), record(ALERT, CLOSE_NOTIFY)],
        UNEXPECTED_MESSAGE,
    );
}

/// Whether a client without a certificate gets through the handshake when its first flight is changed so.
fn gets_in(
    crt_list: &str,
    version: Version,
    change: fn(Vec<u8>) -> Vec<u8>,
    protocols: Vec<Vec<u8>>,
) -> bool {
    let world = World::new(crt_list);
    run(async {
        let (near, far) = Stream::pair().unwrap();
        let peer = async {
            let client = world.client(version, protocols);
            let mut peer = Peer::connect(near, version, client, change).await?;
            let request = peer.record(DATA, b"?", 0);
            peer.stream.write_all(&request).await.ok()?;
            peer.stream.shutdown_write().await.ok()
        };
        let ((received, _), _) = tokio::join!(serve(far, &world.server), peer);
        received == b"?"
    })
}

/// The message of a flight of plain records, in records of another length.
fn cut(flight: &[u8], length: usize) -> Vec<u8> {
    let (mut message, mut rest) = (Vec::new(), flight);
    while let [_, _, _, high, low, after @ ..] = rest {
        let (body, next) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        message.extend_from_slice(body);
        rest = next;
    }
    message
        .chunks(length)
        .flat_map(|chunk| [header(HANDSHAKE, chunk.len()), chunk.to_vec()].concat())
        .collect()
}

#[test]
fn a_hello_is_answered_by_what_was_chosen_for_it_or_not_at_all() {
    let open = "FOLDER/a.pem\nFOLDER/b.pem\n";
    // Without a certificate of its own a client may not reach a.example.
    let closed = "FOLDER/b.pem\nFOLDER/a.pem [verify required ca-file FOLDER/b.pem] a.example\n";
    let check = |change: fn(Vec<u8>) -> Vec<u8>, protocols: &[Vec<u8>], expected: bool| {
        for version in [Version::Tls13, Version::Tls12] {
            assert_eq!(gets_in(open, version, change, protocols.to_vec()), expected, "{version:?}");
            assert!(
                !gets_in(closed, version, change, protocols.to_vec()),
                "{version:?} past the certificate"
            );
        }
    };
    check(|flight| flight, &[], true);
    check(|flight| cut(&flight, 50), &[], true);
    // More records, or a longer message, than is looked at: one of 20 kB is taken, one of more than 64 kB is not.
    check(|flight| cut(&flight, 1), &[], false);
    let many: Vec<Vec<u8>> = (0..99_u8).map(|number| vec![b'a' + number % 26; 200]).collect();
    check(|flight| flight, &many, true);
    let too_long = |mut flight: Vec<u8>| {
        flight[6] = 1;
        flight
    };
    check(too_long, &many, false);
    // A warning, or a record that has no place, before it.
    check(|flight| [&[21, 3, 1, 0, 2, 1, 100][..], &flight].concat(), &[], false);
    check(|flight| [&[20, 3, 1, 0, 1, 1][..], &flight].concat(), &[], false);
    check(|flight| [&[23, 3, 1, 0, 1, 1][..], &flight].concat(), &[], false);
    // A record longer than plaintext may be.
    check(|flight| cut(&flight, 17_000), &many[..85], false);
}

#[test]
fn what_follows_the_handshake_at_once_is_not_lost() {
    // rustls must not see it: it would keep the answer to the wish for new keys to itself.
    let acts = || vec![record(HANDSHAKE, UPDATE_BOTH), Act::NewKey, data(b"x"), record(ALERT, CLOSE_NOTIFY)];
    let (received, end, got) = play(Version::Tls13, acts());
    assert_eq!((&received[..], end), (&b"x"[..], End::Clean));
    assert!(got.contains(&(HANDSHAKE, UPDATE.to_vec())), "{got:?}");
}
