//! The page as HTML: a table for each proxy, made from the table of figures.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use super::View;
use super::form::{ACTIONS, Outcome};
use super::query::{Query, Wanted};
use weir_proxy::Shared;
use weir_proxy::state::load::{InForce, Reason};

use crate::info;
use crate::object::{Kind, Object};
use crate::stat;
use crate::value::Value;

/// The page's style: light and dark, wide and narrow.
const STYLE: &str = include_str!("style.css");

/// A column: title, what its numbers are, whether only HTTP has it, and what it shows.
struct Column {
    title: &'static str,
    hint: &'static str,
    http: bool,
    show: fn(&Figures) -> String,
}

const fn column(title: &'static str, hint: &'static str, http: bool, show: fn(&Figures) -> String) -> Column {
    Column { title, hint, http, show }
}

/// The columns after name and state.
#[rustfmt::skip]
const COLUMNS: &[Column] = &[
    column("Sessions", "now / most / limit", false, |f| now_max_limit(f, "scur", "smax", "slim")),
    column("Total", "sessions since the start", false, |f| f.number("stot")),
    column("Rate", "sessions in the last second / most", false, |f| pair(f, "rate", "rate_max")),
    column("Queue", "now / most / limit", false, |f| now_max_limit(f, "qcur", "qmax", "qlimit")),
    column("Received", "bytes of requests", false, |f| f.bytes("bin")),
    column("Sent", "bytes of responses", false, |f| f.bytes("bout")),
    column("Requests", "since the start", true, |f| f.number("req_tot")),
    column("2xx", "responses", true, |f| f.number("hrsp_2xx")),
    column("3xx", "responses", true, |f| f.number("hrsp_3xx")),
    column("4xx", "responses", true, |f| f.number("hrsp_4xx")),
    column("5xx", "responses", true, |f| f.number("hrsp_5xx")),
    column("Denied", "requests / responses", false, |f| pair(f, "dreq", "dresp")),
    column("Errors", "requests, or connections / responses", false, |f| triple(f, "ereq", "econ", "eresp")),
    column("Retries", "same server / another one", false, |f| pair(f, "wretr", "wredis")),
    column("Times", "average ms: queue / connect / response / total", false, times),
    column("Weight", "weight in force, servers in use", false, weight),
    column("Check", "last result", false, check),
    column("Fails", "failed checks / times down", false, |f| pair(f, "chkfail", "chkdown")),
    column("Down for", "time spent down", false, |f| f.duration("downtime")),
];

/// `show-modules`: columns at the end of a line, whose figures are their tooltips.
const MODULES: &[(&str, &[&str])] = &[
    ("HTTP/1", &["h1sess", "h1req"]),
    ("HTTP/2", &["h2sess", "h2req"]),
    ("Cache", &["cache_lookups", "cache_hits"]),
    ("Compression", &["comp_rsp", "comp_in", "comp_out", "comp_byp"]),
    ("Connections", &["connect", "reuse", "srv_icur", "used_conn_cur"]),
];

/// A module's first figure, with all of them as its tooltip; nothing where it has none.
fn module(figures: &Figures, (title, names): &(&str, &[&str]), out: &mut String) {
    let shown: Vec<String> = names.iter().map(|name| figures.number(name)).collect();
    let tooltip: Vec<String> = names
        .iter()
        .zip(&shown)
        .filter(|(_, number)| !number.is_empty())
        .map(|(name, number)| format!("{name}: {number}"))
        .collect();
    let first = shown.first().map_or("", String::as_str);
    // Writing to memory cannot fail.
    write!(out, "<td data-label=\"{title}\" title=\"{}\">{first}</td>", escape(&tooltip.join(", ")))
        .unwrap_or_default();
}

/// The figures of one line, by name.
struct Figures {
    kind: Kind,
    values: Vec<Option<Value<'static>>>,
}

impl Figures {
    fn of(object: &Object<'_>) -> Self {
        Self { kind: object.kind(), values: stat::FIELDS.iter().map(|field| (field.read)(object)).collect() }
    }

