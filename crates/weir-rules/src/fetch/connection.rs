//! Fetches at layer 4 (section 7.3.3): addresses, ports, timers, names of proxies and servers.

use std::net::{IpAddr, SocketAddr};

use crate::expr::Cursor;
use crate::expr::args::{ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Fetch, Needs as N, fetch};
use crate::facts::{Figure, TcpFigure};
use crate::value::{Type, Value};
use crate::{Txn, fetch::internal::in_unit};

const UNIT: K = K::OneOf(&["s", "ms", "us"]);

const RTT_UNIT: K = K::OneOf(&["ms", "us"]);

pub(crate) static FETCHES: &[Fetch] = &[
    fetch(
        "accept_date",
        args(0, &[UNIT]),
        Type::Int,
        N::Client,
        "Date of the connection's accept, in s, ms or us since 1970.",
        accept_date,
    ),
    fetch("bc.timer.connect", NONE, Type::Int, N::Server, "Time to connect to the server, ms (%Tc).", timer),
    fetch(
        "bc_be_queue",
        NONE,
        Type::Int,
        N::Server,
        "Requests ahead in the backend's queue (%bq).",
        bc_be_queue,
    ),
    fetch("bc_dst", NONE, Type::Ip, N::Server, "Address of the server.", address),
    fetch("bc_dst_port", NONE, Type::Int, N::Server, "Port of the server.", port),
    fetch("bc_err", NONE, Type::Int, N::Server, "Error of the server's connection, 0 without.", error_number),
    fetch(
        "bc_err_name",
        NONE,
        Type::Str,
        N::Server,
        "Name of the error of the server's connection.",
        error_name,
    ),
    fetch(
        "bc_err_str",
        NONE,
        Type::Str,
        N::Server,
        "Text of the error of the server's connection.",
        error_text,
    ),
    fetch(
        "bc_http_major",
        NONE,
        Type::Int,
        N::Server,
        "Major HTTP version of the server's connection.",
        http_major,
    ),
    fetch("bc_reused", NONE, Type::Bool, N::Server, "Whether the server's connection was reused.", bc_reused),
    fetch(
        "bc_rtt",
        args(0, &[RTT_UNIT]),
        Type::Int,
        N::Server,
        "Round-trip time to the server in ms or us.",
        rtt,
    ),
    fetch(
        "bc_rttvar",
        args(0, &[RTT_UNIT]),
        Type::Int,
        N::Server,
        "Variance of the round-trip time to the server.",
        rtt,
    ),
    fetch("bc_src", NONE, Type::Ip, N::Server, "Our address on the server's connection.", address),
    fetch("bc_src_port", NONE, Type::Int, N::Server, "Our port on the server's connection.", port),
    fetch(
        "bc_srv_queue",
        NONE,
        Type::Int,
        N::Server,
        "Requests ahead in the server's queue (%sq).",
        bc_srv_queue,
    ),
    fetch(
        "be_connect_timeout",
        NONE,
        Type::Int,
        N::Backend,
        "The backend's timeout connect, ms.",
        backend_setting,
    ),
    fetch("be_id", NONE, Type::Int, N::Backend, "Number of the backend.", be_id),
    fetch("be_max_retries", NONE, Type::Int, N::Backend, "The backend's retries.", backend_setting),
    fetch("be_name", NONE, Type::Str, N::Backend, "Name of the backend.", be_name),
    fetch(
        "be_queue_timeout",
        NONE,
        Type::Int,
        N::Backend,
        "The backend's timeout queue, ms.",
        backend_setting,
    ),
    fetch(
        "be_server_timeout",
        NONE,
        Type::Int,
        N::Backend,
        "The backend's timeout server, ms.",
        backend_setting,
    ),
    fetch(
        "be_tarpit_timeout",
        NONE,
        Type::Int,
        N::Backend,
        "The backend's timeout tarpit, ms.",
        backend_setting,
    ),
    fetch(
        "be_tunnel_timeout",
        NONE,
        Type::Int,
        N::Backend,
        "The backend's timeout tunnel, ms.",
        backend_setting,
    ),
    fetch("bytes_in", NONE, Type::Int, N::Client, "Bytes received from the client.", bytes_in),
    fetch("bytes_out", NONE, Type::Int, N::Client, "Bytes sent to the client.", bytes_out),
    fetch("cur_client_timeout", NONE, Type::Int, N::Client, "Client timeout in force, ms.", current_timeout),
    fetch(
        "cur_connect_timeout",
        NONE,
        Type::Int,
        N::Client,
        "Connect timeout in force, ms.",
        current_timeout,
    ),
    fetch("cur_max_retries", NONE, Type::Int, N::Client, "Retries in force.", current_retries),
    fetch("cur_queue_timeout", NONE, Type::Int, N::Client, "Queue timeout in force, ms.", current_timeout),
    fetch("cur_server_timeout", NONE, Type::Int, N::Client, "Server timeout in force, ms.", current_timeout),
    fetch("cur_tarpit_timeout", NONE, Type::Int, N::Client, "Tarpit timeout in force, ms.", current_timeout),
    fetch("cur_tunnel_timeout", NONE, Type::Int, N::Client, "Tunnel timeout in force, ms.", current_timeout),
    fetch("dst", NONE, Type::Ip, N::Client, "Address the client connected to.", address)
        .examples(&[("dst", Some("192.0.2.80"))]),
    fetch("dst_conn", NONE, Type::Int, N::Client, "Concurrent connections of the frontend.", dst_conn),
    fetch(
        "dst_is_local",
        NONE,
        Type::Bool,
        N::Client,
        "Whether the address connected to is this machine's.",
        is_local,
    ),
    fetch("dst_port", NONE, Type::Int, N::Client, "Port the client connected to.", port)
        .examples(&[("dst_port", Some("443"))]),
    fetch(
        "fc.timer.handshake",
        NONE,
        Type::Int,
        N::Client,
        "Time of the connection's handshakes, ms (%Th).",
        timer,
    ),
    fetch("fc.timer.total", NONE, Type::Int, N::Client, "Time since accept, ms (%Tt).", timer),
    fetch(
        "fc_dst",
        NONE,
        Type::Ip,
        N::Client,
        "Address the client's connection arrived at, whatever set-dst did.",
        address,
    ),
    fetch("fc_dst_is_local", NONE, Type::Bool, N::Client, "Whether fc_dst is this machine's.", is_local),
    fetch("fc_dst_port", NONE, Type::Int, N::Client, "Port the client's connection arrived at.", port),
    fetch("fc_err", NONE, Type::Int, N::Client, "Error of the client's connection, 0 without.", error_number),
    fetch(
        "fc_err_name",
        NONE,
        Type::Str,
        N::Client,
        "Name of the error of the client's connection.",
        error_name,
    ),
    fetch(
        "fc_err_str",
        NONE,
        Type::Str,
        N::Client,
        "Text of the error of the client's connection.",
        error_text,
    ),
    fetch(
        "fc_fackets",
        NONE,
        Type::Int,
        N::Client,
        "Forward-acknowledged segments of the client's connection.",
        tcp,
    ),
    fetch(
        "fc_glitches",
        NONE,
        Type::Int,
        N::Client,
        "Protocol irregularities of the client's connection.",
        glitches,
    ),
    fetch(
        "fc_http_major",
        NONE,
        Type::Int,
        N::Client,
        "Major HTTP version of the client's connection.",
        http_major,
    )
    .examples(&[("fc_http_major", Some("1"))]),
    fetch("fc_lost", NONE, Type::Int, N::Client, "Lost segments of the client's connection.", tcp),
    fetch("fc_pp_authority", NONE, Type::Str, N::Client, "Authority of the PROXY protocol header.", pp_tlv)
        .variant("authority"),
    fetch(
        "fc_pp_tlv",
        args(1, &[K::Int]),
        Type::Str,
        N::Client,
        "A TLV of the PROXY protocol header by number.",
        pp_tlv,
    )
    .multi(),
    fetch("fc_pp_unique_id", NONE, Type::Str, N::Client, "Unique ID of the PROXY protocol header.", pp_tlv)
        .variant("unique_id"),
    fetch(
        "fc_rcvd_proxy",
        NONE,
        Type::Bool,
        N::Client,
        "Whether the connection started with a PROXY protocol header.",
        rcvd_proxy,
    ),
    fetch("fc_reordering", NONE, Type::Int, N::Client, "Reordering metric of the client's connection.", tcp),
    fetch(
        "fc_retrans",
        NONE,
        Type::Int,
        N::Client,
        "Retransmitted segments of the client's connection.",
        tcp,
    ),
    fetch(
        "fc_saved_syn",
        NONE,
        Type::Bin,
        N::Client,
        "The client's SYN packet, once, where the bind line has 'tcp-ss'.",
        saved_syn,
    ),
    fetch(
        "fc_rtt",
        args(0, &[RTT_UNIT]),
        Type::Int,
        N::Client,
        "Round-trip time to the client in ms or us.",
        rtt,
    ),
    fetch(
        "fc_rttvar",
        args(0, &[RTT_UNIT]),
        Type::Int,
        N::Client,
        "Variance of the round-trip time to the client.",
        rtt,
    ),
    fetch(
        "fc_sacked",
        NONE,
        Type::Int,
        N::Client,
        "Selectively acknowledged segments of the client's connection.",
        tcp,
    ),
    fetch(
        "fc_src",
        NONE,
        Type::Ip,
        N::Client,
        "Address of the client's connection, whatever set-src did.",
        address,
    ),
    fetch("fc_src_is_local", NONE, Type::Bool, N::Client, "Whether fc_src is this machine's.", is_local),
    fetch("fc_src_port", NONE, Type::Int, N::Client, "Port of the client's connection.", port),
    fetch(
        "fc_unacked",
        NONE,
        Type::Int,
        N::Client,
        "Unacknowledged segments of the client's connection.",
        tcp,
    ),
    fetch(
        "fe_client_timeout",
        NONE,
        Type::Int,
        N::Client,
        "The frontend's timeout client, ms.",
        frontend_setting,
    ),
    fetch("fe_defbe", NONE, Type::Str, N::Client, "Name of the frontend's default backend.", fe_defbe),
    fetch("fe_id", NONE, Type::Int, N::Client, "Number of the frontend.", fe_id),
    fetch("fe_name", NONE, Type::Str, N::Client, "Name of the frontend.", fe_name)
        .examples(&[("fe_name", Some("fe"))]),
    fetch(
        "fe_tarpit_timeout",
        NONE,
        Type::Int,
        N::Client,
        "The frontend's timeout tarpit, ms.",
        frontend_setting,
    ),
    fetch("req.bytes_in", NONE, Type::Int, N::Client, "Bytes received from the client (%U).", bytes_in),
    fetch("req.bytes_out", NONE, Type::Int, N::Client, "Bytes sent to the server.", bytes_in),
    fetch("res.bytes_in", NONE, Type::Int, N::Client, "Bytes received from the server (%B).", bytes_out),
    fetch("res.bytes_out", NONE, Type::Int, N::Client, "Bytes sent to the client.", bytes_out),
    fetch("res.timer.data", NONE, Type::Int, N::Client, "Time to transfer the response, ms (%Td).", timer),
    fetch("so_id", NONE, Type::Int, N::Client, "Number of the bind line.", so_id)
        .examples(&[("so_id", Some("1"))]),
    fetch("so_name", NONE, Type::Str, N::Client, "Name of the bind line.", so_name)
        .examples(&[("so_name", Some("public"))]),
    fetch("src", NONE, Type::Ip, N::Client, "Address of the client.", address)
        .examples(&[("src", Some("198.51.100.7"))]),
    fetch(
        "src_is_local",
        NONE,
        Type::Bool,
        N::Client,
        "Whether the client's address is this machine's.",
        is_local,
    ),
    fetch("src_port", NONE, Type::Int, N::Client, "Port of the client.", port)
        .examples(&[("src_port", Some("50000"))]),
    fetch("srv_id", NONE, Type::Int, N::Server, "Number of the server.", srv_id),
    fetch("srv_name", NONE, Type::Str, N::Server, "Name of the server.", srv_name),
    fetch(
        "txn.conn_retries",
        NONE,
        Type::Int,
        N::Client,
        "Connection attempts after the first (%rc).",
        conn_retries,
    ),
    fetch(
        "txn.redispatched",
        NONE,
        Type::Bool,
        N::Client,
        "Whether another server was tried than the one meant.",
        redispatched,
    ),
];

