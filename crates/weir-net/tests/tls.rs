//! TLS connections from end to end: this crate's client against this crate's server over a socket pair.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use weir_net::stream::Stream;
use weir_net::tls::algorithms::{Algorithms, Version};
use weir_net::tls::certificate::{CertificateStore, Loaded};
use weir_net::tls::client::{ClientOptions, TlsClient};
use weir_net::tls::server::{CertificateSource, LineOptions, ServerOptions, Tickets, TlsServer};
use weir_net::tls::tickets::TicketKeys;
use weir_net::tls::trust_files::TrustItem;
use weir_net::tls::verify::{IgnoreErrors, Leniency, Verify};

static NEXT_FOLDER: AtomicU32 = AtomicU32::new(0);

/// An authority and a folder with what it signed.
struct World {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Drop for World {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

impl World {
    fn new() -> Self {
        let number = NEXT_FOLDER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-net-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, format!("Test authority {number}"));
        let certificate = params.self_signed(&key).unwrap();
        let world = Self { folder, issuer: Issuer::new(params, key) };
        world.write("ca.pem", &certificate.pem());
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn sign(&self, file: &str, names: &[&str], common_name: &str) -> Certificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.serial_number = Some(SerialNumber::from(77_u64));
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(file, &format!("{}{}", certificate.pem(), key.serialize_pem()));
        certificate
    }

    fn server_options(&self, files: &[&str]) -> ServerOptions {
        ServerOptions {
            certificates: files.iter().map(|file| CertificateSource::Crt(self.path(file))).collect(),
            ..ServerOptions::default()
        }
    }

    fn server(&self, options: &ServerOptions) -> Arc<TlsServer> {
        TlsServer::new(options, &CertificateStore::default()).unwrap().0
    }

    fn trusting(&self) -> ClientOptions {
        ClientOptions { verify: true, ca_file: Some(self.path("ca.pem")), ..ClientOptions::default() }
    }
}

fn client(options: &ClientOptions) -> Arc<TlsClient> {
    TlsClient::new(options).unwrap().0
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(std::time::Duration::from_secs(20), future).await.expect("takes too long")
    })
}

fn pair(server: &Arc<TlsServer>, client: &TlsClient, name: Option<&str>) -> (Stream, Stream) {
    let (mut near, mut far) = Stream::pair().unwrap();
    near.start_client_tls(client, name, None).unwrap();
    far.start_server_tls(server, &[]);
    (near, far)
}

/// Both handshakes, and one byte each way so that tickets have arrived too.
async fn shake(near: &mut Stream, far: &mut Stream) -> std::io::Result<()> {
    let client = async {
        near.handshake().await?;
        near.write_all(b"?").await?;
        let mut buf = Vec::new();
        near.read(&mut buf, 1).await?;
        Ok::<_, std::io::Error>(())
    };
    let server = async {
        far.handshake().await?;
        let mut buf = Vec::new();
        far.read(&mut buf, 1).await?;
        far.write_all(b"!").await
    };
    let (client, server) = tokio::join!(client, server);
    client.and(server)
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

async fn send(stream: &mut Stream, data: &[u8]) {
    stream.handshake().await.unwrap();
    stream.write_all(data).await.unwrap();
    stream.shutdown_write().await.unwrap();
}

async fn receive(stream: &mut Stream, max: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut buf = Vec::with_capacity(max);
        stream.read_ready().await.unwrap();
        match stream.read(&mut buf, max).await.unwrap() {
            0 => return all,
            count => assert_eq!(count, buf.len()),
        }
        assert!(buf.len() <= max);
        all.extend_from_slice(&buf);
    }
}

fn only(version: Version, ciphers: &str) -> Algorithms {
    let mut algorithms = Algorithms { min_version: version, max_version: version, ..Algorithms::default() };
    match version {
        Version::Tls13 => algorithms.ciphersuites = Some(ciphers.to_owned()),
        _ => algorithms.ciphers = Some(ciphers.to_owned()),
    }
    algorithms
}

