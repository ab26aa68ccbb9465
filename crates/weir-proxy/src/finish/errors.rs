//! Pages for answers made here: `errorfile`, `errorloc`, `http-error`, or the built-in texts.

use weir_config::model::{Config, ErrorReply};
use weir_http::Response;
use weir_rules::{Reply, Txn, reply as texts};

use crate::exchange::Exchange;

/// The answer for a status: the backend's page first, then the frontend's; `None` closes without one.
pub(crate) fn reply(x: &Exchange, status: u16) -> Option<Reply> {
    match custom(x.worker.config(), x.front, x.back, status, &x.txn) {
        Custom::Page(reply) => Some(reply),
        Custom::Silent => None,
        Custom::None => Some(texts::default_error(status)),
    }
}

/// What the configuration has for a status.
pub(crate) enum Custom {
    /// Its own page.
    Page(Reply),
    /// Close without an answer.
    Silent,
    /// Nothing: the built-in page.
    None,
}

/// Looks a status up in the backend, then the frontend.
pub(crate) fn custom(config: &Config, front: usize, back: usize, status: u16, txn: &Txn) -> Custom {
    let page = [back, front].into_iter().find_map(|index| config.proxies[index].errors.get(&status));
    match page {
        None => Custom::None,
        Some(ErrorReply::Silent) => Custom::Silent,
        Some(ErrorReply::Message(message)) => {
            Custom::Page(Reply { logged_status: status, ..Reply::new(message.0.clone(), message.1.clone()) })
        }
        Some(ErrorReply::Location(code, to)) => {
            let mut response = Response::new(*code, if *code == 303 { "See Other" } else { "Found" });
            response.fields.push(b"cache-control", b"no-cache");
            response.fields.push(b"location", to);
            Custom::Page(Reply { logged_status: status, ..Reply::new(response, []) })
        }
        Some(ErrorReply::Rendered(template)) => Custom::Page(template.render(txn)),
    }
}
