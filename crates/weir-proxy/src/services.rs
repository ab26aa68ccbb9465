//! Answers the proxy gives itself: the statistics page.

use std::rc::Rc;
use std::sync::Arc;

use weir_http::Method;
use weir_rules::Phase;

use crate::counters::Counter;
use crate::exchange::{Exchange, Stop};
use crate::request_rules;

/// Answers the request when a service of the frontend or backend is meant.
pub(crate) async fn answer(x: &mut Exchange) -> Result<(), Stop> {
    for index in [x.front, x.back] {
        let proxy = Rc::clone(x.worker.proxy(index));
        let Some(stats) = &proxy.stats else { continue };
        if !x.txn.request.path_and_query().starts_with(&stats.uri) {
            continue;
        }
        request_rules::apply(x, &proxy, &stats.rules, Phase::HttpRequest).await?;
        if x.txn.request.method == Method::Post {
            request_rules::wait_for_body(
                x,
                proxy.timeouts.http_request.or(proxy.timeouts.client),
                usize::MAX,
            )
            .await?;
        }
        x.txn.server = Some(Arc::from("<STATS>"));
        x.terminated(b'L', b'R');
        x.count_front(Counter::Intercepted, 1);
        let services = Arc::clone(&x.worker.services);
        return Err(Stop::Reply(Box::new(services.statistics(&x.worker.shared, index, &x.txn))));
    }
    Ok(())
}
