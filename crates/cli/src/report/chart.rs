//! Charts of lines as SVG, drawn by hand so that the page needs nothing from elsewhere; bars where nothing is swept.
//!
//! What was measured is filled and solid; every other kind of evidence is hollow and dashed, and the legend names it.

use std::fmt::Write;

use super::bars::{Bar, Bars, Group, caption, named_kind};
use super::html::escape;
use super::scale::Scale;

/// A chart of lines over an axis, or of bars if nothing is swept.
#[derive(Debug, Default)]
pub(super) struct Chart {
    pub(super) title: String,
    /// Under the title: what is held fixed, and where kinds of evidence meet.
    pub(super) notes: Vec<String>,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) series: Vec<Series>,
    /// How a value of either axis is written.
    pub(super) x_text: Option<fn(f64) -> String>,
    pub(super) y_text: Option<fn(f64) -> String>,
    /// The marks of the y axis; empty for round numbers.
    pub(super) y_ticks: &'static [(f64, &'static str)],
    /// Whether the x axis has marks at round numbers, not at the points.
    pub(super) is_x_round: bool,
}

/// Points that belong together.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// `measured`, `simulated`, `emulated`, `published`.
    pub(super) kind: &'static str,
    pub(super) points: Vec<Point>,
}

/// One number.
#[derive(Debug)]
pub(super) struct Point {
    /// `None`: holds for every x.
    pub(super) x: Option<f64>,
    pub(super) y: f64,
    pub(super) interval: Option<(f64, f64)>,
    /// Whether the record's verdict is against it.
    pub(super) is_unstable: bool,
    /// Whether it has a mark; a line passes through the others.
    pub(super) is_marked: bool,
    /// Written beside the point; only published figures need it.
    pub(super) label: Option<String>,
    /// Said when it is pointed at.
    pub(super) tip: String,
    /// The record's place on the page.
    pub(super) href: String,
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 82.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 52.0;
/// Marks of the x axis are at least so far apart.
const TICK_GAP: f64 = 34.0;

impl Chart {
    /// The chart and its legend.
    pub(super) fn html(&self) -> String {
        let xs = self.xs();
        if xs.len() < 2 {
            return self.bars().html();
        }
        format!(
            "<figure>{}{}{}</figure>",
            caption(&self.title, &self.notes, &self.kinds()),
            self.lines(&xs),
            self.legend()
        )
    }

    /// The chart for a terminal of `columns` characters: bars, grouped by the axis.
    pub(super) fn to_text(&self, columns: usize) -> String {
        let xs = self.xs();
        match xs.len() < 2 {
            true => self.bars().to_text(columns),
            false if !self.y_ticks.is_empty() => self.turned().to_text(columns),
            false => self.grouped(&xs).to_text(columns),
        }
    }

    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        for series in &self.series {
            if !kinds.contains(&series.kind) {
                kinds.push(series.kind);
            }
        }
        kinds
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// The values of x that were measured, ascending.
    fn xs(&self) -> Vec<f64> {
        let of_kind = |published: bool| {
            let series = self.series.iter();
            let series = series.filter(move |series| (series.kind == "published") == published);
            series.flat_map(|series| series.points.iter().filter_map(|point| point.x))
        };
        let mut xs: Vec<f64> = of_kind(false).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        // Published points widen the axis of a sweep, they do not make one.
        if xs.len() > 1 {
            xs.extend(of_kind(true));
            xs.sort_by(f64::total_cmp);
            xs.dedup();
        }
        xs
    }

    fn lines(&self, xs: &[f64]) -> String {
        let x = Scale::over(xs.iter().copied(), LEFT + 14.0, WIDTH - RIGHT - 14.0, true);
        let highest = self.points().map(Point::top);
        let lowest = self.points().map(Point::foot);
        let y = Scale::over(lowest.chain(highest), HEIGHT - BOTTOM, TOP, false);
        let mut svg = self.open(HEIGHT);
        let mut labels = Labels::default();
        self.grid(&mut svg, &x, &y, xs);
        for (at, series) in self.series.iter().enumerate() {
            let _ = write!(svg, "<g class=\"c{} {}\">", at % 8, series.kind);
            let mut points: Vec<&Point> = series.points.iter().collect();
            points.sort_by(|a, b| a.x.unwrap_or(0.0).total_cmp(&b.x.unwrap_or(0.0)));
            let path: Vec<String> = points
                .iter()
                .filter_map(|point| Some(format!("{:.1},{:.1}", x.at(point.x?), y.at(point.y))))
                .collect();
            let _ = write!(svg, "<polyline points=\"{}\"/>", path.join(" "));
            for point in points.into_iter().filter(|point| point.is_marked) {
                mark(&mut svg, point, at, (&x, &y), &mut labels);
            }
            svg.push_str("</g>");
        }
        svg + &labels.svg + "</svg>"
    }