#[test]
fn data_flows_with_every_cipher_both_ways_in_every_size() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "a");
    let check = |version: Version, cipher: &str, expected: &str| {
        let options = ClientOptions { algorithms: only(version, cipher), ..world.trusting() };
        let server = world.server(&world.server_options(&["s.pem"]));
        run(async {
            for (bytes, max) in
                [(0, 10), (1, 1), (9000, 4096), (16_384, 100_000), (400_000, 7001), (3_000_000, 65_536)]
            {
                let (mut near, mut far) = pair(&server, &client(&options), Some("a.example"));
                let sent = data(bytes);
                let up = async {
                    send(&mut near, &sent).await;
                    receive(&mut near, max).await
                };
                let down = async {
                    let got = receive(&mut far, max).await;
                    assert!(far.ended_cleanly());
                    send(&mut far, &got).await;
                };
                let (echoed, ()) = tokio::join!(up, down);
                assert_eq!(echoed.len(), bytes);
                assert!(echoed == sent);
                for end in [&near, &far] {
                    let info = end.tls().unwrap();
                    assert_eq!((info.version(), info.cipher()), (expected, cipher));
                    assert_eq!(info.server_name(), Some("a.example"));
                    // Groups after quantum computers are for TLS 1.3 only.
                    let group = if version == Version::Tls13 { "X25519MLKEM768" } else { "X25519" };
                    assert_eq!(info.group(), Some(group));
                }
            }
        });
    };
    check(Version::Tls13, "TLS_AES_256_GCM_SHA384", "TLSv1.3");
    check(Version::Tls13, "TLS_AES_128_GCM_SHA256", "TLSv1.3");
    check(Version::Tls13, "TLS_CHACHA20_POLY1305_SHA256", "TLSv1.3");
    check(Version::Tls12, "ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2");
    check(Version::Tls12, "ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2");
    check(Version::Tls12, "ECDHE-ECDSA-CHACHA20-POLY1305", "TLSv1.2");
}

#[test]
fn writes_gather_parts() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "a");
    let server = world.server(&world.server_options(&["s.pem"]));
    run(async {
        let (mut near, mut far) = pair(&server, &client(&world.trusting()), None);
        shake(&mut near, &mut far).await.unwrap();
        let body = data(20_000);
        let parts = [IoSlice::new(b"head "), IoSlice::new(&[]), IoSlice::new(&body)];
        let count = std::future::poll_fn(|cx| near.poll_write_vectored(cx, &parts)).await.unwrap();
        assert_eq!(count, 20_005);
        near.flush().await.unwrap();
        near.shutdown_write().await.unwrap();
        let got = receive(&mut far, 50_000).await;
        assert_eq!(&got[..5], b"head ");
        assert!(got[5..] == body);
    });
}

#[test]
fn records_are_as_short_as_asked_for() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "a");
    let options = ServerOptions { max_record_bytes: Some(1000), ..world.server_options(&["s.pem"]) };
    let server = world.server(&options);
    run(async {
        let (mut near, mut far) = pair(&server, &client(&world.trusting()), None);
        shake(&mut near, &mut far).await.unwrap();
        let sent = data(50_000);
        let (got, ()) = tokio::join!(receive(&mut near, 9000), send(&mut far, &sent));
        assert!(got == sent);
    });
}

#[test]
fn curves_go_before_the_hybrid_group_of_the_default() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "a");
    let check = |of_server: Option<&str>, of_client: Option<&str>, expected: &str| {
        let curves =
            |list: Option<&str>| Algorithms { curves: list.map(str::to_owned), ..Algorithms::default() };
        let mut options = world.server_options(&["s.pem"]);
        options.line.algorithms = curves(of_server);
        let server = world.server(&options);
        let options = ClientOptions { algorithms: curves(of_client), ..world.trusting() };
        run(async {
            let (mut near, mut far) = pair(&server, &client(&options), Some("a.example"));
            shake(&mut near, &mut far).await.unwrap();
            let groups = [&near, &far].map(|end| end.tls().unwrap().group());
            assert_eq!(groups, [Some(expected); 2], "{of_server:?} {of_client:?}");
        });
    };
    check(None, None, "X25519MLKEM768");
    check(Some("X25519"), None, "X25519");
    check(Some("P-256"), None, "secp256r1");
    check(None, Some("P-384:X25519"), "secp384r1");
    check(Some("X25519:X25519MLKEM768"), Some("X25519MLKEM768"), "X25519MLKEM768");
}

/// Whether a socket has something to read; nothing is taken from it.
fn has_received(stream: &Stream) -> bool {
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    rustix::net::recv(stream, &mut [0_u8; 1][..], flags).is_ok()
}

#[test]
fn a_clients_last_message_is_answered_before_its_request_comes() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "a");
    let server = world.server(&world.server_options(&["s.pem"]));
    let client = client(&world.trusting());
    run(async {
        let (mut near, mut far) = pair(&server, &client, Some("a.example"));
        let client = async {
            near.handshake().await.unwrap();
            near.flush().await.unwrap();
            // Behind the handshake only session tickets can come: the server has got no request.
            near.read_ready().await.unwrap();
        };
        let server = async {
            far.handshake().await.unwrap();
            far.read(&mut Vec::new(), 1).await
        };
        tokio::select! {
            () = client => {}
            read = server => panic!("{read:?}"),
        }
    });
    // A request that is there already is answered in the same packet as the tickets.
    run(async {
        let (mut near, mut far) = pair(&server, &client, Some("a.example"));
        let client = async {
            near.handshake().await.unwrap();
            near.write_all(b"?").await.unwrap();
        };
        let server = async {
            far.handshake().await.unwrap();
            far.read(&mut Vec::new(), 1).await.unwrap();
        };
        tokio::join!(client, server);
        assert!(!has_received(&near));
        far.write_all(b"!").await.unwrap();
        assert!(has_received(&near));
    });
}

