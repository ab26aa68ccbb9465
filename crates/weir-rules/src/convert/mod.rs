//! Converters, one file per family.

pub(crate) mod codec;
pub(crate) mod crypto;
pub(crate) mod date;
pub(crate) mod financial;
pub(crate) mod forwarded;
pub(crate) mod http;
pub(crate) mod json;
pub(crate) mod map;
pub(crate) mod mqtt;
pub(crate) mod number;
pub(crate) mod packet;
pub(crate) mod protobuf;
pub(crate) mod stick;
pub(crate) mod string;
pub(crate) mod token;
pub(crate) mod variable;

use crate::expr::entry::Converter;

/// The entries of all families.
pub(crate) fn families() -> [&'static [Converter]; 16] {
    [
        codec::CONVERTERS,
        crypto::CONVERTERS,
        date::CONVERTERS,
        financial::CONVERTERS,
        forwarded::CONVERTERS,
        http::CONVERTERS,
        json::CONVERTERS,
        map::CONVERTERS,
        mqtt::CONVERTERS,
        number::CONVERTERS,
        packet::CONVERTERS,
        protobuf::CONVERTERS,
        stick::CONVERTERS,
        string::CONVERTERS,
        token::CONVERTERS,
        variable::CONVERTERS,
    ]
}
