//! Line plots as SVG: axes with round tick marks, lines with names, nothing that overlaps.
//!
//! Owns the drawing only.  How it looks is the page's style sheet (classes `s0` to `s7` for lines, `dashed`, `off`), and
//! the page's script shows values under the pointer from the `data-` attributes.

use super::units;

/// Lines have so many colours; more lines than that begin anew.
pub const COLORS: usize = 8;

/// Most points of a line: more would not be seen.
pub const MAX_POINTS: usize = 1000;

/// Width of a digit in the page's font at the size of tick labels, in pixels.
const DIGIT: f64 = 7.6;

/// Pixels for the title and the names above a picture's plot.
pub const PICTURE_HEAD: u32 = 60;

/// The page's look in one set of colours.
const PICTURE_STYLE: &str = include_str!("page/picture.css");

/// How values become distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By powers of ten.
    Log,
    /// Shares below 1 by how close they come to it: 0.9, 0.99 and 0.999 at even distances (HdrHistogram's axis).
    Nines,
}

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds that something took.
    Time,
    /// Things a second.
    Rate,
    /// A number of things.
    Number,
    /// A share of 1, shown in percent.
    Share,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Number => "number",
            Self::Share => "share",
        }
    }

    /// A round value.
    fn label(self, value: f64) -> String {
        match self {
            Self::Time => units::short_time(value),
            Self::Rate | Self::Number => large(value),
            Self::Share => percent(value),
        }
    }
}

/// A round number; thousands and millions in short.
fn large(value: f64) -> String {
    if value >= 1e6 {
        format!("{}M", units::short(value / 1e6))
    } else if value >= 1e4 {
        format!("{}k", units::short(value / 1e3))
    } else {
        units::rate(value)
    }
}

/// A share in percent with as many digits as it has nines.
fn percent(share: f64) -> String {
    let decimals = if share < 0.995 { 0 } else { (nines(share).round() as usize).saturating_sub(2) };
    format!("{:.decimals$}%", share * 100.0)
}

/// How many nines a share has: 1 for 0.9, 2 for 0.99.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(f64::MIN_POSITIVE).log10()
}

