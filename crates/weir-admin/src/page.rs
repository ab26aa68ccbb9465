//! The statistics page.

use std::sync::Arc;

use weir_http::Response;
use weir_proxy::Shared;
use weir_rules::{Reply, Txn};

use crate::object::{self, Filter};
use crate::report::{self, Style};

/// Answers a request below `stats uri`.
pub(crate) fn answer(shared: &Arc<Shared>, _version: &str, _proxy: usize, _txn: &Txn) -> Reply {
    let filter = Filter::default();
    let objects = object::objects(shared, &filter, false);
    let mut response = Response::new(200, "OK");
    response.fields.push(b"cache-control", b"no-cache");
    response.fields.push(b"content-type", b"text/plain");
    Reply { response, body: Arc::from(report::statistics(&objects, Style::default()).as_bytes()) }
}