    fn get(&self, name: &str) -> Option<&Value<'static>> {
        let at = stat::FIELDS.iter().position(|field| field.name == name)?;
        self.values.get(at)?.as_ref()
    }

    fn text(&self, name: &str) -> String {
        self.get(name).map(ToString::to_string).unwrap_or_default()
    }

    fn number(&self, name: &str) -> String {
        self.get(name).map_or_else(String::new, |value| grouped(&value.to_string()))
    }

    fn bytes(&self, name: &str) -> String {
        self.get(name).and_then(Value::number).map_or_else(String::new, scaled)
    }

    fn duration(&self, name: &str) -> String {
        self.get(name).and_then(Value::number).map_or_else(String::new, |s| age(s as u64))
    }
}

/// Digits in groups of three, with a narrow space.
fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// `12.3 MB`
fn scaled(bytes: f64) -> String {
    let mut number = bytes;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if number < 1000.0 {
            let digits = usize::from(unit != "B" && number < 100.0);
            return format!("{number:.digits$} {unit}");
        }
        number /= 1000.0;
    }
    format!("{number:.1} PB")
}

/// `2d 3h`, the two largest units.
fn age(seconds: u64) -> String {
    let parts =
        [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let shown: Vec<_> = parts
        .iter()
        .skip_while(|(n, unit)| *n == 0 && *unit != "s")
        .take(2)
        .map(|(n, u)| format!("{n}{u}"))
        .collect();
    shown.join(" ")
}

fn joined(parts: &[String]) -> String {
    let shown: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    shown.join(" / ")
}

fn pair(f: &Figures, a: &str, b: &str) -> String {
    joined(&[f.number(a), f.number(b)])
}

fn triple(f: &Figures, a: &str, b: &str, c: &str) -> String {
    joined(&[f.number(a), f.number(b), f.number(c)])
}

fn now_max_limit(f: &Figures, now: &str, max: &str, limit: &str) -> String {
    joined(&[f.number(now), f.number(max), f.number(limit)])
}

fn times(f: &Figures) -> String {
    joined(&[f.number("qtime"), f.number("ctime"), f.number("rtime"), f.number("ttime")])
}

fn weight(f: &Figures) -> String {
    match f.kind {
        Kind::Backend => format!("{} ({} + {})", f.text("weight"), f.text("act"), f.text("bck")),
        Kind::Server if f.text("bck") == "1" => format!("{} backup", f.text("weight")),
        Kind::Server => f.text("weight"),
        Kind::Frontend | Kind::Listener => String::new(),
    }
}

fn check(f: &Figures) -> String {
    let (status, code) = (f.text("check_status"), f.text("check_code"));
    if status.is_empty() {
        return String::new();
    }
    let code = if code.is_empty() { code } else { format!("/{code}") };
    format!("{status}{code} in {} ms", f.text("check_duration"))
}

/// Text that cannot be markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// The whole page.
pub(crate) fn render(view: &View<'_>, objects: &[Object<'_>]) -> String {
    let mut out = String::with_capacity(16 * 1024);
    let title = title(view);
    // Writing to memory cannot fail.
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    )
    .unwrap_or_default();
    head(view, &title, &mut out);
    if let Some(outcome) = view.query.outcome {
        let class = if outcome == Outcome::Done { "done" } else { "failed" };
        writeln!(out, "<p class=\"outcome {class}\" role=\"status\">{}</p>", outcome.text())
            .unwrap_or_default();
    }
    out.push_str("<main>\n");
    if objects.is_empty() {
        out.push_str("<p class=\"none\">No proxy fits.</p>\n");
    }
    for group in objects.chunk_by(|a, b| a.proxy.id == b.proxy.id && a.proxy.name == b.proxy.name) {
        proxy(view, group, &mut out);
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn title(view: &View<'_>) -> String {
    match &view.stats.show_node {
        Some(node) if !node.is_empty() => format!("Statistics of {}", escape(node)),
        Some(_) => format!("Statistics of {}", escape(&view.shared.hostname)),
        None => "Statistics".to_owned(),
    }
}

/// Title, the process, and what else can be seen.
fn head(view: &View<'_>, title: &str, out: &mut String) {
    let shared = view.shared;
    let global = &shared.config.global;
    // Writing to memory cannot fail.
    write!(out, "<header>\n<h1>{title}</h1>\n").unwrap_or_default();
    let description = view.stats.show_desc.as_ref().map(|text| match text.is_empty() {
        true => global.description.clone().unwrap_or_default(),
        false => text.clone(),
    });
    if let Some(description) = description.filter(|text| !text.is_empty()) {
        writeln!(out, "<p class=\"about\">{}</p>", escape(&description)).unwrap_or_default();
    }
    let uptime = info::uptime(u32::try_from(shared.now_ms() / 1000).unwrap_or(u32::MAX));
    let mut facts = vec![
        (
            "Connections",
            format!("{} / {}", shared.connections.load(Relaxed), shared.max_connections.load(Relaxed)),
        ),
        ("Up", uptime),
        ("Process", shared.pid.to_string()),
        ("Threads", shared.threads.to_string()),
    ];
    if !view.stats.hide_version {
        facts.push(("Program", concat!("Weir ", env!("CARGO_PKG_VERSION")).to_owned()));
        // What the configuration and the commands may say.
        facts.push(("Speaks as", format!("HAProxy {}", view.version.trim_end_matches("-weir"))));
    }
    if shared.config.proxies.iter().any(|proxy| proxy.compression.is_some()) {
        facts.push(("Compression", compression(shared)));
    }
    if shared.is_stopping() {
        facts.push(("State", "stopping".to_owned()));
    }
    out.push_str("<dl>\n");
    for (name, value) in facts {
        writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value)).unwrap_or_default();
    }
    out.push_str("</dl>\n<nav>\n");
    links(view, out);
    out.push_str("</nav>\n");
    search(view, out);
    out.push_str("</header>\n");
}

