//! The command socket: any bytes are commands or refused, and each is answered.

use std::cell::RefCell;
use std::sync::Arc;

use weir_admin::Administration;
use weir_config::Loaded;
use weir_proxy::Shared;

/// A little of everything that commands name.
const CONFIGURATION: &str = "
global
    stats socket unix@fuzz.sock level admin
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 1s
frontend fe
    bind 127.0.0.1:8311
    stick-table type ip size 100 expire 60s store gpc0,conn_cnt,http_req_rate(10s)
    http-request deny if { src -f virt@deny }
    http-request set-header x %[path,map(virt@paths)]
    default_backend be
backend be
    server s1 127.0.0.1:8312 weight 10 maxconn 5 check
    server s2 127.0.0.1:8313 disabled
listen st
    bind 127.0.0.1:8314
    balance static-rr
    server a 127.0.0.1:8315 weight 3
";

thread_local! {
    /// Commands change it; what they leave behind is there for the next ones, as in a process that runs long.
    static PROCESS: RefCell<Option<(Arc<Shared>, u32)>> = const { RefCell::new(None) };
}

/// Inputs after which the process starts anew: what they added must not fill the memory.
const INPUTS_OF_A_PROCESS: u32 = 1000;

/// What a client sends.
pub fn runtime_commands(data: &[u8]) {
    // Commands name files; those of the machine that fuzzes are not part of the input. BACKEND/SERVER has a '!'.
    let received: Vec<u8> = data
        .iter()
        .map(|byte| match byte {
            b'/' => b'_',
            b'!' => b'/',
            other => *other,
        })
        .collect();
    let text = Administration::new("0.0.0").answers(&process(), &received);
    assert!(text.is_empty() || text.ends_with('\n'));
}

fn process() -> Arc<Shared> {
    PROCESS.with_borrow_mut(|process| {
        if process.as_ref().is_none_or(|(_, inputs)| *inputs >= INPUTS_OF_A_PROCESS) {
            let loaded: Loaded = weir_config::load_str("fuzz.cfg", CONFIGURATION)
                .unwrap_or_else(|found| panic!("{}", found.render(false)));
            *process = Some((Shared::new(Arc::new(loaded.config), 2, "node".to_owned()), 0));
        }
        let (shared, inputs) = process.as_mut().expect("it was just filled");
        *inputs += 1;
        Arc::clone(shared)
    })
}