/// One axis: what it shows, from where to where, and where its marks are.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows.
    pub title: String,
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// From 0 to a round number that is not below `most`, with about `wanted` marks.
    #[must_use]
    pub fn linear(title: &str, unit: Unit, most: f64, wanted: usize) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = round_step(most / wanted.max(1) as f64);
        let steps = (most / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps as usize).map(|number| number as f64 * step).collect();
        Self { title: title.to_owned(), scale: Scale::Linear, unit, low: 0.0, high: steps * step, ticks }
    }

    /// From 0 to `most` and no further than a mark close behind it: for the time of a run.
    #[must_use]
    pub fn exact(title: &str, unit: Unit, most: f64, wanted: usize) -> Self {
        /// A mark that is so close to the end belongs to it.
        const NEAR: f64 = 1.02;
        let mut axis = Self::linear(title, unit, most, wanted);
        if most.is_finite() && most > 0.0 {
            axis.ticks.retain(|tick| *tick <= most * NEAR);
            axis.high = axis.ticks.last().map_or(most, |last| last.max(most));
        }
        axis
    }

    /// By powers of ten around `least` and `most`, both above 0.
    #[must_use]
    pub fn log(title: &str, unit: Unit, least: f64, most: f64) -> Self {
        /// Below it nothing is measured, in any unit.
        const FLOOR: f64 = 1e-8;
        let least = if least.is_finite() { least.max(FLOOR) } else { FLOOR };
        let most = if most.is_finite() { most.max(least * 1.01) } else { least * 10.0 };
        let decades = (most / least).log10();
        let marks: usize = if decades > 3.0 { 1 } else { 3 };
        let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let marked = |marks: usize| {
            let marks = [1.0, 2.0, 5.0].into_iter().take(marks);
            let all =
                (first..=last).flat_map(move |power| marks.clone().map(move |mark| mark * 10f64.powi(power)));
            all.collect::<Vec<f64>>()
        };
        let all = marked(3);
        // From the last mark below to the first one above.
        let low = all.iter().copied().rfind(|tick| *tick <= least * 1.000_001).unwrap_or(least);
        let high = all.iter().copied().find(|tick| *tick >= most * 0.999_999).unwrap_or(most);
        let ticks = marked(marks).into_iter().filter(|tick| (low..=high).contains(tick)).collect();
        Self { title: title.to_owned(), scale: Scale::Log, unit, low, high, ticks }
    }

    /// Percentiles up to the last that `count` samples can tell.
    #[must_use]
    pub fn percentiles(title: &str, count: u64) -> Self {
        let most = nines_of(count).max(1.0);
        let whole = (1..=most.floor() as i32).map(|nines| 1.0 - 10f64.powi(-nines));
        let ticks = [0.0, 0.5].into_iter().chain(whole).collect();
        let high = 1.0 - 10f64.powf(-most);
        Self { title: title.to_owned(), scale: Scale::Nines, unit: Unit::Share, low: 0.0, high, ticks }
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(self.low).log10(),
            Scale::Nines => nines(value.clamp(0.0, self.high)),
        }
    }

    /// Where a value is between the axis' ends, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let (low, high) = (self.place(self.low), self.place(self.high));
        ((self.place(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Its ends as the script needs them.
    fn data(&self) -> String {
        let scale = match self.scale {
            Scale::Linear => "linear",
            Scale::Log => "log",
            Scale::Nines => "nines",
        };
        format!("{scale} {} {} {}", self.place(self.low), self.place(self.high), self.unit.name())
    }
}

/// How many nines so many samples can tell apart.
#[must_use]
pub fn nines_of(count: u64) -> f64 {
    (count.max(1) as f64).log10()
}

/// 1, 2, 2.5 or 5 times a power of ten, not below `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| power * factor >= step * 0.999_999);
    power * factor.unwrap_or(10.0)
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Which of the colours.
    pub color: usize,
    /// Drawn with gaps.
    pub dashed: bool,
    /// Not shown until the reader asks for it.
    pub off: bool,
    /// Each point marked: for few points.
    pub marked: bool,
    /// In order of x.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows, for those who do not see it.
    pub description: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The lines, the last on top.
    pub lines: Vec<Line>,
}

/// Pixels.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Plot {
    /// Draws it in a box of so many pixels.
    #[must_use]
    pub fn svg(&self, width: u32, height: u32) -> String {
        let longest =
            self.y.ticks.iter().map(|tick| self.y.unit.label(*tick).chars().count()).max().unwrap_or(0);
        let left = (longest as f64 * DIGIT + 34.0).round();
        let frame = Frame {
            left,
            top: 10.0,
            width: f64::from(width) - left - 22.0,
            height: f64::from(height) - 10.0 - 46.0,
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\" data-frame=\"{} {} {} {}\" \
             data-x=\"{}\" data-y=\"{}\">\n",
            escape(&self.description),
            frame.left,
            frame.top,
            frame.width,
            frame.height,
            self.x.data(),
            self.y.data()
        );
        self.draw_y(&frame, &mut svg);
        self.draw_x(&frame, &mut svg);
        for line in &self.lines {
            self.draw_line(line, &frame, &mut svg);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_y(&self, frame: &Frame, svg: &mut String) {
        let Frame { left, top, width, height } = *frame;
        let mut last = f64::INFINITY;
        for tick in &self.y.ticks {
            let y = top + height * (1.0 - self.y.share(*tick));
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                left + width
            ));
            // A line of text needs its height.
            if last - y >= 16.0 {
                svg.push_str(&format!(
                    "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                    left - 7.0,
                    y + 4.0,
                    escape(&self.y.unit.label(*tick))
                ));
                last = y;
            }
        }
        let (x, y) = (13.0, top + height / 2.0);
        svg.push_str(&format!(
            "<text class=\"axis\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{}</text>\n",
            escape(&self.y.title)
        ));
    }

    fn draw_x(&self, frame: &Frame, svg: &mut String) {
        let Frame { left, top, width, height } = *frame;
        let bottom = top + height;
        svg.push_str(&format!(
            "<line class=\"base\" x1=\"{left}\" x2=\"{}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\n",
            left + width
        ));
        let mut free_from = f64::NEG_INFINITY;
        let every = self.label_every(width);
        for (number, tick) in self.x.ticks.iter().enumerate() {
            let x = left + width * self.x.share(*tick);
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{}\"/>",
                bottom + 4.0
            ));
            let label = self.x.unit.label(*tick);
            let half = label.chars().count() as f64 * DIGIT / 2.0;
            // Labels keep apart, and inside the picture.
            if number % every != 0 || x - half < free_from || x + half > left + width + 20.0 {
                continue;
            }
            free_from = x + half + 8.0;
            svg.push_str(&format!(
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 18.0,
                escape(&label)
            ));
        }
        svg.push_str(&format!(
            "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            left + width / 2.0,
            bottom + 38.0,
            escape(&self.x.title)
        ));
    }

    /// On an even axis every mark has a label, or every second one, ...; elsewhere as many as there is room for.
    fn label_every(&self, width: f64) -> usize {
        if self.x.scale != Scale::Linear || self.x.ticks.len() < 2 {
            return 1;
        }
        let longest =
            self.x.ticks.iter().map(|tick| self.x.unit.label(*tick).chars().count()).max().unwrap_or(0);
        let apart = width * (self.x.share(self.x.ticks[1]) - self.x.share(self.x.ticks[0]));
        ((longest as f64 * DIGIT + 8.0) / apart.max(1.0)).ceil().max(1.0) as usize
    }

    fn draw_line(&self, line: &Line, frame: &Frame, svg: &mut String) {
        let place = |(x, y): (f64, f64)| {
            (frame.left + frame.width * self.x.share(x), frame.top + frame.height * (1.0 - self.y.share(y)))
        };
        let shown = line.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite());
        let places: Vec<(f64, f64)> = shown.map(place).collect();
        let color = line.color % COLORS;
        let class = |name: &str| {
            let dashed = if line.dashed { " dashed" } else { "" };
            let off = if line.off { " off" } else { "" };
            format!("class=\"{name} s{color}{dashed}{off}\" data-name=\"{}\"", escape(&line.name))
        };
        let mut path = String::new();
        for (at, (x, y)) in places.iter().enumerate() {
            path.push_str(&format!("{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" }));
        }
        if !path.is_empty() {
            svg.push_str(&format!("<path {} d=\"{path}\"/>\n", class("line")));
        }
        if line.marked || places.len() == 1 {
            for (x, y) in places {
                svg.push_str(&format!("<circle {} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>", class("mark")));
            }
            svg.push('\n');
        }
    }

    /// A file of its own, in light colours: the title, the lines' names, and the plot, as high as [`PICTURE_HEAD`] more.
    #[must_use]
    pub fn picture(&self, title: &str, width: u32, height: u32) -> String {
        let whole = height + PICTURE_HEAD;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {whole}\">\n<style>\n{PICTURE_STYLE}</style>\n\
             <rect width=\"{width}\" height=\"{whole}\" fill=\"#ffffff\"/>\n\
             <text class=\"title\" x=\"16\" y=\"24\">{}</text>\n",
            escape(title)
        );
        let mut x = 16.0;
        for line in &self.lines {
            let (color, end) = (line.color % COLORS, x + 26.0);
            let dashed = if line.dashed { " dashed" } else { "" };
            svg.push_str(&format!(
                "<path class=\"line s{color}{dashed}\" d=\"M{x} 44L{end} 44\"/><text class=\"key\" x=\"{}\" y=\"48\">{}</text>\n",
                end + 6.0,
                escape(&line.name)
            ));
            x = end + 30.0 + line.name.chars().count() as f64 * DIGIT;
        }
        let place = format!("<svg y=\"{PICTURE_HEAD}\" width=\"{width}\" height=\"{height}\" ");
        svg.push_str(&self.svg(width, height).replacen("<svg ", &place, 1));
        svg.push_str("</svg>\n");
        svg
    }

    /// The lines' names with their colours, as a list that the script makes switches of.
    #[must_use]
    pub fn legend(&self) -> String {
        let mut html = "<ul class=\"legend\">".to_owned();
        for line in &self.lines {
            let (color, name) = (line.color % COLORS, escape(&line.name));
            let dashed = if line.dashed { " dashed" } else { "" };
            let off = if line.off { " off" } else { "" };
            html.push_str(&format!(
                "<li><button type=\"button\" class=\"key{off}\" data-name=\"{name}\"><svg viewBox=\"0 0 26 10\" \
                 aria-hidden=\"true\"><path class=\"line s{color}{dashed}\" d=\"M1 5L25 5\"/></svg>{name}</button></li>"
            ));
        }
        html.push_str("</ul>\n");
        html
    }
}

