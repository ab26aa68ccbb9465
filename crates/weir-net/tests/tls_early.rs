//! Early data: what a bind line with `allow-0rtt` takes, what it never takes twice, and who learns of it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Waker};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use weir_net::Stream;
use weir_net::tls::certificate::CertificateStore;
use weir_net::tls::server::{CertificateSource, LineOptions, ServerOptions, TlsServer};

/// Most early data of the servers here.
const LIMIT: u32 = 1000;

/// Clients of one server, which remember its sessions.
struct World {
    server: Arc<TlsServer>,
    config: Arc<ClientConfig>,
}

impl World {
    fn new(name: &str, line: LineOptions, options: ServerOptions) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-net-early-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(Vec::new()).unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        let issuer = rcgen::Issuer::new(params, key);
        let own = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let certificate = params.signed_by(&own, &issuer).unwrap();
        let file: PathBuf = folder.join("a.pem");
        std::fs::write(&file, format!("{}{}", certificate.pem(), own.serialize_pem())).unwrap();
        let options = ServerOptions {
            certificates: vec![CertificateSource::Crt(file)],
            line,
            max_early_data_bytes: LIMIT,
            ..options
        };
        let server = TlsServer::new(&options, &CertificateStore::default()).unwrap().0;
        std::fs::remove_dir_all(&folder).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.der().to_vec())).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.enable_early_data = true;
        Self { server, config: Arc::new(config) }
    }

    fn allowing(name: &str) -> Self {
        Self::new(
            name,
            LineOptions { allow_early_data: true, ..LineOptions::default() },
            ServerOptions::default(),
        )
    }

    fn client(&self) -> ClientConnection {
        ClientConnection::new(Arc::clone(&self.config), ServerName::try_from("a.example").unwrap()).unwrap()
    }

    /// The two ends of a connection; the client's is in clear, its bytes are made by hand.
    fn connection(&self) -> (Stream, Stream) {
        let (near, mut far) = Stream::pair().unwrap();
        far.start_server_tls(&self.server, &[]);
        (near, far)
    }

    /// A whole connection, so that there is a session to go on with.
    async fn prepare(&self) {
        let (mut near, mut far) = self.connection();
        let mut client = self.client();
        let (shaken, ()) = tokio::join!(far.handshake(), complete(&mut near, &mut client));
        shaken.unwrap();
        // The tickets travel with the first data.
        far.write_all(b"!").await.unwrap();
        receive(&mut near, &mut client).await;
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(std::time::Duration::from_secs(20), future).await.expect("takes too long")
    })
}

/// What a client has to send.
fn flight(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

async fn receive(near: &mut Stream, client: &mut ClientConnection) {
    let mut bytes = Vec::new();
    near.read(&mut bytes, 65536).await.unwrap();
    let mut bytes = &bytes[..];
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().unwrap();
    }
}

async fn complete(near: &mut Stream, client: &mut ClientConnection) {
    while client.is_handshaking() || client.wants_write() {
        let bytes = flight(client);
        near.write_all(&bytes).await.unwrap();
        if client.is_handshaking() {
            receive(near, client).await;
        }
    }
}

/// The first flight of a client with early data.
fn early_flight(client: &mut ClientConnection, data: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    client.early_data().expect("there is a session to go on with").write_all(data).unwrap();
    flight(client)
}