/// `fast for 43 % (cpu 84 % of 85 %), 1.2 MB/s become 300 kB/s`
fn compression(shared: &Shared) -> String {
    let load = &shared.load;
    let (InForce { step, share_percent, reason }, busy) = load.compression();
    let why = match reason {
        Reason::Free => String::new(),
        Reason::Cpu => format!(" (cpu {busy} % of {} %)", shared.config.global.maxcompcpuusage_percent),
        Reason::Rate => {
            let limit = shared.limits.compression_kb_per_second.load(Relaxed).or_zero() as f64 * 1024.0;
            format!(" (rate limit {}/s)", scaled(limit))
        }
    };
    let rates = [load.rate_bytes_per_second(), load.compressed_bytes_per_second()];
    let [taken, given] = rates.map(|rate| scaled(rate as f64));
    let share = if share_percent < 100 { format!(" for {share_percent} %") } else { String::new() };
    format!("{}{share}{why}, {taken}/s become {given}/s", step.name())
}

fn links(view: &View<'_>, out: &mut String) {
    let query = Query { outcome: None, ..view.query.clone() };
    let uri = &view.stats.uri;
    let mut add = |text: &str, query: Query| {
        // Writing to memory cannot fail.
        writeln!(out, "<a href=\"{}\">{text}</a>", escape(&query.link(uri))).unwrap_or_default();
    };
    add("Refresh now", query.clone());
    if view.stats.refresh.is_some() {
        let text = if query.no_refresh { "Start refreshing" } else { "Stop refreshing" };
        add(text, Query { no_refresh: !query.no_refresh, ..query.clone() });
    }
    let text = if query.up { "Show servers that are down" } else { "Hide servers that are down" };
    add(text, Query { up: !query.up, ..query.clone() });
    add("CSV", Query { wanted: Wanted::Csv, ..query.clone() });
    add("JSON", Query { wanted: Wanted::Json, ..query });
}

/// The field for a part of a name; `stats uri` may hold a `?`, which a form would lose.
fn search(view: &View<'_>, out: &mut String) {
    let uri = String::from_utf8_lossy(&view.stats.uri).into_owned();
    let (path, kept) = match uri.split_once('?') {
        Some((path, word)) => (path.to_owned(), Some(word.to_owned())),
        None => (Query { scope: None, outcome: None, ..view.query.clone() }.link(&view.stats.uri), None),
    };
    // Writing to memory cannot fail.
    writeln!(out, "<form method=\"get\" action=\"{}\">", escape(&path)).unwrap_or_default();
    if let Some(word) = kept {
        writeln!(out, "<input type=\"hidden\" name=\"{}\">", escape(&word)).unwrap_or_default();
    }
    write!(
        out,
        "<label>Proxy <input type=\"search\" name=\"scope\" value=\"{}\" maxlength=\"64\"></label>\n\
         <button>Filter</button>\n</form>\n",
        escape(view.query.scope.as_deref().unwrap_or_default())
    )
    .unwrap_or_default();
}

