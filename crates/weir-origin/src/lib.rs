//! A test server whose answers are described by their URLs: `/bytes/9000`, `/status/503?delay=50ms`, `/live`.
//!
//! It stands behind a proxy that is measured or tried out, so it has to cost less than the proxy, and to misbehave on
//! request: late, slow, cut short, reset.  Owns its listening sockets and threads; HTTP itself is weir-http's.
//!
//! ```text
//! URL > url (Plan) > answer (head, body) > delivery (what to do next) > h1 or h2 > socket
//! ```

mod url;

mod quantity;

mod content;

mod pages;

mod answer;

mod delivery;

mod h1;

mod h2;

mod serve;

pub use answer::{Answer, Site, standard};
pub use serve::{Options, Running, StartError, converse, start};
