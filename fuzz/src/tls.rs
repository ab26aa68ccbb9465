//! TLS: a server of this project against bytes that come before a handshake is complete, and against records
//! that a peer with the right keys wrote by hand.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::kernel::KernelConnection;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{ClientConfig, ConnectionTrafficSecrets, RootCertStore, version};
use tokio::runtime::Runtime;
use weir_net::stream::Stream;
use weir_net::tls::certificate::CertificateStore;
use weir_net::tls::server::{CertificateSource, ServerOptions, TlsServer};

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// The longest plaintext of a record.
const FULL: usize = 1 << 14;

/// Records in a row that may carry nothing.
const MAX_BARREN: usize = 64;

/// What lasts from input to input.
struct World {
    runtime: Runtime,
    server: Arc<TlsServer>,
    client: [Arc<ClientConfig>; 2],
}

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

fn with_world(run: impl FnOnce(&World)) {
    WORLD.with(|world| run(world.get_or_init(World::new)));
}

impl World {
    fn new() -> Self {
        let file = std::env::temp_dir().join(format!("weir-fuzz-{}.pem", std::process::id()));
        let key = KeyPair::generate().expect("keys are made");
        let params = CertificateParams::new(vec!["a.example".to_owned()]).expect("it is a name");
        let pem = params.self_signed(&key).expect("it is signed").pem();
        std::fs::write(&file, format!("{pem}{}", key.serialize_pem())).expect("the folder can be written");
        let world = Self::with_certificate(&pem, &file);
        std::fs::remove_file(&file).expect("it was written");
        world
    }