/// One proxy: its title and its lines.
fn proxy(view: &View<'_>, group: &[Object<'_>], out: &mut String) {
    let Some(first) = group.first() else { return };
    let (name, http) = (escape(&first.proxy.name), stat::mode(first.proxy) == "http");
    let has_servers = group.iter().any(|object| object.kind() == Kind::Server);
    let changeable = view.may_change && has_servers;
    // Writing to memory cannot fail.
    write!(out, "<section id=\"{name}\">\n<h2><a href=\"#{name}\">{name}</a>").unwrap_or_default();
    if let Some(description) = &first.proxy.description {
        write!(out, " <small>{}</small>", escape(description)).unwrap_or_default();
    }
    if view.stats.show_legends {
        write!(out, " <small>{}</small>", escape(&legend(first))).unwrap_or_default();
    }
    out.push_str("</h2>\n");
    if changeable {
        out.push_str("<form method=\"post\">\n");
    }
    let lines: Vec<(&Object<'_>, Figures)> =
        group.iter().map(|object| (object, Figures::of(object))).collect();
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| http || !column.http)
        .filter(|column| lines.iter().any(|(_, figures)| !(column.show)(figures).is_empty()))
        .collect();
    out.push_str("<table>\n<thead><tr>");
    if changeable {
        out.push_str("<th><span class=\"hidden\">Choose</span></th>");
    }
    out.push_str("<th class=\"left\">Name</th><th class=\"left\">State</th>");
    for column in &columns {
        write!(out, "<th title=\"{}\">{}</th>", column.hint, column.title).unwrap_or_default();
    }
    let modules = if view.stats.show_modules { MODULES } else { &[] };
    for (title, _) in modules {
        write!(out, "<th title=\"statistics of a module\">{title}</th>").unwrap_or_default();
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (object, figures) in &lines {
        line(view, object, figures, &columns, changeable, out);
    }
    out.push_str("</tbody>\n</table>\n");
    if changeable {
        actions(first.proxy.id, out);
    }
    out.push_str("</section>\n");
}

/// `show-legends`: what the proxy is.
fn legend(object: &Object<'_>) -> String {
    let proxy = object.proxy;
    let parts = match (proxy.frontend, proxy.backend) {
        (true, true) => "listen",
        (true, false) => "frontend",
        _ => "backend",
    };
    let mut text = format!("{parts}, mode {}, id {}", stat::mode(proxy), proxy.id);
    if proxy.backend {
        text.push_str(", balance ");
        text.push_str(proxy.balance.name());
    }
    text
}

fn line(
    view: &View<'_>,
    object: &Object<'_>,
    figures: &Figures,
    columns: &[&Column],
    changeable: bool,
    out: &mut String,
) {
    let status = figures.text("status");
    let kind = match object.kind() {
        Kind::Frontend => "frontend",
        Kind::Listener => "listener",
        Kind::Server => "server",
        Kind::Backend => "backend",
    };
    let name = escape(&object.name());
    // Writing to memory cannot fail.
    write!(out, "<tr class=\"{kind} {}\">", state_class(&status)).unwrap_or_default();
    if changeable {
        match object.kind() {
            Kind::Server => write!(
                out,
                "<td class=\"choose\"><input type=\"checkbox\" name=\"s\" value=\"{name}\" aria-label=\"{name}\"></td>"
            )
            .unwrap_or_default(),
            _ => out.push_str("<td class=\"choose\"></td>"),
        }
    }
    let label = match object.kind() {
        Kind::Frontend => "Frontend".to_owned(),
        Kind::Backend => "Backend".to_owned(),
        _ => name,
    };
    write!(out, "<th scope=\"row\">{label}").unwrap_or_default();
    let details = [("", figures.text("addr")), ("cookie ", figures.text("cookie"))];
    for (word, text) in details.iter().filter(|(_, text)| view.stats.show_legends && !text.is_empty()) {
        write!(out, "<small>{word}{}</small>", escape(text)).unwrap_or_default();
    }
    let since = figures.duration("lastchg");
    write!(out, "</th><td class=\"state\" data-label=\"State\"><b>{}</b>", escape(&status))
        .unwrap_or_default();
    if !since.is_empty() {
        write!(out, " <small>{since}</small>").unwrap_or_default();
    }
    out.push_str("</td>");
    for column in columns {
        let shown = escape(&(column.show)(figures));
        // Lines of nothing but zeros step back, and leave small screens.
        let digits = shown.bytes().filter(u8::is_ascii_digit);
        let zero =
            !shown.is_empty() && digits.clone().count() > 0 && digits.clone().all(|digit| digit == b'0');
        let class = if zero { " class=\"zero\"" } else { "" };
        write!(out, "<td data-label=\"{}\"{class}>{shown}</td>", column.title).unwrap_or_default();
    }
    if view.stats.show_modules {
        MODULES.iter().for_each(|of| module(figures, of, out));
    }
    out.push_str("</tr>\n");
}

/// The class that gives a line its colour.
fn state_class(status: &str) -> &'static str {
    let word = status.split([' ', '(']).next().unwrap_or_default();
    match word {
        "UP" if status.contains('/') => "failing",
        "UP" | "OPEN" => "up",
        "DOWN" if status.contains('/') => "rising",
        "DOWN" => "down",
        "NOLB" | "DRAIN" | "FULL" | "WAITING" => "draining",
        "MAINT" | "STOP" => "maint",
        _ => "unchecked",
    }
}