fn accept_date<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(in_unit(txn.session.accept_us as i64, 0, args.get(0))))
}

/// The stage time a keyword reads.
pub(crate) fn timer<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let t = &txn.timers;
    let ms = match args.variant {
        "bc.timer.connect" => t.connect_ms,
        "fc.timer.handshake" => t.handshake_ms,
        "fc.timer.total" => t.total_ms,
        "res.timer.data" => t.data_ms,
        "req.timer.hdr" => t.request_ms,
        "req.timer.idle" => t.idle_ms,
        "req.timer.queue" => t.queue_ms,
        "req.timer.tq" => return Some(Value::Int(t.tq_ms())),
        "res.timer.hdr" => t.response_ms,
        "txn.timer.total" => t.active_ms,
        "txn.timer.user" => t.user_ms(),
        _ => None,
    };
    Some(Value::Int(ms.map_or(-1, i64::from)))
}

fn endpoint(txn: &Txn, keyword: &str) -> Option<SocketAddr> {
    match keyword {
        "src" | "src_port" | "src_is_local" => txn.src(),
        "dst" | "dst_port" | "dst_is_local" => txn.dst(),
        "fc_src" | "fc_src_port" | "fc_src_is_local" => txn.session.src.get(),
        "fc_dst" | "fc_dst_port" | "fc_dst_is_local" => txn.session.dst.get(),
        "bc_src" | "bc_src_port" => txn.server_local,
        "bc_dst" | "bc_dst_port" => txn.server_addr,
        _ => None,
    }
}