#[test]
fn early_data_is_read_before_the_handshake_is_complete() {
    let world = World::allowing("read");
    run(async {
        world.prepare().await;
        let (mut near, mut far) = world.connection();
        let mut client = world.client();
        near.write_all(&early_flight(&mut client, b"early data")).await.unwrap();
        far.handshake_or_early().await.unwrap();
        let info = far.tls().unwrap();
        assert!(info.is_resumed() && info.version() == "TLSv1.3" && !info.cipher().is_empty());
        let handshake = Arc::clone(info.early().unwrap());
        assert!(handshake.is_pending());
        let mut read = Vec::new();
        far.read(&mut read, 5).await.unwrap();
        far.read(&mut read, 100).await.unwrap();
        assert_eq!(read, b"early data");
        // Nothing is sent to somebody who may only have seen the data before.
        let mut cx = Context::from_waker(Waker::noop());
        assert!(far.poll_write(&mut cx, b"answer").is_pending());
        assert!(handshake.poll_complete(&mut cx).is_pending() && handshake.is_pending());
        receive(&mut near, &mut client).await;
        complete(&mut near, &mut client).await;
        far.write_all(b"answer").await.unwrap();
        assert!(!handshake.is_pending());
        assert!(poll_fn(|cx| handshake.poll_complete(cx)).await);
        assert!(client.is_early_data_accepted());
        use std::io::{Read as _, Write as _};
        let mut answer = [0; 6];
        receive(&mut near, &mut client).await;
        client.reader().read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
        client.writer().write_all(b"more").unwrap();
        near.write_all(&flight(&mut client)).await.unwrap();
        read.clear();
        far.read(&mut read, 100).await.unwrap();
        assert_eq!(read, b"more");
    });
}

#[test]
fn a_copy_of_early_data_is_refused() {
    let world = World::allowing("copy");
    run(async {
        world.prepare().await;
        let mut client = world.client();
        let sent = early_flight(&mut client, b"pay");
        let (mut near, mut far) = world.connection();
        near.write_all(&sent).await.unwrap();
        far.handshake_or_early().await.unwrap();
        // The same bytes again, while the first connection lives and after it.
        for _ in 0..2 {
            let (mut near, mut far) = world.connection();
            near.write_all(&sent).await.unwrap();
            near.shutdown_write().await.unwrap();
            assert!(far.handshake_or_early().await.is_err());
            assert!(far.handshake_info().unwrap().early().is_none());
        }
        drop((near, far));
        let (mut near, mut far) = world.connection();
        near.write_all(&sent).await.unwrap();
        near.shutdown_write().await.unwrap();
        assert!(far.handshake_or_early().await.is_err());
    });
}

#[test]
fn a_client_that_never_proves_itself_is_a_failed_handshake() {
    let world = World::allowing("gone");
    run(async {
        world.prepare().await;
        let (mut near, mut far) = world.connection();
        near.write_all(&early_flight(&mut world.client(), b"early")).await.unwrap();
        far.handshake_or_early().await.unwrap();
        let handshake = Arc::clone(far.tls().unwrap().early().unwrap());
        drop(near);
        assert!(far.handshake().await.is_err());
        drop(far);
        assert!(!poll_fn(|cx| handshake.poll_complete(cx)).await);
        assert!(handshake.is_pending(), "its data never becomes safe");
    });
}

#[test]
fn lines_that_take_no_early_data() {
    let allowing = || LineOptions { allow_early_data: true, ..LineOptions::default() };
    let check = |name: &str, line: LineOptions, options: ServerOptions, resumes: bool| {
        let world = World::new(name, line, options);
        run(async {
            world.prepare().await;
            let (mut near, mut far) = world.connection();
            let mut client = world.client();
            assert!(client.early_data().is_none(), "{name}");
            let (shaken, ()) = tokio::join!(far.handshake_or_early(), complete(&mut near, &mut client));
            shaken.unwrap();
            let info = far.tls().unwrap();
            assert_eq!((info.early().is_some(), info.is_resumed()), (false, resumes), "{name}");
        });
    };
    check("none", LineOptions::default(), ServerOptions::default(), true);
    let no_sessions = ServerOptions { cached_sessions: Some(0), ..ServerOptions::default() };
    check("no-sessions", allowing(), no_sessions, false);
}

#[test]
fn early_data_is_bounded() {
    let world = World::allowing("bounded");
    run(async {
        world.prepare().await;
        // The client keeps to what the ticket says, and no more than that is taken.
        let (mut near, mut far) = world.connection();
        let mut client = world.client();
        use std::io::Write as _;
        let taken = client.early_data().unwrap().write(&[7; 5000]).unwrap();
        assert_eq!(taken, LIMIT as usize);
        near.write_all(&flight(&mut client)).await.unwrap();
        far.handshake_or_early().await.unwrap();
        let mut read = Vec::new();
        while read.len() < taken {
            far.read(&mut read, 300).await.unwrap();
        }
        assert_eq!(read, vec![7; taken]);
    });
}
