//! The page: one file that needs nothing else, for one run or for several side by side.
//!
//! Owns what is shown and in which order.  Plots are drawn by [`super::plot`]; every text that did not come from here
//! goes through its `escape`.

use super::plot::{Axis, COLORS, Line, Plot, Unit, escape, highest, mean, thinned};
use super::table::answered;
use super::{PERCENTILES, plan, table, units, warning};
use crate::histogram::Histogram;
use crate::result::{Interval, Load, RunResult};

/// Runs that are drawn together: as many as there are colours.
pub const MAX_RUNS: usize = COLORS;

/// Steps of a percentile curve before the distance to 100 % is halved.
const CURVE_TICKS: u32 = 12;

/// Pixels of the plots, for a desk and for a phone.
const WIDE: (u32, u32) = (960, 380);
const NARROW: (u32, u32) = (400, 330);

/// From this ratio of the longest to the median on, percentiles are shown on a logarithmic scale at first.
const LOG_FROM: f64 = 20.0;

/// So that a level line does not lie on the edge.
const HEADROOM: f64 = 1.05;

/// Characters of a name that are shown.
const MAX_NAME: usize = 80;

/// A page about these runs, at most [`MAX_RUNS`] of them.
#[must_use]
pub fn page(runs: &[RunResult]) -> String {
    let runs = &runs[..runs.len().min(MAX_RUNS)];
    let names = names(runs);
    let title = match names.as_slice() {
        [only] => format!("Load test: {only}"),
        _ => format!("Load tests: {}", names.join(", ")),
    };
    let mut html = String::new();
    if let [run] = runs {
        html.push_str(&format!("<p class=\"soft\">{}</p>\n", escape(&plan(&run.plan))));
    }
    for (run, name) in runs.iter().zip(&names) {
        if let Some(warning) = warning(run) {
            let whose = if runs.len() > 1 { format!("{name}: ") } else { String::new() };
            html.push_str(&format!(
                "<p class=\"warn\"><b>Do not trust these latencies.</b> {}</p>\n",
                escape(&format!("{whose}{warning}"))
            ));
        }
    }
    match runs {
        [run] => tiles(&mut html, run),
        _ => overview(&mut html, runs, &names),
    }
    html.push_str(&percentile_plot("Latency by percentile", runs, &names));
    html.push_str(&ramp_plot(runs, &names));
    html.push_str(&latency_over_time(runs, &names));
    html.push_str(&rate_over_time(runs, &names));
    html.push_str(&errors_over_time(runs, &names));
    for (run, name) in runs.iter().zip(&names) {
        details(&mut html, run, (runs.len() > 1).then_some(name.as_str()));
    }
    sheet(&title, &html)
}

/// The frame of a page that needs no other file: `body` is HTML, `title` is text.
#[must_use]
pub fn sheet(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>\n{}</style></head><body>\n<h1>{title}</h1>\n\
         {body}<script>\n{}</script>\n</body></html>\n",
        include_str!("page/style.css"),
        include_str!("page/script.js")
    )
}

/// A part of a page: latency by percentile of at most [`MAX_RUNS`] runs; the title is the only one on its page.
#[must_use]
pub fn percentiles(title: &str, runs: &[RunResult]) -> String {
    let runs = &runs[..runs.len().min(MAX_RUNS)];
    percentile_plot(title, runs, &names(runs))
}

/// The same as a picture of its own (SVG), on a logarithmic scale and without what the page shows only when asked to;
/// empty without samples.
#[must_use]
pub fn percentile_picture(title: &str, runs: &[RunResult]) -> String {
    let runs = &runs[..runs.len().min(MAX_RUNS)];
    let Some(percentiles) = Percentiles::of(runs, &names(runs)) else { return String::new() };
    let mut plot = percentiles.log();
    plot.lines.retain(|line| !line.off);
    plot.picture(title, WIDE.0, WIDE.1)
}

/// A part of a page: latency by rate of at most [`MAX_RUNS`] ramps.
#[must_use]
pub fn by_rate(runs: &[RunResult]) -> String {
    let runs = &runs[..runs.len().min(MAX_RUNS)];
    ramp_plot(runs, &names(runs))
}

