//! A request before its server: rules, the backend that it goes to, the head that the server gets.

pub(crate) mod fastcgi;
pub(crate) mod forwarded;
pub(crate) mod head;
pub(crate) mod route;
pub(crate) mod rules;
pub(crate) mod services;
pub(crate) mod websocket;
