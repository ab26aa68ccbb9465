//! HTTP compression: who gets which coding, what changes in the head, the body as it goes through, and the limits on
//! the work.
//!
//! In the order of an exchange: [`Settings`] say what is configured, [`Settings::offer`] chooses from the request's
//! Accept-Encoding, [`Settings::decide`] looks at the response's head and either names the [`HeadEdits`] or the
//! reason against, [`BodyEncoder`] turns the body, and a [`Throttle`] says how much work a stream may cause.
//! All of it is values in, values out: headers are read through a closure and changed by the caller.

mod algorithm;

mod negotiate;

mod settings;

mod decide;

mod request;

mod etag;

mod body;

mod windowed;

mod remembered;

mod reuse;

mod throttle;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use body::{BodyEncoder, Ending, Scratch, max_output};
pub use decide::{BodyFraming, EtagEdit, HeadEdits, Refusal, ResponseFacts};
pub use negotiate::negotiate;
pub use request::{RequestFacts, RequestOffer};
pub use reuse::may_be_kept;
pub use settings::{Direction, Rules, Settings};
pub use throttle::{InForce, Level, Limits, Load, Reason, Step, Throttle, WINDOW_MS};
pub use weir_deflate::Content;
pub use windowed::MAX_WINDOWS;