/// Brings a long line to [`MAX_POINTS`]: of neighbours the last x and what `pick` makes of their y.
#[must_use]
pub fn thinned(points: Vec<(f64, f64)>, pick: fn(&[f64]) -> f64) -> Vec<(f64, f64)> {
    if points.len() <= MAX_POINTS {
        return points;
    }
    let together = points.len().div_ceil(MAX_POINTS);
    let thin = |near: &[(f64, f64)]| {
        let values: Vec<f64> = near.iter().map(|(_, y)| *y).collect();
        near.last().map(|(x, _)| (*x, pick(&values)))
    };
    points.chunks(together).filter_map(thin).collect()
}

/// The highest of neighbours.
#[must_use]
pub fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The mean of neighbours.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Text as it may stand anywhere in a page: in an element and in an attribute with either kind of quotes.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Neither control characters nor those that turn the direction of text around.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            char if char.is_control() => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> String {
        axis.ticks.iter().map(|tick| axis.unit.label(*tick)).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn tick_marks_are_round() {
        let check = |axis: &Axis, expected: &str| assert_eq!(labels(axis), expected);
        check(&Axis::linear("", Unit::Time, 0.0123, 5), "0 | 2.5 ms | 5 ms | 7.5 ms | 10 ms | 12.5 ms");
        check(&Axis::linear("", Unit::Time, 0.010, 5), "0 | 2 ms | 4 ms | 6 ms | 8 ms | 10 ms");
        check(&Axis::linear("", Unit::Time, 1.9, 4), "0 | 500 ms | 1 s | 1.5 s | 2 s");
        check(&Axis::linear("", Unit::Rate, 23_456.0, 5), "0 | 5,000 | 10k | 15k | 20k | 25k");
        check(&Axis::linear("", Unit::Rate, 0.0, 5), "0 | 0.2 | 0.4 | 0.6 | 0.8 | 1");
        check(&Axis::linear("", Unit::Number, f64::NAN, 1), "0 | 1");
        check(&Axis::exact("", Unit::Time, 31.0, 6), "0 | 10 s | 20 s | 30 s");
        check(&Axis::exact("", Unit::Time, 9.99, 2), "0 | 5 s | 10 s");
        check(
            &Axis::log("", Unit::Time, 0.000_3, 0.04),
            "200 \u{b5}s | 500 \u{b5}s | 1 ms | 2 ms | 5 ms | 10 ms | 20 ms | 50 ms",
        );
        check(&Axis::log("", Unit::Time, 0.000_03, 3.0), "100 \u{b5}s | 1 ms | 10 ms | 100 ms | 1 s");
        check(&Axis::log("", Unit::Time, 0.001, 0.001), "1 ms | 2 ms");
        check(&Axis::log("", Unit::Time, 0.0, f64::INFINITY), "10 ns | 20 ns | 50 ns | 100 ns");
        check(
            &Axis::percentiles("", 1_000_000),
            "0% | 50% | 90% | 99% | 99.9% | 99.99% | 99.999% | 99.9999%",
        );
        check(&Axis::percentiles("", 0), "0% | 50% | 90%");
    }

    #[test]
    fn values_have_their_places() {
        let check = |axis: &Axis, value: f64, expected: f64| {
            let share = axis.share(value);
            assert!((share - expected).abs() < 1e-9, "{value}: {share}, expected {expected}");
        };
        let nines = Axis::percentiles("", 10_000);
        check(&nines, 0.0, 0.0);
        check(&nines, 0.9, 0.25);
        check(&nines, 0.99, 0.5);
        check(&nines, 1.0, 1.0);
        let log = Axis::log("", Unit::Time, 0.001, 0.1);
        check(&log, 0.01, 0.5);
        check(&log, 0.0, 0.0);
        check(&log, 7.0, 1.0);
        check(&Axis::linear("", Unit::Rate, 10.0, 5), 2.5, 0.25);
    }

    #[test]
    fn labels_of_an_axis_keep_apart() {
        let plot = Plot {
            description: String::new(),
            x: Axis::percentiles("", 1_000_000_000),
            y: Axis::linear("", Unit::Time, 1.0, 40),
            lines: Vec::new(),
        };
        for width in [300, 380, 1000] {
            let svg = plot.svg(width, 200);
            let places = |anchor: &str, attribute: &str| -> Vec<f64> {
                let texts =
                    svg.split("<text class=\"tick\"").skip(1).filter_map(|text| text.split('>').next());
                let texts = texts.filter(|text| text.contains(anchor));
                let place = |text: &str| text.split(attribute).nth(1)?.split('"').next()?.parse().ok();
                texts.filter_map(place).collect()
            };
            let apart =
                |places: &[f64], least: f64| places.windows(2).all(|two| (two[1] - two[0]).abs() >= least);
            assert!(apart(&places("middle", " x=\""), 20.0), "{width}");
            assert!(apart(&places("\"end\"", " y=\""), 15.0), "{width}");
        }
    }

    #[test]
    fn text_of_strangers_is_only_text() {
        let check = |text: &str, expected: &str| assert_eq!(escape(text), expected);
        check("a b", "a b");
        check("<script>alert('x')</script>", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
        check("\" onload=\"&", "&quot; onload=&quot;&amp;");
        check("a\u{0}b\u{202e}c\n", "a\u{fffd}b\u{fffd}c\u{fffd}");
    }

    #[test]
    fn long_lines_are_thinned() {
        let points: Vec<(f64, f64)> = (0..2500).map(|at| (f64::from(at), f64::from(at % 10))).collect();
        let thin = thinned(points, highest);
        assert_eq!(thin.len(), 834);
        assert_eq!(thin[0], (2.0, 2.0));
        assert_eq!(thinned(vec![(1.0, 2.0)], mean), [(1.0, 2.0)]);
    }
}
