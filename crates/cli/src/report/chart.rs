//! Charts as SVG, drawn by hand so that the page needs nothing from elsewhere.
//!
//! What was measured is filled and solid; every other kind of evidence is hollow and dashed, and the legend names it.

use std::fmt::Write;

use super::html::escape;

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
const BAR: f64 = 30.0;
/// Where bars begin: right of their names.
const BAR_LEFT: f64 = 190.0;

impl Chart {
    /// The chart and its legend.
    pub(super) fn html(&self) -> String {
        let xs = self.xs();
        let is_swept = xs.len() > 1;
        let body = if is_swept {
            self.lines(&xs)
        } else {
            self.bars()
        };
        let mut html = format!("<figure><figcaption><h3>{}</h3>", escape(&self.title));
        for note in &self.notes {
            let _ = write!(html, "<p>{}</p>", escape(note));
        }
        if self.kinds().len() > 1 {
            let kinds = self.kinds().join(" and ");
            let _ = write!(
                html,
                "<p class=\"mixed\">Two kinds of evidence on one axis: {kinds}. Only filled marks are measured.</p>"
            );
        }
        let legend = if is_swept {
            self.legend()
        } else {
            String::new()
        };
        let _ = write!(html, "</figcaption>{body}{legend}</figure>");
        html
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
            for point in points {
                mark(&mut svg, point, at, (&x, &y), &mut labels);
            }
            svg.push_str("</g>");
        }
        svg + &labels.svg + "</svg>"
    }

    fn open(&self, height: f64) -> String {
        let title = escape(&self.title);
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">")
    }

    fn grid(&self, svg: &mut String, x: &Scale, y: &Scale, xs: &[f64]) {
        let (x_text, y_text) = (self.x_text.unwrap_or(plain), self.y_text.unwrap_or(plain));
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y.ticks() {
            let at = y.at(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                escape(&y_text(tick))
            );
        }
        let mut last = f64::NEG_INFINITY;
        for &value in xs {
            let at = x.at(value);
            if at - last < 34.0 {
                continue;
            }
            last = at;
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 5.0,
                bottom + 19.0,
                escape(&x_text(value))
            );
        }
        let scale = |log: bool| if log { " (log scale)" } else { "" };
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}{}</text>\
             <text class=\"label\" transform=\"translate(15,{:.1}) rotate(-90)\" text-anchor=\"middle\">{}{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            escape(&self.x_label),
            scale(x.log),
            (TOP + bottom) / 2.0,
            escape(&self.y_label),
            scale(y.log),
        );
    }

    /// One bar a point, longest first within its kind, measured before the rest.
    fn bars(&self) -> String {
        let y_text = self.y_text.unwrap_or(plain);
        let mut bars: Vec<(usize, &Series, &Point)> = Vec::new();
        for (at, series) in self.series.iter().enumerate() {
            bars.extend(series.points.iter().map(|point| (at, series, point)));
        }
        bars.sort_by(|a, b| {
            let rank = |series: &Series| series.kind != "measured";
            rank(a.1).cmp(&rank(b.1)).then(b.2.y.total_cmp(&a.2.y))
        });
        let height = bars.len() as f64 * BAR + 44.0;
        let top = self.points().map(Point::top).fold(0.0, f64::max);
        let scale = Scale {
            low: 0.0,
            high: if top > 0.0 { top } else { 1.0 },
            from: BAR_LEFT,
            to: WIDTH - 80.0,
            log: false,
        };
        let mut svg = self.open(height);
        for (row, (at, series, point)) in bars.iter().enumerate() {
            let y = row as f64 * BAR + 8.0;
            let end = scale.at(point.y);
            let name = point.label.as_ref().unwrap_or(&series.name);
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <g class=\"c{} {}\"><a class=\"pt\" href=\"#{}\" data-tip=\"{}\" aria-label=\"{}\">\
                 <rect x=\"{BAR_LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/></a>",
                BAR_LEFT - 10.0,
                y + 14.0,
                escape(name),
                at % 8,
                series.kind,
                escape(&point.href),
                escape(&point.tip),
                escape(&point.tip),
                (end - BAR_LEFT).max(1.0),
                BAR - 10.0,
            );
            if let Some((low, high)) = point.interval {
                let (low, high, middle) = (scale.at(low), scale.at(high), y + (BAR - 10.0) / 2.0);
                let _ = write!(
                    svg,
                    "<path class=\"ci\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\"/>",
                    middle - 4.0,
                    middle - 4.0
                );
            }
            let beside = point
                .interval
                .map_or(end, |(_, high)| scale.at(high).max(end))
                + 8.0;
            let _ = write!(
                svg,
                "</g><text class=\"value\" x=\"{beside:.1}\" y=\"{:.1}\">{}</text>",
                y + 14.0,
                escape(&y_text(point.y))
            );
        }
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{BAR_LEFT}\" y=\"{:.1}\">{}</text></svg>",
            height - 12.0,
            escape(&self.y_label)
        );
        svg
    }

    fn legend(&self) -> String {
        let mut html = String::from("<ul class=\"legend\">");
        for (at, series) in self.series.iter().enumerate() {
            let kind = match series.kind {
                "measured" => String::new(),
                kind => format!(" <em>{kind}</em>"),
            };
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

/// From values to places.
#[derive(Debug)]
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// Over all values: logarithmic if they are positive and span a factor of eight; else from zero, or for `tight` from
    /// the lowest.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64, tight: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let log = low > 0.0 && high / low >= 8.0;
        match (tight, log) {
            (true, _) => {}
            (false, true) => (low, high) = (low / 1.3, high * 1.3),
            (false, false) => {
                (low, high) = (low.min(0.0), if high > 0.0 { high * 1.08 } else { 1.0 })
            }
        }
        if low == high {
            high = low + 1.0;
        }
        Self {
            low,
            high,
            from,
            to,
            log,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// Round numbers inside.
    fn ticks(&self) -> Vec<f64> {
        let inside = |value: &f64| (self.low..=self.high * 1.000_001).contains(value);
        if self.log {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let steps: &[f64] = match self.high / self.low {
                span if span > 2000.0 => &[1.0],
                span if span > 50.0 => &[1.0, 3.0],
                _ => &[1.0, 2.0, 5.0],
            };
            let all =
                decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
            return all.filter(inside).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|step| step * power);
        let step = step.clone().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..first + 8)
            .map(|at| at as f64 * step)
            .filter(inside)
            .collect()
    }
}

fn plain(value: f64) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_put_ends_at_ends_and_ticks_inside() {
        for values in [
            [1.0, 1000.0],
            [0.0, 7.0],
            [5.0, 5.0],
            [0.001, 0.1],
            [-3.0, 4.0],
        ] {
            let scale = Scale::over(values.into_iter(), 10.0, 110.0, true);
            assert_eq!(scale.at(scale.low), 10.0);
            assert!((scale.at(scale.high) - 110.0).abs() < 1e-9);
            assert!(!scale.ticks().is_empty(), "{values:?}");
            for tick in scale.ticks() {
                assert!(
                    (9.9..=110.1).contains(&scale.at(tick)),
                    "{values:?}: {tick}"
                );
            }
        }
    }

    #[test]
    fn nothing_finite_is_no_panic() {
        let scale = Scale::over([f64::NAN, f64::INFINITY].into_iter(), 0.0, 1.0, false);
        assert!(scale.at(0.5).is_finite());
    }
}