#[test]
fn sessions_are_resumed() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "a");
    let key = |seed: u8| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode([seed; 80])
    };
    let keys = TicketKeys::from_text(&[key(1), key(2), key(3)].join("\n")).unwrap();
    let check = |version: Version, tickets: Tickets, no_resumption: bool, expected: bool| {
        let mut algorithms = Algorithms { max_version: version, ..Algorithms::default() };
        algorithms.min_version = version;
        let server = world.server(&ServerOptions { tickets, ..world.server_options(&["s.pem"]) });
        let client = client(&ClientOptions { algorithms, no_resumption, ..world.trusting() });
        run(async {
            for round in 0..4 {
                let (mut near, mut far) = pair(&server, &client, Some("a.example"));
                shake(&mut near, &mut far).await.unwrap();
                for end in [&near, &far] {
                    let info = end.tls().unwrap();
                    assert_eq!(info.is_resumed(), expected && round > 0, "{version:?} round {round}");
                    assert_eq!(info.server_name(), Some("a.example"));
                }
                assert!(near.looks_alive());
            }
        });
    };
    let keys = Tickets::Keys(Arc::new(keys));
    for version in [Version::Tls12, Version::Tls13] {
        check(version, Tickets::Internal, false, true);
        check(version, keys.clone(), false, true);
        check(version, Tickets::Off, false, true);
        check(version, Tickets::Internal, true, false);
    }
}

#[test]
fn servers_are_verified() {
    let world = World::new();
    world.sign("s.pem", &["a.example", "*.b.example"], "common.example");
    let other = World::new();
    let server = world.server(&world.server_options(&["s.pem"]));
    let check = |options: ClientOptions, name: Option<&str>, expected: bool| {
        run(async {
            let (mut near, mut far) = pair(&server, &client(&options), name);
            let result = shake(&mut near, &mut far).await;
            assert_eq!(result.is_ok(), expected, "{options:?} {name:?}: {result:?}");
        });
    };
    let host = |host: &str| ClientOptions { verify_host: Some(host.to_owned()), ..world.trusting() };
    check(world.trusting(), Some("a.example"), true);
    check(world.trusting(), Some("x.b.example"), true);
    check(world.trusting(), Some("common.example"), true);
    check(world.trusting(), Some("c.example"), false);
    check(world.trusting(), None, true);
    check(host("a.example"), Some("c.example"), true);
    check(host("c.example"), Some("a.example"), false);
    check(other.trusting(), Some("a.example"), false);
    check(ClientOptions::default(), Some("c.example"), true);
}

#[test]
fn a_self_signed_certificate_may_be_its_own_authority() {
    let world = World::new();
    for name in ["server.pem", "other.pem"] {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        world.write(name, &format!("{}{}", certificate.pem(), key.serialize_pem()));
    }
    let server = world.server(&world.server_options(&["server.pem"]));
    let check = |ca: &str, name: &str, expected: bool| {
        let client = client(&ClientOptions { ca_file: Some(world.path(ca)), ..world.trusting() });
        run(async {
            let (mut near, mut far) = pair(&server, &client, Some(name));
            let shaken = shake(&mut near, &mut far).await;
            assert_eq!(shaken.is_ok(), expected, "{ca} {name}: {shaken:?}");
        });
    };
    check("server.pem", "a.example", true);
    check("server.pem", "b.example", false);
    check("other.pem", "a.example", false);
    check("ca.pem", "a.example", false);
}

#[test]
fn a_clients_self_signed_certificate_may_be_its_own_authority() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "a");
    for name in ["client.pem", "other.pem"] {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        world.write(name, &format!("{}{}", certificate.pem(), key.serialize_pem()));
    }
    let own =
        CertificateStore::default().load(&world.path("client.pem"), Default::default()).unwrap().remove(0);
    let check = |ca: &str, certificate: IgnoreErrors, expected: Option<u32>| {
        let leniency = Leniency { certificate, authorities: IgnoreErrors::Nothing };
        let ca_file = Some(world.path(ca));
        let line = LineOptions { verify: Verify::Required, leniency, ca_file, ..LineOptions::default() };
        let server = world.server(&ServerOptions { line, ..world.server_options(&["s.pem"]) });
        let client = client(&ClientOptions { certificate: Some(own.clone()), ..world.trusting() });
        run(async {
            let (mut near, mut far) = pair(&server, &client, Some("a.example"));
            let shaken = shake(&mut near, &mut far).await;
            let found = shaken.ok().and_then(|()| far.tls().map(|info| info.verify_error()));
            assert_eq!(found, expected, "{ca}");
        });
    };
    check("client.pem", IgnoreErrors::Nothing, Some(0));
    check("client.pem", IgnoreErrors::All, Some(0));
    check("other.pem", IgnoreErrors::Nothing, None);
    check("other.pem", IgnoreErrors::All, Some(18));
}