/// What the runs are called: their labels, with a number where two have the same.
fn names(runs: &[RunResult]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let url = || run.plan.targets.first().map_or("a run", |target| &target.url);
        let label = if run.label.is_empty() { url() } else { &run.label };
        let label: String = label.chars().take(MAX_NAME).collect();
        let same =
            names.iter().filter(|name| **name == label || name.starts_with(&format!("{label} ("))).count();
        names.push(if same == 0 { label } else { format!("{label} ({})", same + 1) });
    }
    names
}

fn seconds(histogram: &Histogram, percent: f64) -> f64 {
    histogram.percentile(percent).as_secs_f64()
}

fn rate_of(run: &RunResult) -> f64 {
    if run.elapsed_seconds > 0.0 { run.totals.answers as f64 / run.elapsed_seconds } else { 0.0 }
}

fn errors_of(run: &RunResult) -> u64 {
    run.totals.errors.failed() + run.totals.errors.bad_status
}

fn tiles(html: &mut String, run: &RunResult) {
    let latency = run.times.latency();
    let asked = match run.plan.load {
        Load::Rate { per_second } => format!("responses/s of {} asked for", units::rate(per_second)),
        Load::Closed | Load::Ramp { .. } | Load::Replay { .. } => "responses/s".to_owned(),
    };
    let mut tiles = vec![
        (units::rate(rate_of(run)), asked),
        (units::time(seconds(latency, 50.0)), "median latency".to_owned()),
        (units::time(seconds(latency, 99.0)), "99 % latency".to_owned()),
        (units::time(seconds(latency, 99.9)), "99.9 % latency".to_owned()),
        (units::time(latency.max().as_secs_f64()), "longest".to_owned()),
        (units::count(errors_of(run)), format!("errors in {} requests", units::count(run.totals.requests))),
    ];
    if let Some(best) = run.best_rate {
        let goal = run.plan.goal.as_deref().unwrap_or("the goal");
        tiles.insert(0, (units::rate(best), format!("highest rate that held {goal}")));
    }
    html.push_str("<div class=\"tiles\">");
    for (figure, name) in tiles {
        html.push_str(&format!(
            "<div class=\"tile\"><b>{}</b><span>{}</span></div>",
            escape(&figure),
            escape(&name)
        ));
    }
    html.push_str("</div>\n");
}