    fn open(&self, height: f64) -> String {
        let title = escape(&self.title);
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"group\" aria-label=\"{title}\">")
    }

    fn grid(&self, svg: &mut String, x: &Scale, y: &Scale, xs: &[f64]) {
        let (x_text, y_text) = (self.x_text.unwrap_or(plain), self.y_text.unwrap_or(plain));
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let own = self
            .y_ticks
            .iter()
            .map(|(at, text)| (*at, (*text).to_owned()));
        let mut ticks: Vec<(f64, String)> = own.filter(|(at, _)| *at <= y.high).collect();
        if ticks.is_empty() {
            ticks = y.ticks().into_iter().map(|at| (at, y_text(at))).collect();
        }
        for (value, text) in ticks {
            let at = y.at(value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                escape(&text)
            );
        }
        let marks = match self.is_x_round {
            true => x.ticks(),
            false => xs.to_vec(),
        };
        self.x_marks(svg, x, &marks, x_text);
        let scale = |log: bool| if log { " (log scale)" } else { "" };
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}{}</text>\
             <text class=\"label y\" transform=\"translate(15,{:.1}) rotate(-90)\" text-anchor=\"middle\">{}{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            escape(&self.x_label),
            scale(x.log),
            (TOP + bottom) / 2.0,
            escape(&self.y_label),
            scale(y.log),
        );
    }

    /// Marks of the x axis. On a phone, where letters are larger, only every other one has its text.
    fn x_marks(&self, svg: &mut String, x: &Scale, marks: &[f64], text: fn(f64) -> String) {
        let bottom = HEIGHT - BOTTOM;
        let mut last = f64::NEG_INFINITY;
        let mut is_minor = true;
        for &value in marks {
            let at = x.at(value);
            if at - last < TICK_GAP {
                continue;
            }
            last = at;
            is_minor = !is_minor;
            let class = if is_minor { "tick minor" } else { "tick" };
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text class=\"{class}\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 5.0,
                bottom + 19.0,
                escape(&text(value))
            );
        }
    }

    /// One bar a point, longest first within its kind, measured before the rest.
    fn bars(&self) -> Bars {
        let mut bars = self.bars_where(|_| true);
        bars.sort_by(|a, b| {
            let rank = |bar: &Bar| bar.kind != "measured";
            rank(a).cmp(&rank(b)).then(b.value.total_cmp(&a.value))
        });
        self.with_groups(vec![Group {
            name: String::new(),
            bars,
        }])
    }

    /// A group of bars for each value of x.
    fn grouped(&self, xs: &[f64]) -> Bars {
        let x_text = self.x_text.unwrap_or(plain);
        let groups = xs.iter().map(|&x| Group {
            name: format!("{} {}", x_text(x), self.x_label),
            bars: self.bars_where(|point| point.x == Some(x)),
        });
        self.with_groups(groups.collect())
    }

    /// A group of bars for each mark of the y axis, as long as the x of the points there.
    fn turned(&self) -> Bars {
        let groups = self.y_ticks.iter().map(|&(at, text)| {
            let mut bars = self.bars_where(|point| point.is_marked && point.y == at);
            let xs = self
                .points()
                .filter(|point| point.is_marked && point.y == at);
            for (bar, x) in bars.iter_mut().zip(xs.filter_map(|point| point.x)) {
                bar.value = x;
            }
            Group {
                name: text.to_owned(),
                bars,
            }
        });
        let groups = groups.filter(|group| !group.bars.is_empty());
        Bars {
            label: self.x_label.clone(),
            text: self.x_text.unwrap_or(plain),
            may_be_log: true,
            ..self.with_groups(groups.collect())
        }
    }

    fn with_groups(&self, groups: Vec<Group>) -> Bars {
        Bars {
            title: self.title.clone(),
            notes: self.notes.clone(),
            label: self.y_label.clone(),
            text: self.y_text.unwrap_or(plain),
            may_be_log: false,
            groups,
        }
    }

    fn bars_where(&self, is_in: impl Fn(&Point) -> bool) -> Vec<Bar> {
        let mut bars = Vec::new();
        for (colour, series) in self.series.iter().enumerate() {
            bars.extend(
                series
                    .points
                    .iter()
                    .filter(|point| is_in(point))
                    .map(|point| Bar {
                        name: point.label.clone().unwrap_or_else(|| series.name.clone()),
                        kind: series.kind,
                        colour,
                        value: point.y,
                        interval: point.interval,
                        is_unstable: point.is_unstable,
                        tip: point.tip.clone(),
                        href: point.href.clone(),
                    }),
            );
        }
        bars
    }

    fn legend(&self) -> String {
        let mut html = String::from("<ul class=\"legend\">");
        for (at, series) in self.series.iter().enumerate() {
            let kind = named_kind(series.kind);
            let mut key = String::new();
            let _ = write!(key, "<line x1=\"0\" x2=\"28\" y1=\"8\" y2=\"8\"/>");
            shape(&mut key, at, 14.0, 8.0);
            let _ = write!(
                html,
                "<li><svg viewBox=\"0 0 28 16\" class=\"key\" aria-hidden=\"true\"><g class=\"c{} {}\">{key}</g></svg>{}{kind}</li>",
                at % 8,
                series.kind,
                escape(&series.name),
            );
        }
        if self
            .points()
            .any(|point| point.is_unstable && point.is_marked)
        {
            html.push_str(
                "<li><svg viewBox=\"0 0 28 16\" class=\"key\" aria-hidden=\"true\"><circle class=\"shaky\" cx=\"14\" cy=\"8\" r=\"7\"/></svg>ring: unstable</li>",
            );
        }
        html + "</ul>"
    }
}