#[test]
fn clients_are_verified() {
    let world = World::new();
    let other = World::new();
    world.sign("s.pem", &["a.example"], "a");
    let revoked = world.sign("revoked.pem", &["revoked.example"], "revoked");
    let mut params = CertificateParams::new(vec!["good.example".to_owned()]).unwrap();
    params.serial_number = Some(SerialNumber::from(99_u64));
    let key = KeyPair::generate().unwrap();
    let good = params.signed_by(&key, &world.issuer).unwrap();
    world.write("good.pem", &format!("{}{}", good.pem(), key.serialize_pem()));
    other.sign("stranger.pem", &["stranger.example"], "stranger");
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2999, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(77_u64),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    world.write("crl.pem", &list.signed_by(&world.issuer).unwrap().pem().unwrap());
    let store = CertificateStore::default();
    let load = |path: PathBuf| store.load(&path, Default::default()).unwrap().remove(0);
    let good_certificate = load(world.path("good.pem"));
    let stranger = load(other.path("stranger.pem"));
    let revoked_certificate = load(world.path("revoked.pem"));
    let check = |verify: Verify,
                 ignore: IgnoreErrors,
                 certificate: Option<&Arc<weir_net::tls::certificate::Certificate>>,
                 version: Version,
                 expected: Result<(bool, u32), ()>| {
        let line = LineOptions {
            verify,
            leniency: Leniency { certificate: ignore, authorities: IgnoreErrors::Nothing },
            ca_file: Some(world.path("ca.pem")),
            crl_file: Some(world.path("crl.pem")),
            algorithms: Algorithms { max_version: version, ..Algorithms::default() },
            ..LineOptions::default()
        };
        let server = world.server(&ServerOptions { line, ..world.server_options(&["s.pem"]) });
        let options = ClientOptions { certificate: certificate.cloned(), ..world.trusting() };
        let client = client(&options);
        run(async {
            for round in 0..2 {
                let (mut near, mut far) = pair(&server, &client, Some("a.example"));
                let result = shake(&mut near, &mut far).await;
                let facts = far.tls().map(|info| (info.peer_certificate().is_some(), info.verify_error()));
                let got = result.map(|()| facts.unwrap()).map_err(|_| ());
                // What was let pass once is known of the next connection too: it is no resumed one.
                assert_eq!(got, expected, "{verify:?} {version:?} round {round}");
            }
        });
    };
    use IgnoreErrors::{All, Nothing, These};
    for version in [Version::Tls12, Version::Tls13] {
        check(Verify::None, Nothing, Some(&good_certificate), version, Ok((false, 0)));
        check(Verify::Optional, Nothing, None, version, Ok((false, 0)));
        check(Verify::Required, Nothing, None, version, Err(()));
        check(Verify::Optional, Nothing, Some(&good_certificate), version, Ok((true, 0)));
        check(Verify::Required, Nothing, Some(&good_certificate), version, Ok((true, 0)));
        check(Verify::Required, Nothing, Some(&stranger), version, Err(()));
        check(Verify::Optional, Nothing, Some(&stranger), version, Err(()));
        check(Verify::Required, All, Some(&stranger), version, Ok((true, 20)));
        check(Verify::Required, These(vec![20]), Some(&stranger), version, Ok((true, 20)));
        check(Verify::Required, These(vec![10]), Some(&stranger), version, Err(()));
        check(Verify::Required, Nothing, Some(&revoked_certificate), version, Err(()));
        check(Verify::Required, All, Some(&revoked_certificate), version, Ok((true, 23)));
    }
    assert!(!revoked.der().is_empty());
}