/// An IPv4 address that arrived on an IPv6 socket is the IPv4 address.
fn plain(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

fn address<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    endpoint(txn, args.variant).map(|a| Value::Ip(plain(a.ip())))
}

fn port<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    endpoint(txn, args.variant).map(|a| Value::Int(i64::from(a.port())))
}

fn is_local<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.env.is_local(plain(endpoint(txn, args.variant)?.ip())).map(Value::Bool)
}

fn bc_be_queue<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.backend_queue)))
}

fn bc_srv_queue<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.server_queue)))
}

fn connection_error(txn: &Txn, keyword: &str) -> (u8, &'static str, &'static str) {
    if keyword.starts_with("fc") { txn.client_error } else { txn.server_error }
}

fn error_number<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(connection_error(txn, args.variant).0)))
}

fn error_name<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::text(connection_error(txn, args.variant).1.as_bytes()))
}

fn error_text<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::text(connection_error(txn, args.variant).2.as_bytes()))
}

fn http_major<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let major = if args.variant == "fc_http_major" { txn.session.http_major } else { txn.server_http_major };
    (major > 0).then_some(Value::Int(i64::from(major)))
}

fn bc_reused<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(txn.server_reused))
}

fn saved_syn<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.env.saved_syn(&txn.session).map(|packet| Value::Bin(packet.into()))
}

