//! HTTP/2 (RFC 9113) with HPACK (RFC 7541) and extended CONNECT (RFC 8441), for both ends.
//!
//! [`Connection`] is the whole protocol: octets in, events and octets out.  It knows no socket and no
//! clock; who drives it reads into a buffer that holds a whole frame, handles the events, and writes
//! [`Connection::output`] once for all of them.
//!
//! ```text
//!  socket -> receive() -> frame -> hpack -> head ----> poll_event()
//!                           |                 stream
//!  socket <- output()  <- frame <- hpack <- head <---- send_response(), send_data(), ...
//! ```

mod connection;
mod error;
mod frame;
mod head;
mod hpack;
mod repeat;
mod settings;
mod stream;

pub use connection::{Connection, Event};
pub use error::{ConnectionError, ErrorCode, Gone, Refused};
pub use frame::{Opening, PREFACE};
pub use settings::{PeerSettings, Settings};
pub use stream::StreamId;