#[test]
fn a_crt_list_line_has_its_own_options() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    world.sign("b.pem", &["b.example"], "b");
    let list = format!(
        "# list\n{} *\n{} [alpn h2 ssl-max-ver TLSv1.2] b.example !x.example\n",
        world.path("a.pem").display(),
        world.path("b.pem").display(),
    );
    world.write("list.txt", &list);
    let options = ServerOptions {
        certificates: vec![CertificateSource::CrtList(world.path("list.txt"))],
        line: LineOptions { alpn: vec![b"http/1.1".to_vec()], ..LineOptions::default() },
        ..ServerOptions::default()
    };
    let server = world.server(&options);
    let check = |name: &str, offered: &[&str], version: &str, alpn: Option<&str>, certificate: &str| {
        let offered: Vec<Vec<u8>> = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let client = client(&ClientOptions { alpn: offered, ..ClientOptions::default() });
        run(async {
            let (mut near, mut far) = pair(&server, &client, Some(name));
            shake(&mut near, &mut far).await.unwrap();
            let info = far.tls().unwrap();
            assert_eq!(info.version(), version, "{name}");
            assert_eq!(info.alpn(), alpn.map(str::as_bytes), "{name}");
            assert!(info.local_certificate().unwrap().name().ends_with(certificate), "{name}");
        });
    };
    check("a.example", &["h2", "http/1.1"], "TLSv1.3", Some("http/1.1"), "a.pem");
    check("b.example", &["h2", "http/1.1"], "TLSv1.2", Some("h2"), "b.pem");
    check("b.example", &["http/1.1"], "TLSv1.2", None, "b.pem");
    check("c.example", &[], "TLSv1.3", None, "a.pem");
}

#[test]
fn strict_sni_refuses_strangers() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let server = world.server(&ServerOptions { strict_sni: true, ..world.server_options(&["a.pem"]) });
    let check = |name: Option<&str>, expected: bool| {
        run(async {
            let (mut near, mut far) = pair(&server, &client(&ClientOptions::default()), name);
            assert_eq!(shake(&mut near, &mut far).await.is_ok(), expected, "{name:?}");
        });
    };
    check(Some("a.example"), true);
    check(Some("b.example"), false);
    check(None, false);
}

#[test]
fn certificates_change_at_run_time() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let new = World::new();
    new.sign("a.pem", &["b.example"], "b");
    let store = CertificateStore::default();
    let options = ServerOptions { strict_sni: true, ..world.server_options(&["a.pem"]) };
    let (server, _) = TlsServer::new(&options, &store).unwrap();
    let works = |name: &str| {
        run(async {
            let (mut near, mut far) = pair(&server, &client(&ClientOptions::default()), Some(name));
            shake(&mut near, &mut far).await.is_ok()
        })
    };
    assert!(works("a.example"));
    let pem = std::fs::read(new.path("a.pem")).unwrap();
    let certificate = store.find(&world.path("a.pem").to_string_lossy()).unwrap();
    certificate.replace(Loaded::from_pem(&pem).unwrap());
    server.refresh();
    assert!(works("b.example"));
    assert!(!works("a.example"));
    assert!(server.remove(certificate.name()));
    assert!(!works("b.example"));
    server.add(certificate, None, Vec::new(), &store).unwrap();
    assert!(works("b.example"));
}

#[test]
fn failures_have_the_numbers_of_openssl() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "a");
    world.sign("c.pem", &["c.example"], "c");
    let other = World::new();
    other.sign("stranger.pem", &["c.example"], "stranger");
    let certificate =
        |path: PathBuf| Some(CertificateStore::default().load(&path, Default::default()).unwrap().remove(0));
    let algorithms = |version: Version, curves: &str| Algorithms {
        min_version: version,
        max_version: version,
        curves: Some(curves.to_owned()),
        ..Algorithms::default()
    };
    // The server's view and the client's: reason, objections of either kind.
    let check = |server: (Verify, Algorithms, bool),
                 options: ClientOptions,
                 near_sees: &str,
                 far_sees: &str| {
        let (verify, algorithms, strict_sni) = server;
        let line =
            LineOptions { verify, algorithms, ca_file: Some(world.path("ca.pem")), ..LineOptions::default() };
        let server = world.server(&ServerOptions { line, strict_sni, ..world.server_options(&["s.pem"]) });
        let name = if strict_sni { "unknown.example" } else { "a.example" };
        run(async {
            let (mut near, mut far) = pair(&server, &client(&options), Some(name));
            assert!(shake(&mut near, &mut far).await.is_err(), "{far_sees}");
            let reason = |stream: &Stream| {
                stream.handshake_info().unwrap().failure().map_or("", |failure| failure.reason())
            };
            assert_eq!((reason(&near), reason(&far)), (near_sees, far_sees));
            let info = far.handshake_info().unwrap();
            let refused = far_sees == "certificate verify failed";
            assert_eq!(info.objections().certificate, if refused { 20 } else { 0 }, "{far_sees}");
            assert_eq!(info.peer_certificate().is_some(), refused, "{far_sees}");
        });
    };
    let with = |algorithms: Algorithms| ClientOptions { algorithms, ..ClientOptions::default() };
    let (tls12, tls13) = (|| algorithms(Version::Tls12, "P-384"), || algorithms(Version::Tls13, "P-384"));
    let refused = "sslv3 alert handshake failure";
    check(
        (Verify::None, tls13(), false),
        with(algorithms(Version::Tls13, "P-256")),
        refused,
        "no suitable key share",
    );
    check(
        (Verify::None, tls12(), false),
        with(algorithms(Version::Tls12, "P-256")),
        refused,
        "no shared cipher",
    );
    check(
        (Verify::None, tls13(), false),
        with(tls12()),
        "tlsv1 alert protocol version",
        "unsupported protocol",
    );
    check((Verify::None, tls13(), true), with(tls13()), "tlsv1 alert access denied", "callback failed");
    let none = "peer did not return a certificate";
    check((Verify::Required, tls12(), false), with(tls12()), "tlsv13 alert certificate required", none);
    let stranger = ClientOptions { certificate: certificate(other.path("stranger.pem")), ..with(tls12()) };
    check(
        (Verify::Required, tls12(), false),
        stranger,
        "tlsv1 alert unknown ca",
        "certificate verify failed",
    );
    // The key of this one is on P-256, which the server does not have.
    let known = ClientOptions { certificate: certificate(world.path("c.pem")), ..with(tls12()) };
    check((Verify::Required, tls12(), false), known, refused, "wrong curve");
    let distrusting =
        ClientOptions { ca_file: Some(other.path("ca.pem")), algorithms: tls12(), ..world.trusting() };
    check((Verify::None, tls12(), false), distrusting, "certificate verify failed", "tlsv1 alert unknown ca");
}

