//! A bind line being read.

use weir_balance::Limit;
use weir_rules::Pos;

use crate::model::{AdminLevel, Bind, BindAddr, Global, SeverityOutput, SslBind, UnixBind};

/// Words of a bind line being read.
pub(crate) struct BindDraft<'a> {
    pub(crate) bind: Bind,
    pub(crate) ssl: SslBind,
    pub(crate) ssl_on: bool,
    pub(crate) global: &'a Global,
}

impl<'a> BindDraft<'a> {
    pub(crate) fn new(global: &'a Global, pos: Pos) -> Self {
        let mut bind = empty(BindAddr::Fd(-1), pos);
        bind.unix = global.unix_bind.clone();
        Self { bind, ssl: global.ssl_default_bind.clone(), ssl_on: false, global }
    }
}

/// A socket that nothing was said about but its address.
pub(crate) fn empty(addr: BindAddr, pos: Pos) -> Bind {
    Bind {
        addr,
        name: None,
        id: 0,
        pos,
        ssl: None,
        accept_proxy: false,
        guid: None,
        accept_netscaler_cip: None,
        proto: None,
        maxconn: Limit::NONE,
        backlog: None,
        interface: None,
        namespace: None,
        md5_key: None,
        v4v6: false,
        v6only: false,
        transparent: false,
        defer_accept: false,
        tfo: false,
        mss: None,
        tcp_ut: None,
        idle_ping: None,
        unix: UnixBind::default(),
        level: AdminLevel::default(),
        expose_fd_listeners: false,
        severity_output: SeverityOutput::None,
        threads: Vec::new(),
        datagram: false,
        congestion: None,
        save_syn: None,
        nbconn: 1,
    }
}
