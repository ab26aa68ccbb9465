//! A smaller section being read: userlist, http-errors, cache, peers, resolvers and their like.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use weir_balance::Limit;
use weir_rules::data::auth::UserList;
use weir_rules::expr::scope::ErrorMessage;
use weir_rules::{Diagnostic, Scope, Shared};

use crate::language::tree::Section;
use crate::model::{
    Bind, Cache, CrtStore, Global, LogForward, LogProfile, LogWire, Mailers, Peers, Resolvers, Ring,
};
use crate::sections::ServerDraft;

/// A section being read; only the part of its kind is used.
pub(crate) struct SectionDraft<'a> {
    pub(crate) userlist: UserList,
    pub(crate) errors: BTreeMap<u16, ErrorMessage>,
    pub(crate) cache: Cache,
    pub(crate) peers: Peers,
    pub(crate) resolvers: Resolvers,
    pub(crate) ring: Ring,
    pub(crate) log_forward: LogForward,
    pub(crate) mailers: Mailers,
    pub(crate) crt_store: CrtStore,
    pub(crate) log_profile: LogProfile,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) name: String,
    pub(crate) global: &'a Global,
    pub(crate) scope: Scope<'a>,
    pub(crate) local_peer: &'a str,
    pub(crate) default_server: ServerDraft,
    pub(crate) default_bind: Option<Bind>,
    pub(crate) crt_base: Option<PathBuf>,
    pub(crate) key_base: Option<PathBuf>,
}

impl<'a> SectionDraft<'a> {
    pub(crate) fn new(
        section: &Section,
        global: &'a Global,
        shared: &'a Shared<'a>,
        local_peer: &'a str,
    ) -> Self {
        let name = section.name.clone();
        let pos = section.pos;
        let second = Duration::from_secs(1);
        Self {
            userlist: UserList::new(&name),
            errors: BTreeMap::new(),
            cache: Cache {
                name: name.clone(),
                pos,
                total_max_size_mb: 0,
                max_object_size: 0,
                max_age: 60 * second,
                process_vary: false,
                max_secondary_entries: 10,
            },
            peers: Peers { name: name.clone(), pos, ..Peers::default() },
            resolvers: Resolvers::new(&name, pos),
            ring: Ring {
                name: name.clone(),
                pos,
                backing_file: None,
                description: None,
                format: LogWire::Local,
                max_len: 1024,
                size: 16384,
                timeout_connect: None,
                timeout_server: None,
                servers: Vec::new(),
            },
            log_forward: LogForward {
                name: name.clone(),
                pos,
                maxconn: Limit::new(10),
                ..LogForward::default()
            },
            mailers: Mailers::default(),
            crt_store: CrtStore { name: name.clone(), loads: Vec::new() },
            log_profile: LogProfile::default(),
            warnings: Vec::new(),
            scope: Scope::new(shared, &name),
            name,
            global,
            local_peer,
            default_server: ServerDraft::new(global),
            default_bind: None,
            crt_base: if section.name.is_empty() { global.crt_base.clone() } else { None },
            key_base: if section.name.is_empty() { global.key_base.clone() } else { None },
        }
    }
}