#[test]
fn handshake_details_are_kept_when_asked_for() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let options = ServerOptions { keep_hello: true, keep_secrets: true, ..world.server_options(&["a.pem"]) };
    let server = world.server(&options);
    run(async {
        let keeping = ClientOptions { keep_hello: true, keep_secrets: true, ..ClientOptions::default() };
        let (mut near, mut far) = pair(&server, &client(&keeping), Some("a.example"));
        shake(&mut near, &mut far).await.unwrap();
        let details = far.tls().unwrap().details().unwrap();
        assert_eq!(&details.client_hello[..2], &[3, 3]);
        assert_eq!(details.client_random().unwrap().len(), 32);
        // X25519MLKEM768 and X25519.
        assert_eq!(details.groups()[..4], [0x11, 0xec, 0, 0x1d]);
        assert_eq!(details.supported_versions()[..2], [3, 4]);
        assert!(!details.cipher_suites().is_empty() && !details.extension_types().is_empty());
        assert!(!details.signature_algorithms().is_empty() && !details.point_formats().is_empty());
        assert!(details.secret("EXPORTER_SECRET").is_some() && details.secret("NONE").is_none());
        assert_ne!(details.server_random, [0; 32]);
        assert_eq!(details.session_id.len(), 32);
        let known = near.tls().unwrap().details().unwrap();
        assert_eq!(known.client_hello, details.client_hello);
        assert_eq!((known.server_random, &known.session_id), (details.server_random, &details.session_id));
        assert_eq!(known.secret("EXPORTER_SECRET"), details.secret("EXPORTER_SECRET"));
        let labels: Vec<_> = details.secrets.iter().map(|(label, _)| label.as_str()).collect();
        assert!(
            labels.contains(&"CLIENT_TRAFFIC_SECRET_0") && labels.contains(&"EXPORTER_SECRET"),
            "{labels:?}"
        );
    });
}

#[test]
fn garbage_and_closed_connections_end_the_handshake() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let server = world.server(&world.server_options(&["a.pem"]));
    let check = |bytes: &[u8], alert: bool| {
        run(async {
            let (mut near, mut far) = Stream::pair().unwrap();
            far.start_server_tls(&server, &[]);
            near.write_all(bytes).await.unwrap();
            near.shutdown_write().await.unwrap();
            assert!(far.handshake().await.is_err());
            assert!(far.handshake().await.is_err(), "and stays ended");
            assert!(far.tls().is_none());
            drop(far);
            let mut answer = Vec::new();
            while near.read(&mut answer, 100).await.unwrap_or(0) > 0 {}
            assert_eq!(answer.first() == Some(&21), alert, "{answer:?}");
        });
    };
    check(b"", false);
    check(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true);
    check(&[22, 3, 1, 0, 4], false);
    check(&[22, 3, 1, 0, 4, 1, 0, 0, 0], true);
    check(&[0xff; 70_000], true);
}

#[test]
fn an_established_connection_refuses_forged_records() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let server = world.server(&world.server_options(&["a.pem"]));
    for forged in [&[23, 3, 3, 0, 20][..], &[20, 3, 3, 0, 1], &[23, 3, 3, 0xff, 0xff], &[21, 3, 3, 0, 2]] {
        run(async {
            let (mut near, mut far) = pair(&server, &client(&ClientOptions::default()), None);
            shake(&mut near, &mut far).await.unwrap();
            let mut bytes = forged.to_vec();
            bytes.resize(64, 1);
            rustix::io::write(&near, &bytes).unwrap();
            let mut buf = Vec::new();
            let error = far.read(&mut buf, 100).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
            assert!(far.read(&mut buf, 100).await.is_err());
            assert!(!far.looks_alive());
            let error = near.read(&mut buf, 100).await.unwrap_err();
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::ConnectionAborted,
                "an alert told the peer: {error}"
            );
        });
    }
}

