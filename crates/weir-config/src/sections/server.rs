//! A server line being read.

use std::time::Duration;

use weir_balance::{InitState, Limit, OnError};
use weir_rules::{Pos, Scope, Word};

use crate::language::args::Args;
use crate::model::{
    AgentCheck, Check, Global, HashKey, InitAddr, LogFraming, PortMap, Server, ServerAddr, Source,
    WebSocketVersion,
};

/// Time between health checks unless `inter` says otherwise.
const DEFAULT_INTER: Duration = Duration::from_secs(2);

/// A server being read: its line may turn parts off that `default-server` turned on.
#[derive(Clone)]
pub(crate) struct ServerDraft {
    pub(crate) server: Server,
    pub(crate) check: Check,
    pub(crate) check_on: bool,
    pub(crate) agent: AgentCheck,
    pub(crate) agent_on: bool,
    pub(crate) ssl_on: bool,
}

/// What the words of a server line are read with.
pub(crate) struct ServerArgs<'x, 'a, 's> {
    pub(crate) args: &'x mut Args<'a>,
    /// The word being read.
    pub(crate) word: &'a Word,
    pub(crate) scope: &'x mut Scope<'s>,
    pub(crate) global: &'x Global,
}

impl ServerDraft {
    /// What a server is when nothing is said about it.
    pub(crate) fn new(global: &Global) -> Self {
        let server = Server {
            name: "".into(),
            id: 0,
            pos: Pos::default(),
            addr: ServerAddr::Unset,
            port_map: PortMap::Fixed,
            weight: 1,
            maxconn: Limit::NONE,
            minconn: 0,
            maxqueue: Limit::NONE,
            strict_maxconn: false,
            idle_ping: None,
            backup: false,
            disabled: false,
            cookie: None,
            check: None,
            agent_check: None,
            track: None,
            ssl: None,
            ssl_settings: global.ssl_default_server.clone(),
            ssl_possible: false,
            no_ssl: false,
            alpn: None,
            proto: None,
            send_proxy: None,
            source: Source::default(),
            namespace: None,
            md5_key: None,
            slowstart: Duration::ZERO,
            on_marked_down: None,
            on_marked_up: None,
            observe: None,
            on_error: OnError::default(),
            error_limit: 10,
            pool_max_conn: None,
            pool_purge_delay: Duration::from_secs(5),
            pool_low_conn: 0,
            max_reuse: None,
            redir: None,
            ws: WebSocketVersion::default(),
            tfo: false,
            tcp_ut: None,
            congestion: None,
            init_addr: InitAddr::DEFAULT.to_vec(),
            resolvers: None,
            socks4: None,
            guid: None,
            shard: 0,
            healthcheck: None,
            pool_conn_name: None,
            hash_key: HashKey::default(),
            named_by_rules: false,
            datagram: false,
            log_proto: LogFraming::default(),
            non_stick: false,
            resolve_prefer: None,
            resolve_net: Vec::new(),
            resolve_allow_dup_ip: false,
            resolve_ignore_weight: false,
            init_state: InitState::default(),
        };
        let check = Check {
            inter: DEFAULT_INTER,
            fastinter: None,
            downinter: None,
            rise: 2,
            fall: 3,
            addr: None,
            port: None,
            ssl: None,
            send_proxy: false,
            alpn: None,
            proto: None,
            sni: None,
            no_sni_auto: false,
            via_socks4: false,
        };
        let agent = AgentCheck { inter: DEFAULT_INTER, addr: None, port: 0, send: Vec::new() };
        Self { server, check, check_on: false, agent, agent_on: false, ssl_on: false }
    }
}