/// What can be done with the chosen servers.
fn actions(id: u32, out: &mut String) {
    out.push_str(
        "<p class=\"actions\"><label>Chosen servers: <select name=\"action\"><option value=\"\"></option>",
    );
    for (word, text) in ACTIONS {
        // Writing to memory cannot fail.
        write!(out, "<option value=\"{word}\">{text}</option>").unwrap_or_default();
    }
    write!(
        out,
        "</select></label> <input type=\"hidden\" name=\"b\" value=\"#{id}\"><button>Apply</button></p>\n</form>\n"
    )
    .unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let check = |digits: &str, expected: &str| assert_eq!(grouped(digits), expected);
        check("0", "0");
        check("1234567", "1\u{202f}234\u{202f}567");
        assert_eq!(scaled(999.0), "999 B");
        assert_eq!(scaled(12_345.0), "12.3 kB");
        assert_eq!(scaled(5_000_000_000.0), "5.0 GB");
        let check = |seconds, expected: &str| assert_eq!(age(seconds), expected);
        check(0, "0s");
        check(61, "1m 1s");
        check(90_000, "1d 1h");
    }

    #[test]
    fn a_page_shows_every_line() {
        let shared = crate::cli::tests::shared();
        let stats =
            weir_config::model::Stats { uri: b"/s?x".to_vec(), show_modules: true, ..Default::default() };
        let query = Query { outcome: Some(Outcome::Done), ..Query::default() };
        let view = View {
            shared: &shared,
            version: "<1>",
            proxy: &shared.config.proxies[0],
            stats: &stats,
            query: &query,
            may_change: true,
        };
        let filter = crate::object::Filter::default();
        let page = render(&view, &crate::object::objects(&shared, &filter, false));
        for part in [
            concat!("<dd>Weir ", env!("CARGO_PKG_VERSION"), "</dd>"),
            "<dd>HAProxy &lt;1&gt;</dd>",
            "<section id=\"be\">",
            "name=\"s\" value=\"s1\"",
            "<input type=\"hidden\" name=\"b\" value=\"#3\">",
            "<tr class=\"server maint\">",
            "The change was made.",
            "<th title=\"statistics of a module\">HTTP/2</th>",
            "<td data-label=\"Cache\" title=\"cache_lookups: 0, cache_hits: 0\">0</td>",
            "<form method=\"get\" action=\"/s\">\n<input type=\"hidden\" name=\"x\">",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(page.matches("<tr class=").count(), 8);
    }

    #[test]
    fn states_have_colours() {
        let check = |status: &str, expected: &str| assert_eq!(state_class(status), expected, "{status}");
        check("UP", "up");
        check("UP 2/3", "failing");
        check("DOWN", "down");
        check("DOWN 1/2", "rising");
        check("MAINT (via a/b)", "maint");
        check("no check", "unchecked");
        check("OPEN", "up");
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
    }
}