fn rtt<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let figure = if args.variant.ends_with("var") { TcpFigure::RttVar } else { TcpFigure::Rtt };
    let us = txn.env.tcp_figure(txn, args.variant.starts_with("bc"), figure)?;
    let micro = matches!(args.get(0), Some(crate::expr::args::Arg::Choice(1)));
    Some(Value::Int(if micro { us } else { us / 1000 }))
}

fn tcp<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let figure = match args.variant {
        "fc_fackets" => TcpFigure::Fackets,
        "fc_lost" => TcpFigure::Lost,
        "fc_reordering" => TcpFigure::Reordering,
        "fc_retrans" => TcpFigure::Retrans,
        "fc_sacked" => TcpFigure::Sacked,
        _ => TcpFigure::Unacked,
    };
    txn.env.tcp_figure(txn, false, figure).map(Value::Int)
}

/// The figure behind `be_..._timeout`, `fe_..._timeout` and `cur_..._timeout`.
fn timeout_figure(keyword: &str) -> Figure {
    if keyword.contains("connect") {
        Figure::ConnectTimeout
    } else if keyword.contains("queue") {
        Figure::QueueTimeout
    } else if keyword.contains("tarpit") {
        Figure::TarpitTimeout
    } else if keyword.contains("tunnel") {
        Figure::TunnelTimeout
    } else if keyword.contains("client") {
        Figure::ClientTimeout
    } else if keyword.contains("retries") {
        Figure::Retries
    } else {
        Figure::ServerTimeout
    }
}