#[test]
fn idle_connections_know_whether_they_are_alive() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let server = world.server(&world.server_options(&["a.pem"]));
    run(async {
        let (mut near, mut far) = pair(&server, &client(&ClientOptions::default()), None);
        shake(&mut near, &mut far).await.unwrap();
        near.release_buffers();
        far.release_buffers();
        assert!(near.looks_alive() && far.looks_alive());
        near.write_all(b"data").await.unwrap();
        far.read_ready().await.unwrap();
        assert!(!far.looks_alive());
        far.shutdown_write().await.unwrap();
        near.read_ready().await.unwrap();
        assert!(!near.looks_alive());
    });
}

#[test]
fn bytes_read_before_the_handshake_count() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let server = world.server(&world.server_options(&["a.pem"]));
    run(async {
        let (mut near, mut far) = Stream::pair().unwrap();
        near.start_client_tls(&client(&ClientOptions::default()), None, None).unwrap();
        let mut early = Vec::new();
        let first = async {
            far.read(&mut early, 10).await.unwrap();
            far.start_server_tls(&server, &early);
            far.handshake().await.unwrap();
        };
        let second = async {
            near.handshake().await?;
            near.flush().await
        };
        let (second, ()) = tokio::join!(second, first);
        second.unwrap();
    });
}

#[test]
fn certificates_and_lists_of_version_1() {
    let world = World::new();
    world.sign("s.pem", &["a.example"], "s");
    let fixture = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/version1").join(name);
    let store = CertificateStore::default();
    let load = |name: &str| store.load(&fixture(name), Default::default()).unwrap().remove(0);
    let check = |ca: PathBuf, crl: bool, ignore: IgnoreErrors, shown: &str, expected: Result<u32, ()>| {
        for version in [Version::Tls12, Version::Tls13] {
            let line = LineOptions {
                verify: Verify::Required,
                leniency: Leniency { certificate: ignore.clone(), authorities: IgnoreErrors::Nothing },
                ca_file: Some(ca.clone()),
                crl_file: crl.then(|| fixture("crl.pem")),
                algorithms: Algorithms { max_version: version, ..Algorithms::default() },
                ..LineOptions::default()
            };
            let server = world.server(&ServerOptions { line, ..world.server_options(&["s.pem"]) });
            let client = client(&ClientOptions { certificate: Some(load(shown)), ..world.trusting() });
            let got = run(async {
                let (mut near, mut far) = pair(&server, &client, Some("a.example"));
                let result = shake(&mut near, &mut far).await;
                result.map(|()| far.tls().unwrap().verify_error()).map_err(|_| ())
            });
            assert_eq!(got, expected, "{shown} {crl} {ignore:?} {version:?}");
        }
    };
    use IgnoreErrors::{All, Nothing, These};
    let (own, other) = (fixture("ca.pem"), world.path("ca.pem"));
    check(own.clone(), false, Nothing, "good.pem", Ok(0));
    check(own.clone(), true, Nothing, "good.pem", Ok(0));
    check(own.clone(), true, Nothing, "gone.pem", Err(()));
    check(own.clone(), true, These(vec![23]), "gone.pem", Ok(23));
    check(own, true, These(vec![10]), "gone.pem", Err(()));
    check(other.clone(), false, Nothing, "good.pem", Err(()));
    check(other, false, All, "good.pem", Ok(20));
    // The other way round: a server shows such a certificate.
    let server = world.server(&ServerOptions {
        certificates: vec![CertificateSource::Crt(fixture("good.pem"))],
        ..ServerOptions::default()
    });
    for (ca, expected) in [(Some(fixture("ca.pem")), true), (Some(world.path("ca.pem")), false), (None, true)]
    {
        let options = ClientOptions { verify: ca.is_some(), ca_file: ca, ..ClientOptions::default() };
        let client = client(&options);
        run(async {
            let (mut near, mut far) = pair(&server, &client, Some("good"));
            assert_eq!(shake(&mut near, &mut far).await.is_ok(), expected, "{options:?}");
        });
    }
}