/// A table of figures: a name, then a cell for each column.
pub fn figures(html: &mut String, columns: &[String], rows: &[(String, Vec<String>)]) {
    html.push_str("<div class=\"scroll\"><table class=\"figures\"><thead><tr><th></th>");
    for column in columns {
        html.push_str(&format!("<th>{}</th>", escape(column)));
    }
    html.push_str("</tr></thead><tbody>\n");
    for (name, cells) in rows {
        html.push_str(&format!("<tr><th>{}</th>", escape(name)));
        for cell in cells {
            html.push_str(&format!("<td>{}</td>", escape(cell)));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

/// The runs side by side.
fn overview(html: &mut String, runs: &[RunResult], names: &[String]) {
    let row =
        |name: &str, cell: &dyn Fn(&RunResult) -> String| (name.to_owned(), runs.iter().map(cell).collect());
    let at = |percent: f64| move |run: &RunResult| units::time(seconds(run.times.latency(), percent));
    let mut rows = vec![row("responses/s", &|run| units::rate(rate_of(run)))];
    if runs.iter().any(|run| run.best_rate.is_some()) {
        rows.push(row("best rate", &|run| run.best_rate.map_or_else(|| "none".to_owned(), units::rate)));
    }
    rows.extend(PERCENTILES.iter().map(|(name, percent)| row(name, &at(*percent))));
    rows.push(row("longest", &|run| units::time(run.times.latency().max().as_secs_f64())));
    rows.push(row("errors", &|run| units::count(errors_of(run))));
    rows.push(row("latency is", &|run| match run.times.corrected.is_empty() {
        true => "uncorrected".to_owned(),
        false => "corrected".to_owned(),
    }));
    figures(html, names, &rows);
}

/// A plot in both sizes with its legend.
#[must_use]
pub fn figure(title: &str, caption: &str, plot: &Plot) -> String {
    section(title, caption, &plot.legend(), &both_sizes(plot))
}

fn section(title: &str, caption: &str, head: &str, body: &str) -> String {
    let (title, caption) = (escape(title), escape(caption));
    format!("<h2>{title}</h2>\n<figure>{head}{body}<figcaption>{caption}</figcaption></figure>\n")
}

fn both_sizes(plot: &Plot) -> String {
    let sized = |class: &str, (width, height): (u32, u32)| {
        plot.svg(width, height).replacen("<svg ", &format!("<svg class=\"{class}\" "), 1)
    };
    sized("wide", WIDE) + &sized("narrow", NARROW)
}

/// A curve's name: what it is, and whose where there are several.
fn curve_name(run: &str, what: &str, alone: bool) -> String {
    if alone { what.to_owned() } else { format!("{run}, {what}") }
}

/// Latency by percentile.
struct Percentiles {
    lines: Vec<Line>,
    x: Axis,
    /// The least and the most time shown, seconds.
    range: (f64, f64),
    /// The most that a longest time is of its median.
    spread: f64,
}

impl Percentiles {
    /// Nothing without samples.
    fn of(runs: &[RunResult], names: &[String]) -> Option<Self> {
        let alone = runs.len() == 1;
        let mut lines = Vec::new();
        let mut most = 0;
        let (mut range, mut spread): ((f64, f64), f64) = ((f64::INFINITY, 0.0), 0.0);
        for (number, (run, name)) in runs.iter().zip(names).enumerate() {
            let times = &run.times;
            let curves = [(&times.corrected, "corrected", false), (&times.uncorrected, "uncorrected", true)];
            for (histogram, what, second) in curves {
                if histogram.is_empty() {
                    continue;
                }
                most = most.max(histogram.count());
                range.0 = range.0.min(histogram.min().as_secs_f64().max(seconds(histogram, 1.0)));
                range.1 = range.1.max(histogram.max().as_secs_f64());
                spread = spread.max(histogram.max().as_secs_f64() / seconds(histogram, 50.0).max(1e-9));
                let dashed = second && !times.corrected.is_empty();
                lines.push(Line {
                    name: curve_name(name, what, alone),
                    color: number,
                    dashed,
                    off: dashed && runs.len() > 2,
                    marked: false,
                    points: percentile_curve(histogram),
                });
            }
        }
        let x = Axis::percentiles("Percentile", most);
        (!lines.is_empty()).then_some(Self { lines, x, range, spread })
    }

    fn plot(&self, y: Axis) -> Plot {
        let (x, lines) = (self.x.clone(), self.lines.clone());
        Plot { description: "Latency by percentile".to_owned(), x, y, lines }
    }

    fn linear(&self) -> Plot {
        self.plot(Axis::linear("Latency", Unit::Time, self.range.1, 6))
    }

    fn log(&self) -> Plot {
        self.plot(Axis::log("Latency", Unit::Time, self.range.0, self.range.1))
    }
}

fn percentile_plot(title: &str, runs: &[RunResult], names: &[String]) -> String {
    let Some(percentiles) = Percentiles::of(runs, names) else { return String::new() };
    let (linear, log) = (percentiles.linear(), percentiles.log());
    let (lin_first, log_first) =
        if percentiles.spread > LOG_FROM { ("", " checked") } else { (" checked", "") };
    // Of several such plots on a page each has its own switch.
    let group = escape(title);
    let head = format!(
        "<div class=\"switch\"><label><input type=\"radio\" name=\"{group}\" class=\"lin\"{lin_first}> linear</label>\
         <label><input type=\"radio\" name=\"{group}\" class=\"log\"{log_first}> logarithmic</label></div>{}",
        linear.legend()
    );
    let body = format!(
        "<div class=\"scale lin\">{}</div><div class=\"scale log\">{}</div>",
        both_sizes(&linear),
        both_sizes(&log)
    );
    section(title, &percentile_caption(runs), &head, &body)
}

fn percentile_caption(runs: &[RunResult]) -> String {
    const CORRECTED: &str = "Corrected latency counts from the moment a request was due, uncorrected from the moment it \
                             was sent: a server that stops answering cannot hide by not being asked.";
    const CLOSED: &str = "In a closed loop the next request waits for the answer to the one before it: times in which the \
                          server did not answer count once, however many users would have waited.";
    let paced = runs.iter().any(|run| !run.times.corrected.is_empty());
    if paced { CORRECTED } else { CLOSED }.to_owned()
}

/// Share and seconds, up to the last percentile that the samples can tell.
fn percentile_curve(histogram: &Histogram) -> Vec<(f64, f64)> {
    let count = histogram.count();
    let last = 1.0 - 1.0 / count.max(1) as f64;
    let steps = histogram.halving(CURVE_TICKS);
    let points = steps.map(|step| (step.quantile_iterated_to(), step.value_iterated_to() as f64 / 1e9));
    let mut points: Vec<(f64, f64)> = points.take_while(|(share, _)| *share < last).collect();
    points.push((last, histogram.max().as_secs_f64()));
    points
}

/// A line through a figure of every interval, at the interval's middle.
fn over_time(
    run: &RunResult,
    figure: fn(&Interval) -> Option<f64>,
    pick: fn(&[f64]) -> f64,
) -> Vec<(f64, f64)> {
    let point = |interval: &Interval| Some((interval.at_seconds + interval.seconds / 2.0, figure(interval)?));
    thinned(run.intervals.iter().filter_map(point).collect(), pick)
}

fn elapsed(runs: &[RunResult]) -> Axis {
    let end = |run: &RunResult| run.intervals.last().map_or(0.0, |last| last.at_seconds + last.seconds);
    Axis::exact("Time since the start", Unit::Time, runs.iter().map(end).fold(0.0, f64::max), 8)
}

fn highest_point(lines: &[Line]) -> f64 {
    highest(&lines.iter().flat_map(|line| line.points.iter().map(|(_, y)| *y)).collect::<Vec<_>>())
}

fn latency_over_time(runs: &[RunResult], names: &[String]) -> String {
    type Figure = fn(&Interval) -> Option<f64>;
    /// Side by side the medians are left out.
    const LONGEST: usize = 2;
    let figures: [(&str, Figure); 3] = [
        ("median", |interval| above_zero(interval.p50_seconds)),
        ("99 %", |interval| above_zero(interval.p99_seconds)),
        ("longest", |interval| above_zero(interval.max_seconds)),
    ];
    let alone = runs.len() == 1;
    let mut lines = Vec::new();
    for (number, (run, name)) in runs.iter().zip(names).enumerate() {
        for (at, (what, figure)) in figures.iter().enumerate() {
            lines.push(Line {
                name: curve_name(name, what, alone),
                color: if alone { at } else { number },
                dashed: !alone && at == LONGEST,
                off: runs.len() > 3 && at == LONGEST,
                marked: false,
                points: if alone || at > 0 { over_time(run, *figure, highest) } else { Vec::new() },
            });
        }
    }
    lines.retain(|line| !line.points.is_empty());
    if lines.is_empty() {
        return String::new();
    }
    let least = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let y = Axis::log("Latency", Unit::Time, least, highest_point(&lines));
    let plot = Plot { description: "Latency over time".to_owned(), x: elapsed(runs), y, lines };
    let caption = "Of each interval of the run, on a logarithmic scale.";
    figure("Latency over time", caption, &plot)
}

/// A logarithmic axis has no zero; older files have it for intervals without an answer.
fn above_zero(seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| *seconds > 0.0)
}

fn rate_over_time(runs: &[RunResult], names: &[String]) -> String {
    let alone = runs.len() == 1;
    let mut lines = Vec::new();
    for (number, (run, name)) in runs.iter().zip(names).enumerate() {
        let line = |what: &str, dashed: bool, points| Line {
            name: curve_name(name, what, alone),
            color: number,
            dashed,
            off: dashed && !alone,
            marked: false,
            points,
        };
        lines.push(line("asked for", true, over_time(run, |interval| interval.asked_rate, mean)));
        lines.push(line("answered", false, over_time(run, |interval| Some(interval.rate()), mean)));
    }
    lines.retain(|line| !line.points.is_empty());
    if lines.is_empty() {
        return String::new();
    }
    let y = Axis::linear("Answers a second", Unit::Rate, highest_point(&lines) * HEADROOM, 5);
    let plot = Plot { description: "Rate over time".to_owned(), x: elapsed(runs), y, lines };
    figure("Rate over time", "Answers that were complete, whatever their status.", &plot)
}

fn errors_over_time(runs: &[RunResult], names: &[String]) -> String {
    let alone = runs.len() == 1;
    let mut lines = Vec::new();
    for (number, (run, name)) in runs.iter().zip(names).enumerate() {
        let mut add = |what: &str, dashed: bool, figure: fn(&Interval) -> Option<f64>| {
            let points = over_time(run, figure, mean);
            let any = points.iter().any(|(_, y)| *y > 0.0);
            let name = curve_name(name, what, alone);
            let color = if alone && dashed { 1 } else { number };
            lines.extend(any.then_some(Line { name, color, dashed, off: false, marked: false, points }));
        };
        add("without a response", false, |interval| each_second(interval.failed, interval));
        add("bad status", true, |interval| each_second(interval.bad_status, interval));
    }
    if lines.is_empty() {
        return String::new();
    }
    let y = Axis::linear("Errors a second", Unit::Rate, highest_point(&lines), 5);
    let plot = Plot { description: "Errors over time".to_owned(), x: elapsed(runs), y, lines };
    figure(
        "Errors over time",
        "Requests and connections without a response, and responses with a status of 400 and above.",
        &plot,
    )
}

fn each_second(count: u64, interval: &Interval) -> Option<f64> {
    (interval.seconds > 0.0).then(|| count as f64 / interval.seconds)
}

/// Latency against rate, for ramps.
fn ramp_plot(runs: &[RunResult], names: &[String]) -> String {
    let alone = runs.len() == 1;
    let mut lines = Vec::new();
    for (number, (run, name)) in runs.iter().zip(names).enumerate() {
        for (at, (what, percent)) in
            [("median", 50.0), ("99 %", 99.0), ("99.9 %", 99.9)].into_iter().enumerate()
        {
            let steps = run.steps.iter().filter(|step| !step.times.latency().is_empty());
            let mut points: Vec<_> =
                steps.map(|step| (step.rate, seconds(step.times.latency(), percent))).collect();
            // The last steps of a ramp lie between those before them.
            points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            lines.push(Line {
                name: curve_name(name, what, alone),
                color: if alone { at } else { number },
                dashed: !alone && at != 1,
                off: !alone && at != 1,
                marked: true,
                points,
            });
        }
    }
    lines.retain(|line| !line.points.is_empty());
    let points = || lines.iter().flat_map(|line| &line.points);
    let least = points().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let most_rate = points().map(|(x, _)| *x).fold(0.0, f64::max);
    if lines.is_empty() {
        return String::new();
    }
    let x = Axis::linear("Rate asked for, requests a second", Unit::Rate, most_rate, 8);
    let y = Axis::log("Latency", Unit::Time, least, highest_point(&lines));
    let plot = Plot { description: "Latency by rate".to_owned(), x, y, lines };
    figure("Latency by rate", "Corrected latency of each step, on a logarithmic scale.", &plot)
}

/// Everything else about a run, in tables.
fn details(html: &mut String, run: &RunResult, name: Option<&str>) {
    match name {
        Some(name) => html.push_str(&format!("<h2>{}</h2>\n", escape(name))),
        None => html.push_str("<h2>Figures</h2>\n"),
    }
    if name.is_none() {
        latency_table(html, run);
    }
    step_table(html, run);
    facts(html, run);
}

fn latency_table(html: &mut String, run: &RunResult) {
    let times = &run.times;
    let columns = [
        ("corrected", &times.corrected),
        ("uncorrected", &times.uncorrected),
        ("first byte", &times.first_byte),
        ("connect", &times.connect),
        ("TLS", &times.handshake),
    ];
    let columns: Vec<_> = columns.into_iter().filter(|(_, times)| !times.is_empty()).collect();
    let row = |name: &str, cell: &dyn Fn(&Histogram) -> f64| {
        (name.to_owned(), columns.iter().map(|(_, times)| units::time(cell(times))).collect())
    };
    let mut rows: Vec<_> =
        PERCENTILES.iter().map(|(name, percent)| row(name, &|times| seconds(times, *percent))).collect();
    rows.push(row("longest", &|times| times.max().as_secs_f64()));
    rows.push(row("mean", &|times| times.mean_ns() / 1e9));
    rows.push(row("deviation", &|times| times.deviation_ns() / 1e9));
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    figures(html, &names, &rows);
}

fn step_table(html: &mut String, run: &RunResult) {
    if run.steps.is_empty() {
        return;
    }
    let columns = ["answered/s", "median", "99 %", "99.9 %", "longest", "held"].map(str::to_owned);
    let row = |step: &crate::result::Step| {
        let times = step.times.latency();
        let time = |percent: f64| units::time(seconds(times, percent));
        let held = match (step.held, &step.reason) {
            (true, _) => "yes".to_owned(),
            (false, Some(reason)) => format!("no: {reason}"),
            (false, None) => "no".to_owned(),
        };
        let longest = units::time(times.max().as_secs_f64());
        let cells = vec![units::rate(answered(step)), time(50.0), time(99.0), time(99.9), longest, held];
        (format!("{}/s", units::rate(step.rate)), cells)
    };
    figures(html, &columns, &run.steps.iter().map(row).collect::<Vec<_>>());
}

fn facts(html: &mut String, run: &RunResult) {
    html.push_str("<div class=\"scroll\"><table class=\"facts\"><tbody>\n");
    for (name, value) in fact_rows(run) {
        html.push_str(&format!("<tr><th>{}</th><td>{}</td></tr>\n", escape(&name), escape(&value)));
    }
    html.push_str("</tbody></table></div>\n");
}

fn fact_rows(run: &RunResult) -> Vec<(String, String)> {
    let (asked, totals, generator) = (&run.plan, &run.totals, &run.generator);
    let mut rows = Vec::new();
    let mut add = |name: &str, value: String| rows.push((name.to_owned(), value));
    for target in &asked.targets {
        let weight =
            if asked.targets.len() > 1 { format!(" (weight {})", target.weight) } else { String::new() };
        add("target", format!("{} {}{weight}", target.method, target.url));
    }
    add("plan", plan(asked));
    if let Some(goal) = &asked.goal {
        add("goal", goal.clone());
    }
    add("timeout, seed", format!("{}, {}", units::short_time(asked.timeout_seconds), asked.seed));
    if let Some(server) = &run.server {
        let tls =
            server.tls.as_ref().map(|tls| format!(", {} {}", tls.version, tls.cipher)).unwrap_or_default();
        let software = if server.software.is_empty() { "unnamed" } else { &server.software };
        let body = units::bytes(server.body_bytes as f64);
        add("server", format!("{software}{tls}, first response {} with {body}", server.status));
    }
    add("responses", table::answers(&run.totals));
    add("errors", table::counted(run.totals.errors.kinds().into_iter()));
    for example in &totals.errors.examples {
        add("", example.clone());
    }
    let (waiting, unsent) = (units::count(totals.waiting), units::count(totals.unsent));
    add("at the end", format!("{waiting} waited for their response, {unsent} were due and not sent"));
    let (received, sent) =
        (units::bytes(totals.received_bytes as f64), units::bytes(totals.sent_bytes as f64));
    add("bytes", format!("{received} received, {sent} sent"));
    let handshakes = match totals.handshakes {
        0 => String::new(),
        all => format!(
            ", {} TLS handshakes of which {} resumed",
            units::count(all),
            units::count(totals.resumed)
        ),
    };
    add("connections", format!("{} opened{handshakes}", units::count(totals.connections)));
    let busiest = generator.threads.iter().map(|thread| thread.cpu_share).fold(0.0, f64::max);
    let (user, system) = (units::time(generator.user_seconds), units::time(generator.system_seconds));
    let lag = match generator.lag.is_empty() {
        true => String::new(),
        false => format!(", requests left late by {} (99 %)", units::time(seconds(&generator.lag, 99.0))),
    };
    let cpu = format!("{user} user and {system} system, busiest thread {}{lag}", units::percent(busiest));
    add("generator", cpu);
    add("measured", format!("{} by {}", utc(run.started_unix_seconds), run.tool));
    rows
}

/// A moment in UTC.
fn utc(unix_seconds: f64) -> String {
    // What is no time is the beginning of all times.
    let moment = jiff::Timestamp::from_second(unix_seconds as i64).unwrap_or_default();
    moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn moments() {
        let check = |seconds: f64, expected: &str| assert_eq!(utc(seconds), expected);
        check(0.0, "1970-01-01 00:00:00 UTC");
        check(951_782_399.9, "2000-02-28 23:59:59 UTC");
        check(951_782_400.0, "2000-02-29 00:00:00 UTC");
        check(1_700_000_000.0, "2023-11-14 22:13:20 UTC");
        check(f64::NAN, "1970-01-01 00:00:00 UTC");
        check(f64::INFINITY, "1970-01-01 00:00:00 UTC");
    }

    #[test]
    fn pages_show_what_there_is() {
        let check = |runs: &[RunResult], there: &[&str], missing: &[&str]| {
            let html = page(runs);
            for text in there {
                assert!(html.contains(text), "{text} is missing");
            }
            for text in missing {
                assert!(!html.contains(text), "{text} is there");
            }
            assert!(html.ends_with("</body></html>\n"));
        };
        check(
            &[fixture::closed()],
            &["<h1>Load test: first</h1>", "closed loop", "Rate over time", "Latency over time"],
            &["Errors over time", "Latency by rate", "Do not trust", "data-name=\"corrected\""],
        );
        check(
            &[fixture::paced()],
            &["data-name=\"corrected\"", "data-name=\"uncorrected\"", "Errors over time", "TLSv1.3"],
            &["Latency by rate"],
        );
        check(
            &[fixture::ramp()],
            &["Latency by rate", "no: p99 6.1 ms, goal 5 ms", "highest rate that held p99&lt;5ms"],
            &[],
        );
        check(&[fixture::starved()], &["Do not trust these latencies", "99 % of a core"], &[]);
        check(
            &[fixture::closed(), fixture::paced(), fixture::closed()],
            &[
                "<h1>Load tests: first, second, first (2)</h1>",
                "data-name=\"second, corrected\"",
                "<th>first (2)</th>",
            ],
            &[],
        );
        check(&[], &["<h1>Load tests: </h1>"], &["<svg"]);
    }

    #[test]
    fn pictures_stand_alone() {
        let runs =
            ["one", "two", "<three>"].map(|name| RunResult { label: name.to_owned(), ..fixture::paced() });
        let picture = percentile_picture("a & b", &runs);
        assert!(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 440\">"));
        assert_eq!((picture.matches("<svg ").count(), picture.matches("</svg>").count()), (2, 2));
        for text in ["a &amp; b", "one, corrected", "&lt;three&gt;, corrected", "99.9%", ".s2 {"] {
            assert!(picture.contains(text), "{text} is missing");
        }
        // With three runs the page shows these only when asked to.
        assert!(!picture.contains("uncorrected") && !picture.contains("<three>"));
        assert_eq!(
            percentile_picture("nothing", &[RunResult { times: Default::default(), ..fixture::paced() }]),
            ""
        );
    }

    #[test]
    fn text_of_strangers_stays_text() {
        const EVIL: &str = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
        let mut run = fixture::ramp();
        run.label = EVIL.to_owned();
        run.tool = EVIL.to_owned();
        run.plan.targets[0].url = EVIL.to_owned();
        run.plan.targets[0].method = EVIL.to_owned();
        run.plan.goal = Some(EVIL.to_owned());
        run.totals.errors.examples = vec![EVIL.to_owned()];
        run.steps[1].reason = Some(EVIL.to_owned());
        if let Some(server) = &mut run.server {
            server.software = EVIL.to_owned();
        }
        for runs in [vec![run.clone()], vec![run.clone(), run]] {
            let html = page(&runs);
            assert!(!html.contains("<script>alert") && !html.contains("<img") && html.contains("&lt;img"));
            assert_eq!(html.matches("<script>").count(), 1);
            assert_eq!(html.matches("</script>").count(), 1);
        }
    }

    #[test]
    fn figures_that_are_none_do_no_harm() {
        let mut run = fixture::paced();
        run.elapsed_seconds = f64::NAN;
        run.times = crate::result::Times::default();
        run.intervals =
            vec![Interval { seconds: f64::INFINITY, at_seconds: f64::NAN, ..Interval::default() }];
        run.intervals.push(Interval {
            p99_seconds: Some(f64::INFINITY),
            answers: u64::MAX,
            seconds: 1e-9,
            ..Interval::default()
        });
        let html = page(&[run.clone(), run]);
        assert!(html.len() < 1_000_000);
    }
}
