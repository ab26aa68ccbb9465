//! Connections through a SOCKS4 proxy (`socks4`, `check-via-socks4`).

use std::io;
use std::net::SocketAddr;

use weir_net::connect::{ConnectOptions, connect};
use weir_net::{Address, Stream};

/// Connects to an address: through the proxy, or directly where there is none.
pub(crate) async fn connect_by(
    proxy: Option<SocketAddr>,
    to: &Address,
    options: &ConnectOptions,
) -> io::Result<Stream> {
    let Some(proxy) = proxy else { return connect(to, options).await };
    let mut stream = connect(&Address::Ip(proxy), options).await?;
    ask(&mut stream, to).await?;
    Ok(stream)
}

/// Asks a proxy to connect to an IPv4 address.
async fn ask(stream: &mut Stream, to: &Address) -> io::Result<()> {
    const GRANTED: [u8; 2] = [0, 90];
    let Address::Ip(SocketAddr::V4(to)) = to else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "SOCKS4 carries IPv4 only"));
    };
    let mut request = vec![4, 1];
    request.extend_from_slice(&to.port().to_be_bytes());
    request.extend_from_slice(&to.ip().octets());
    request.extend_from_slice(b"HAProxy\0");
    stream.write_all(&request).await?;
    let mut answer = Vec::new();
    while answer.len() < 8 {
        let left = 8 - answer.len();
        if stream.read(&mut answer, left).await? == 0 {
            return Err(io::Error::other("SOCKS4 Proxy write error during handshake"));
        }
    }
    match answer[..2] == GRANTED {
        true => Ok(()),
        false => Err(io::Error::other("SOCKS4 Proxy deny the request")),
    }
}