#[test]
fn signatures_are_those_that_were_asked_for() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let with = |sigalgs: Option<&str>, client_sigalgs: Option<&str>| Algorithms {
        sigalgs: sigalgs.map(str::to_owned),
        client_sigalgs: client_sigalgs.map(str::to_owned),
        ..Algorithms::default()
    };
    let check = |server: Algorithms, near: Algorithms, expected: bool| {
        let shown = format!("{server:?} {near:?}");
        let line = LineOptions {
            algorithms: server,
            verify: Verify::Required,
            ca_file: Some(world.path("ca.pem")),
            ..LineOptions::default()
        };
        let server = world.server(&ServerOptions { line, ..world.server_options(&["a.pem"]) });
        let certificates = CertificateStore::default();
        let own = certificates.load(&world.path("a.pem"), Default::default()).unwrap();
        let options =
            ClientOptions { algorithms: near, certificate: own.into_iter().next(), ..world.trusting() };
        run(async {
            let (mut near, mut far) = pair(&server, &client(&options), Some("a.example"));
            assert_eq!(shake(&mut near, &mut far).await.is_ok(), expected, "{shown}");
        });
    };
    // The keys are of P-256.
    let (own, other) = (Some("ECDSA+SHA256"), Some("rsa_pss_rsae_sha256:ECDSA+SHA384"));
    check(with(None, None), with(None, None), true);
    check(with(own, None), with(own, own), true);
    check(with(other, None), with(None, None), false);
    check(with(own, other), with(None, None), false);
    check(with(own, own), with(None, None), true);
    check(with(None, None), with(other, None), false);
    check(with(None, None), with(None, other), false);
}

#[test]
fn suites_of_versions_that_are_off_do_not_choose_the_key() {
    let world = World::new();
    world.sign("a.pem.ecdsa", &["a.example"], "a");
    let key = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &world.issuer).unwrap();
    world.write("a.pem.rsa", &format!("{}{}", certificate.pem(), key.serialize_pem()));
    let server = world.server(&world.server_options(&["a.pem"]));
    let check = |ciphers: &str| {
        let algorithms = Algorithms {
            ciphers: Some(ciphers.to_owned()),
            max_version: Version::Tls12,
            ..Algorithms::default()
        };
        let options = ClientOptions { algorithms, ..world.trusting() };
        run(async {
            let (mut near, mut far) = pair(&server, &client(&options), Some("a.example"));
            shake(&mut near, &mut far).await.unwrap();
            assert_eq!(near.tls().unwrap().cipher(), ciphers);
        });
    };
    check("ECDHE-RSA-AES128-GCM-SHA256");
    check("ECDHE-ECDSA-AES128-GCM-SHA256");
}

#[test]
fn names_without_a_certificate_get_one() {
    let world = World::new();
    world.sign("a.pem", &["a.example"], "a");
    let other = World::new();
    let signing =
        std::fs::read_to_string(other.path("ca.pem")).unwrap() + &other.issuer.key().serialize_pem();
    other.write("sign.pem", &signing);
    let options =
        ServerOptions { generate_with: Some(other.path("sign.pem")), ..world.server_options(&["a.pem"]) };
    let server = world.server(&options);
    let check = |name: &str, trusted: &World, expected: bool| {
        run(async {
            let (mut near, mut far) = pair(&server, &client(&trusted.trusting()), Some(name));
            assert_eq!(shake(&mut near, &mut far).await.is_ok(), expected, "{name}");
        });
    };
    check("a.example", &world, true);
    check("a.example", &other, false);
    check("new.example", &other, true);
    check("new.example", &world, false);
}

#[test]
fn replaced_authorities_count_from_the_next_handshake() {
    let (world, other) = (World::new(), World::new());
    world.sign("a.pem", &["a.example"], "a");
    let store = CertificateStore::default();
    let ca = world.path("ca.pem");
    let line = LineOptions { verify: Verify::Required, ca_file: Some(ca.clone()), ..LineOptions::default() };
    let options = ServerOptions { line, ..world.server_options(&["a.pem"]) };
    let (server, _) = TlsServer::new(&options, &store).unwrap();
    let own = store.load(&world.path("a.pem"), Default::default()).unwrap().into_iter().next();
    // One client for all, so that it would resume if it could.
    let client = client(&ClientOptions { certificate: own, ..world.trusting() });
    let works = || {
        run(async {
            let (mut near, mut far) = pair(&server, &client, Some("a.example"));
            shake(&mut near, &mut far).await.is_ok()
        })
    };
    assert!(works() && works());
    assert!(server.trusts_by(&ca) && !server.trusts_by(&other.path("ca.pem")));
    let pem = std::fs::read(other.path("ca.pem")).unwrap();
    let before = store.authorities.set(&ca.to_string_lossy(), TrustItem::read_text(&pem).unwrap()).unwrap();
    server.rebuild(&ca, &store).unwrap();
    assert!(!works());
    store.authorities.set(&ca.to_string_lossy(), before.to_vec());
    server.rebuild(&ca, &store).unwrap();
    assert!(works());
}