    fn with_certificate(pem: &str, file: &Path) -> Self {
        let certificates = vec![CertificateSource::Crt(file.to_owned())];
        let options = ServerOptions { certificates, keep_hello: true, ..ServerOptions::default() };
        let server = TlsServer::new(&options, &CertificateStore::default()).expect("it is a certificate").0;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("it is one")).expect("it is one");
        let client = [
            (&version::TLS13, cipher_suite::TLS13_AES_256_GCM_SHA384),
            (&version::TLS12, cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
        ]
        .map(|(version, suite)| {
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            provider.cipher_suites = vec![suite];
            let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(&[version])
                .expect("the suite is one of this version")
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            config.enable_secret_extraction = true;
            // The handshake is always the full one.
            config.resumption = rustls::client::Resumption::disabled();
            Arc::new(config)
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
        Self { runtime, server, client }
    }
}

/// The first bytes of a connection; the first byte says how much of the rest is there from the start.
pub fn tls_hello(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else { return };
    with_world(|world| {
        let cut = bytes.len() * usize::from(*cut) / 255;
        let [parts, whole] = [cut, bytes.len()].map(|fed| {
            world.runtime.block_on(async {
                let (mut near, mut far) = Stream::pair().expect("sockets are made");
                far.start_server_tls(&world.server, &bytes[..fed]);
                near.write_all(&bytes[fed..]).await.expect("it fits into the socket's buffer");
                near.shutdown_write().await.expect("it is connected");
                let error = far.handshake().await.expect_err("nobody guesses a Finished message");
                error.kind()
            })
        });
        assert_eq!(parts, whole, "a hello depends on how it is cut");
    });
}

/// One direction's key.
struct Key {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Key {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Self {
        let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = secrets else {
            panic!("it was the only suite")
        };
        let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("it has the right length");
        let iv = iv.as_ref().try_into().expect("it has the right length");
        Self { key: LessSafeKey::new(key), iv, sequence }
    }

    /// A record as RFC 8446 section 5.2, or RFC 5288 section 3 with RFC 5246 section 6.2.3.3, has it.
    fn seal(&mut self, tls13: bool, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let mut nonce = self.iv;
        for (byte, sequence) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        let mut sealed = content.to_vec();
        let (outer, explicit, aad) = if tls13 {
            sealed.push(kind);
            sealed.resize(sealed.len() + padding, 0);
            (DATA, Vec::new(), header(DATA, sealed.len() + 16))
        } else {
            let aad = [&self.sequence.to_be_bytes()[..], &header(kind, content.len())].concat();
            (kind, nonce[4..].to_vec(), aad)
        };
        self.sequence += 1;
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut sealed).expect("it is short enough");
        [header(outer, explicit.len() + sealed.len()), explicit, sealed].concat()
    }
}

fn header(kind: u8, length: usize) -> Vec<u8> {
    let [high, low] = (length as u16).to_be_bytes();
    vec![kind, 3, 3, high, low]
}

/// Shakes hands and gives the keys.
async fn connect(
    stream: &mut Stream,
    config: &Arc<ClientConfig>,
) -> (Key, KernelConnection<ClientConnectionData>) {
    let name = ServerName::try_from("a.example").expect("it is a name");
    let mut client = UnbufferedClientConnection::new(Arc::clone(config), name).expect("it starts");
    let (mut input, mut output) = (Vec::new(), Vec::new());
    loop {
        let UnbufferedStatus { discard, state, .. } = client.process_tls_records(&mut input);
        let mut wait = false;
        match state.expect("the server is right") {
            ConnectionState::EncodeTlsData(mut message) => {
                let mut room = vec![0; FULL];
                let written = message.encode(&mut room).expect("it fits");
                output.extend_from_slice(&room[..written]);
            }
            ConnectionState::TransmitTlsData(sent) => {
                stream.write_all(&std::mem::take(&mut output)).await.expect("the server reads");
                sent.done();
            }
            ConnectionState::BlockedHandshake => wait = true,
            ConnectionState::WriteTraffic(_) => {
                let (secrets, kernel) = client.dangerous_into_kernel_connection().expect("it is complete");
                return (Key::new(secrets.tx), kernel);
            }
            other => panic!("{other:?}"),
        }
        input.drain(..discard);
        if wait {
            assert!(stream.read(&mut input, 1 << 16).await.expect("the server answers") > 0);
        }
    }
}

/// What the rules of RFC 8446 sections 4.6.3, 5 and 6 make of a connection's records.
struct Model {
    tls13: bool,
    received: Vec<u8>,
    message: Vec<u8>,
    barren: usize,
    end: End,
}

#[derive(PartialEq, Eq, Debug)]
enum End {
    Open,
    Clean,
    Failed,
}

impl Model {
    /// Takes a record; true when the peer's keys change after it.
    fn take(&mut self, kind: u8, content: &[u8], padding: usize) -> bool {
        if self.end != End::Open {
            return false;
        }
        let padded = if self.tls13 { content.len() + padding } else { content.len() };
        let empty = content.is_empty() && kind != DATA;
        let split = !self.message.is_empty() && kind != HANDSHAKE;
        if padded > FULL || empty || split || !(ALERT..=DATA).contains(&kind) {
            self.end = End::Failed;
            return false;
        }
        self.barren = if kind == DATA && !content.is_empty() { 0 } else { self.barren + 1 };
        if self.barren > MAX_BARREN {
            self.end = End::Failed;
            return false;
        }
        match kind {
            DATA => self.received.extend_from_slice(content),
            ALERT => match content {
                [_, 0] => self.end = End::Clean,
                [_, 90] => {}
                [1, _] if !self.tls13 => {}
                _ => self.end = End::Failed,
            },
            _ => return self.take_message(content),
        }
        false
    }

    fn take_message(&mut self, content: &[u8]) -> bool {
        self.message.extend_from_slice(content);
        while let [kind, a, b, c, ..] = self.message[..] {
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            match (self.tls13, kind) {
                (true, 24) if length <= 1 => {}
                (false, 0) if length == 0 => {
                    self.message.drain(..4);
                    continue;
                }
                _ => {
                    self.end = End::Failed;
                    return false;
                }
            }
            match self.message[4..] {
                [] if length == 1 => return false,
                [0 | 1] if length == 1 => {
                    self.message.clear();
                    return true;
                }
                _ => {
                    self.end = End::Failed;
                    return false;
                }
            }
        }
        false
    }
}

/// Records on an established connection. The first byte chooses the version; then each record is its type,
/// its length, its padding, and its content. Type 0 stands for a record that is changed on its way.
pub fn tls_records(data: &[u8]) {
    let Some((choice, mut script)) = data.split_first() else { return };
    let tls13 = choice % 2 == 0;
    with_world(|world| {
        world.runtime.block_on(async {
            let (mut near, mut far) = Stream::pair().expect("sockets are made");
            far.start_server_tls(&world.server, &[]);
            let mut model =
                Model { tls13, received: Vec::new(), message: Vec::new(), barren: 0, end: End::Open };
            let sending = async {
                let (mut key, mut kernel) = connect(&mut near, &world.client[usize::from(!tls13)]).await;
                while let &[kind, length, padding, ref rest @ ..] = script {
                    let (content, rest) = rest.split_at(usize::from(length).min(rest.len()));
                    script = rest;
                    // The largest numbers stand for lengths around the limit.
                    let content = match length {
                        250.. => &vec![7; FULL - 253 + usize::from(length)],
                        _ => content,
                    };
                    let padding = match padding {
                        250.. => (FULL - 253 + usize::from(padding)).saturating_sub(content.len()),
                        _ => usize::from(padding),
                    };
                    let mut record;
                    if kind == 0 {
                        record = key.seal(tls13, DATA, content, padding);
                        let at = usize::from(padding as u8) % (record.len() - 5) + 5;
                        record[at] ^= 1;
                        if model.end == End::Open {
                            model.end = End::Failed;
                        }
                    } else {
                        record = key.seal(tls13, kind, content, padding);
                        if model.take(kind, content, padding) {
                            key = Key::new(kernel.update_tx_secret().expect("it is TLS 1.3"));
                        }
                    }
                    if near.write_all(&record).await.is_err() {
                        break;
                    }
                }
                near.shutdown_write().await.ok();
                // Answers are read so that the server is never held up.
                let mut answers = Vec::new();
                while near.read(&mut answers, 1 << 16).await.is_ok_and(|count| count > 0) {}
                model
            };
            let receiving = async move {
                let mut received = Vec::new();
                let end = loop {
                    match far.read(&mut received, 1 << 16).await {
                        Ok(0) if far.ended_cleanly() => break End::Clean,
                        Ok(0) => break End::Open,
                        Ok(_) => {}
                        Err(_) => break End::Failed,
                    }
                };
                (received, end)
            };
            let (model, (received, end)) = tokio::join!(sending, receiving);
            assert_eq!(end, model.end);
            assert!(received == model.received, "{} bytes for {}", received.len(), model.received.len());
        });
    });
}
