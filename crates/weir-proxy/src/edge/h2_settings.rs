//! HTTP/2 settings from the configuration's `tune.h2.*`.

use weir_config::model::{Config, H2Side};
use weir_http::h2::{Connection, Settings};

/// What both sides have, with a side's own settings before those of both.
fn settings(config: &Config, side: &H2Side) -> Settings {
    let tune = &config.global.tune;
    let default = Settings::default();
    Settings {
        max_concurrent_streams: side.max_concurrent_streams.unwrap_or(tune.h2_max_concurrent_streams),
        initial_window: side.initial_window_size.unwrap_or(tune.h2_initial_window_size),
        connection_window: side.rxbuf.unwrap_or(default.connection_window),
        max_frame_size: tune.h2_max_frame_size,
        max_header_list: u32::try_from(tune.bufsize).unwrap_or(u32::MAX),
        header_table_size: tune.h2_header_table_size,
        max_fields: u16::try_from(tune.http_maxhdr).unwrap_or(u16::MAX),
        ..default
    }
}

/// Bytes that a request's head may have, as over HTTP/1: rules need room to add to it.
pub(crate) fn request_limit(config: &Config) -> usize {
    config.global.tune.bufsize.saturating_sub(config.global.tune.maxrewrite)
}

/// A server's end, for a client's connection.
pub(crate) fn server(config: &Config) -> Connection {
    let tune = &config.global.tune;
    let settings = settings(config, &tune.h2_fe);
    Connection::server(Settings {
        // With `tune.glitches.kill.cpu-usage` the connection's driver decides.
        glitches_threshold: if tune.glitches_kill_cpu_usage > 0 { 0 } else { tune.h2_fe_glitches_threshold },
        max_header_list: u32::try_from(request_limit(config)).unwrap_or(u32::MAX),
        max_total_streams: u32::try_from(tune.h2_fe_max_total_streams).unwrap_or(u32::MAX),
        extended_connect: settings.extended_connect && !config.global.no_h2_websockets,
        ..settings
    })
}

/// A client's end, for a connection to a server.
pub(crate) fn client(config: &Config) -> Connection {
    let tune = &config.global.tune;
    Connection::client(Settings {
        glitches_threshold: tune.h2_be_glitches_threshold,
        ..settings(config, &tune.h2_be)
    })
}
