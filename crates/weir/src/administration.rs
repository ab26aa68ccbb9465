//! What the data plane asks of the administrative side.

use std::pin::Pin;
use std::sync::Arc;

use weir_config::model::AdminLevel;
use weir_http::Response;
use weir_net::Stream;
use weir_proxy::{Services, Shared};
use weir_rules::{Reply, Txn};

/// Statistics page and runtime commands.
#[derive(Debug, Default)]
pub(crate) struct Administration {}

impl Services for Administration {
    fn statistics(&self, _shared: &Arc<Shared>, _proxy: usize, _txn: &Txn) -> Reply {
        Reply {
            response: Response::new(501, "Not Implemented"),
            body: Arc::from(&b"not implemented yet\n"[..]),
        }
    }

    fn administer(
        &self,
        _shared: Arc<Shared>,
        mut stream: Stream,
        _level: AdminLevel,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            // A client that went away needs no answer.
            stream.write_all(b"Runtime commands are not implemented yet.\n\n").await.ok();
        })
    }
}
