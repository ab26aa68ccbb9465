//! TLS on both sides: settings from the configuration, handshakes, what rules may know of them.

use std::rc::Rc;
use std::sync::Arc;

use weir_config::model::{Config, SslBind};
use weir_net::Stream;
use weir_rules::txn::TlsFacts;

use crate::state::ServerState;

/// TLS settings of a bind line.
pub(crate) struct Acceptor;

impl Acceptor {
    pub(crate) fn new(_config: &Config, _ssl: &SslBind) -> Result<Self, Vec<String>> {
        Err(vec!["TLS is not implemented yet".into()])
    }

    pub(crate) async fn accept(
        &self,
        _stream: &mut Stream,
        _received: Vec<u8>,
    ) -> std::io::Result<Rc<dyn TlsFacts>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// TLS settings of all servers.
pub(crate) struct Connectors;

impl Connectors {
    pub(crate) fn new(_config: &Arc<Config>) -> Result<Self, Vec<String>> {
        Ok(Self)
    }

    pub(crate) async fn shake_hands(
        &self,
        _stream: &mut Stream,
        _server: &ServerState,
        _sni: Option<&[u8]>,
    ) -> std::io::Result<Rc<dyn TlsFacts>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
