//! HTTP/2 settings from the configuration's `tune.h2.*`.

use weir_config::model::Config;
use weir_http::h2::{Connection, Settings};

fn settings(config: &Config) -> Settings {
    let tune = &config.global.tune;
    Settings {
        max_concurrent_streams: tune.h2_max_concurrent_streams,
        initial_window: tune.h2_initial_window_size,
        max_frame_size: tune.h2_max_frame_size,
        header_table_size: tune.h2_header_table_size,
        max_fields: u16::try_from(tune.http_maxhdr).unwrap_or(u16::MAX),
        ..Settings::default()
    }
}

/// A server's end, for a client's connection.
pub(crate) fn server(config: &Config) -> Connection {
    let tune = &config.global.tune;
    Connection::server(Settings {
        glitches_threshold: tune.h2_fe_glitches_threshold,
        max_total_streams: u32::try_from(tune.h2_fe_max_total_streams).unwrap_or(u32::MAX),
        ..settings(config)
    })
}

/// A client's end, for a connection to a server.
pub(crate) fn client(config: &Config) -> Connection {
    let tune = &config.global.tune;
    Connection::client(Settings { glitches_threshold: tune.h2_be_glitches_threshold, ..settings(config) })
}
