//! Answers the proxy gives itself: the statistics page.

use std::rc::Rc;
use std::sync::Arc;

use weir_http::Method;
use weir_rules::Phase;

use crate::exchange::{Exchange, Stop};
use crate::filter;
use crate::request::rules;
use crate::rules::wait::wait_for_body;
use crate::state::counters::Counter;

/// Answers the request when a service of this proxy is meant: the frontend's before a backend is chosen, for it
/// may have none.
pub(crate) async fn answer(x: &mut Exchange, index: usize) -> Result<(), Stop> {
    let proxy = Rc::clone(x.worker.proxy(index));
    let Some(stats) = &proxy.stats else { return Ok(()) };
    if !x.txn.request.path_and_query().starts_with(&stats.uri) {
        return Ok(());
    }
    rules::apply(x, &proxy, &stats.rules, Phase::HttpRequest).await?;
    if x.txn.request.method == Method::Post {
        let limit = proxy.timeouts.http_request.or(proxy.timeouts.client);
        wait_for_body(x, limit, usize::MAX).await?;
    }
    x.txn.server = Some(Arc::from("<STATS>"));
    x.terminated(b'L', b'R');
    x.count_front(Counter::Intercepted, 1);
    let services = Arc::clone(&x.worker.services);
    let reply = services.statistics(&x.worker.shared, index, &x.txn);
    Err(Stop::Reply(Box::new(filter::reply(x, reply))))
}