fn backend_setting<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let backend = &txn.backend.as_ref()?.name;
    txn.env.proxy_figure(backend, timeout_figure(args.variant)).map(Value::Int)
}

fn frontend_setting<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.env.frontend_figure(&txn.session.frontend.name, timeout_figure(args.variant)).map(Value::Int)
}

fn current_timeout<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let figure = timeout_figure(args.variant);
    let set = match figure {
        Figure::ServerTimeout => txn.set_timeouts[0],
        Figure::TunnelTimeout => txn.set_timeouts[1],
        Figure::ClientTimeout => txn.set_timeouts[2],
        Figure::ConnectTimeout => txn.set_other_timeouts[0],
        Figure::QueueTimeout => txn.set_other_timeouts[1],
        _ => txn.set_other_timeouts[2],
    };
    if let Some(ms) = set {
        return Some(Value::Int(i64::from(ms)));
    }
    configured(txn, figure).map(Value::Int)
}

fn current_retries<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.set_retries.map(i64::from).or_else(|| configured(txn, Figure::Retries)).map(Value::Int)
}

/// The backend's figure, or the frontend's before one is chosen and where it is about the client.
fn configured(txn: &Txn, figure: Figure) -> Option<i64> {
    match &txn.backend {
        Some(backend) if figure != Figure::ClientTimeout => txn.env.proxy_figure(&backend.name, figure),
        _ => txn.env.frontend_figure(&txn.session.frontend.name, figure),
    }
}

fn be_id<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.backend.as_ref().map(|b| Value::Int(i64::from(b.id)))
}

fn be_name<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.backend.as_ref().map(|b| Value::text(b.name.as_bytes()))
}

fn bytes_in<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(txn.bytes_in as i64))
}

fn bytes_out<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(txn.bytes_out as i64))
}

fn dst_conn<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.env.frontend_figure(&txn.session.frontend.name, Figure::Connections).map(Value::Int)
}

fn glitches<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.session.glitches.get())))
}

fn pp_tlv<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    // proxy-protocol.txt section 2.2: PP2_TYPE_AUTHORITY and PP2_TYPE_UNIQUE_ID.
    let wanted = match args.variant {
        "authority" => 0x02,
        "unique_id" => 0x05,
        _ => args.int(0)?,
    };
    let first = if cursor.is_single() { 0 } else { cursor.line };
    let (at, tlv) =
        txn.session.proxy_tlvs.iter().enumerate().skip(first).find(|(_, t)| i64::from(t.0) == wanted)?;
    if !cursor.is_single() {
        cursor.line = at + 1;
    }
    Some(Value::text(&tlv.1))
}

fn rcvd_proxy<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(txn.session.proxy_header))
}

fn fe_defbe<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let name = txn.env.default_backend(&txn.session.frontend.name)?;
    Some(Value::owned(name.as_bytes().to_vec()))
}

fn fe_id<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.session.frontend.id)))
}

fn fe_name<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::text(txn.session.frontend.name.as_bytes()))
}

fn so_id<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.session.listener_id)))
}

fn so_name<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    (!txn.session.listener_name.is_empty()).then(|| Value::text(txn.session.listener_name.as_bytes()))
}

fn srv_id<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.server.as_ref().map(|_| Value::Int(i64::from(txn.server_id)))
}

fn srv_name<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.server.as_ref().map(|s| Value::text(s.as_bytes()))
}

fn conn_retries<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.retries)))
}

fn redispatched<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(txn.redispatched))
}