impl Point {
    fn top(&self) -> f64 {
        self.interval.map_or(self.y, |(_, high)| high.max(self.y))
    }

    fn foot(&self) -> f64 {
        self.interval.map_or(self.y, |(low, _)| low.min(self.y))
    }
}

/// One point with its interval and label; without an x, a line across.
fn mark(
    svg: &mut String,
    point: &Point,
    series: usize,
    (x, y): (&Scale, &Scale),
    labels: &mut Labels,
) {
    let at_y = y.at(point.y);
    let tip = escape(&point.tip);
    let href = escape(&point.href);
    let Some(at_x) = point.x.map(|value| x.at(value)) else {
        let right = WIDTH - RIGHT;
        let _ = write!(
            svg,
            "<a class=\"pt\" href=\"#{href}\" data-tip=\"{tip}\" aria-label=\"{tip}\">\
             <line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at_y:.1}\" y2=\"{at_y:.1}\"/></a>"
        );
        labels.place(
            point.label.as_deref().unwrap_or_default(),
            right,
            at_y - 5.0,
            true,
        );
        return;
    };
    if let Some((low, high)) = point.interval {
        let (low, high) = (y.at(low), y.at(high));
        let _ = write!(
            svg,
            "<path class=\"ci\" d=\"M{at_x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8\"/>",
            at_x - 4.0,
            at_x - 4.0
        );
    }
    let _ = write!(
        svg,
        "<a class=\"pt\" href=\"#{href}\" data-tip=\"{tip}\" aria-label=\"{tip}\">"
    );
    shape(svg, series, at_x, at_y);
    if point.is_unstable {
        let _ = write!(
            svg,
            "<circle class=\"shaky\" cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"9\"/>"
        );
    }
    svg.push_str("</a>");
    if let Some(label) = &point.label {
        let is_left = at_x > WIDTH / 2.0;
        let beside = if is_left { at_x - 9.0 } else { at_x + 9.0 };
        labels.place(label, beside, at_y - 7.0, is_left);
    }
}

/// Names beside points, none upon another; drawn last, so that no line crosses them.
#[derive(Default)]
struct Labels {
    svg: String,
    taken: Vec<(f64, f64, f64)>,
}

impl Labels {
    /// Writes `text` from or, if `is_left`, up to `x`, as near below `y` as there is room.
    fn place(&mut self, text: &str, x: f64, y: f64, is_left: bool) {
        let wide = text.chars().count() as f64 * 6.2;
        let (from, to) = if is_left {
            (x - wide, x)
        } else {
            (x, x + wide)
        };
        let mut y = y;
        while self
            .taken
            .iter()
            .any(|&(left, right, at)| from < right && left < to && (at - y).abs() < 12.0)
        {
            y += 12.0;
        }
        self.taken.push((from, to, y));
        let anchor = if is_left { "end" } else { "start" };
        let _ = write!(
            self.svg,
            "<text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        );
    }
}

/// A mark whose form tells series apart without colour.
fn shape(svg: &mut String, series: usize, x: f64, y: f64) {
    let _ = match series % 4 {
        0 => write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"),
        1 => write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\"/>",
            x - 4.5,
            y - 4.5
        ),
        2 => write!(svg, "<path d=\"M{x:.1} {:.1}l6 10h-12z\"/>", y - 6.0),
        _ => write!(svg, "<path d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6z\"/>", y - 6.0),
    };
}

fn plain(value: f64) -> String {
    value.to_string()
}
