//! A plane of two components: points of two sets, the hull of the first, and what pulls which way.

use std::fmt::Write;

use super::bars::caption;
use super::html::escape;

/// One plane.
pub(super) struct Scatter {
    pub(super) title: String,
    pub(super) notes: Vec<String>,
    /// The kind of evidence.
    pub(super) kind: &'static str,
    pub(super) x_label: String,
    pub(super) y_label: String,
    /// The two sets.
    pub(super) names: [&'static str; 2],
    pub(super) dots: Vec<Dot>,
    pub(super) arrows: Vec<Arrow>,
}

/// One point.
pub(super) struct Dot {
    pub(super) name: String,
    pub(super) at: (f64, f64),
    /// True if it is of the second set.
    pub(super) is_second: bool,
    /// The record's place on the page.
    pub(super) href: String,
}

/// A column's loadings on both components.
pub(super) struct Arrow {
    pub(super) name: String,
    pub(super) to: (f64, f64),
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 46.0;
/// The share of the way to the border that the longest arrow has.
const ARROW: f64 = 0.75;
/// More names than these would lie on each other; the rest are said when pointed at.
const NAMES_MAX: usize = 24;
/// Height of a name.
const LINE: f64 = 17.0;

impl Scatter {
    /// The chart and its legend.
    pub(super) fn html(&self) -> String {
        let reach = |part: fn(&(f64, f64)) -> f64| {
            let far = self
                .dots
                .iter()
                .map(|dot| part(&dot.at).abs())
                .fold(0.0, f64::max);
            if far > 0.0 { far * 1.08 } else { 1.0 }
        };
        let reach = (reach(|at| at.0), reach(|at| at.1));
        let place = |(x, y): (f64, f64)| {
            let half = (WIDTH / 2.0 - MARGIN, HEIGHT / 2.0 - MARGIN);
            (
                WIDTH / 2.0 + x / reach.0 * half.0,
                HEIGHT / 2.0 - y / reach.1 * half.1,
            )
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"group\" aria-label=\"{}\">",
            escape(&self.title)
        );
        self.frame(&mut svg);
        self.hull(&mut svg, &place);
        self.pulls(&mut svg, reach, &place);
        self.points(&mut svg, &place);
        svg.push_str("</svg>");
        format!(
            "<figure>{}{svg}{}</figure>",
            caption(&self.title, &self.notes, &[self.kind]),
            self.legend()
        )
    }

    fn frame(&self, svg: &mut String) {
        let (x, y) = (WIDTH / 2.0, HEIGHT / 2.0);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{MARGIN}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\"/><line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"{MARGIN}\" y2=\"{:.1}\"/>\
             <text class=\"label\" x=\"{x}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text class=\"label\" x=\"8\" y=\"22\">{}</text>",
            WIDTH - MARGIN,
            HEIGHT - MARGIN,
            HEIGHT - 8.0,
            escape(&format!("{} →", self.x_label)),
            escape(&format!("{} ↑", self.y_label)),
        );
    }

    fn hull(&self, svg: &mut String, place: &impl Fn((f64, f64)) -> (f64, f64)) {
        let first = self
            .dots
            .iter()
            .filter(|dot| !dot.is_second)
            .map(|dot| dot.at);
        let corners: Vec<String> = outline(first.collect())
            .into_iter()
            .map(|at| {
                let (x, y) = place(at);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        if corners.len() > 2 {
            let _ = write!(
                svg,
                "<polygon class=\"hull\" points=\"{}\"/>",
                corners.join(" ")
            );
        }
    }

    /// The arrows share one scale, so that their lengths can be compared.
    fn pulls(
        &self,
        svg: &mut String,
        reach: (f64, f64),
        place: &impl Fn((f64, f64)) -> (f64, f64),
    ) {
        let far = self
            .arrows
            .iter()
            .map(|arrow| arrow.to.0.abs().max(arrow.to.1.abs()))
            .fold(0.0, f64::max);
        if far == 0.0 {
            return;
        }
        let (from_x, from_y) = place((0.0, 0.0));
        for arrow in &self.arrows {
            let to = (
                arrow.to.0 / far * ARROW * reach.0,
                arrow.to.1 / far * ARROW * reach.1,
            );
            let (x, y) = place(to);
            let anchor = if x < from_x { "end" } else { "start" };
            let _ = write!(
                svg,
                "<line class=\"pull\" x1=\"{from_x:.1}\" y1=\"{from_y:.1}\" x2=\"{x:.1}\" y2=\"{y:.1}\"/><text class=\"pulled\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                escape(&arrow.name)
            );
        }
    }

    fn points(&self, svg: &mut String, place: &impl Fn((f64, f64)) -> (f64, f64)) {
        let mut taken: Vec<(f64, f64)> = Vec::new();
        let named = self.dots.len() <= NAMES_MAX;
        for dot in &self.dots {
            let (x, y) = place(dot.at);
            let tip = escape(&format!("{}: {:.2}, {:.2}", dot.name, dot.at.0, dot.at.1));
            let _ = write!(
                svg,
                "<g class=\"c{} {}\"><a class=\"pt\" href=\"#{}\" data-tip=\"{tip}\" aria-label=\"{tip}\">",
                usize::from(dot.is_second),
                self.kind,
                escape(&dot.href)
            );
            mark(svg, dot.is_second, x, y);
            svg.push_str("</a></g>");
            if named || dot.is_second {
                let mut at = y - 7.0;
                while taken.iter().any(|(other_x, other_y)| {
                    (other_x - x).abs() < 90.0 && (other_y - at).abs() < LINE
                }) {
                    at += LINE;
                }
                taken.push((x, at));
                let (beside, anchor) = if x > WIDTH * 0.7 {
                    (x - 8.0, "end")
                } else {
                    (x + 8.0, "start")
                };
                let _ = write!(
                    svg,
                    "<text class=\"name\" x=\"{beside:.1}\" y=\"{at:.1}\" text-anchor=\"{anchor}\">{}</text>",
                    escape(&short(&dot.name))
                );
            }
        }
    }

    fn legend(&self) -> String {
        let mut html = String::from("<ul class=\"legend\">");
        for (at, name) in self.names.iter().enumerate() {
            let mut key = String::new();
            mark(&mut key, at == 1, 14.0, 8.0);
            let _ = write!(
                html,
                "<li><svg viewBox=\"0 0 28 16\" class=\"key\" aria-hidden=\"true\"><g class=\"c{at} {}\">{key}</g></svg>{name}{}</li>",
                self.kind,
                super::bars::named_kind(self.kind)
            );
        }
        html + "<li>lines: what pulls a point that way</li></ul>"
    }
}

fn mark(svg: &mut String, is_second: bool, x: f64, y: f64) {
    let _ = match is_second {
        false => write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>"),
        true => write!(svg, "<path d=\"M{x:.1} {:.1}l6 10h-12z\"/>", y - 6.0),
    };
}

/// A name as long as there is room for.
pub(super) fn short(name: &str) -> String {
    const LETTERS_MAX: usize = 22;
    match name.chars().count() > LETTERS_MAX {
        true => name.chars().take(LETTERS_MAX - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// The corners of the convex hull, in order (Andrew's monotone chain).
fn outline(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.dedup();
    let half = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        let mut corners: Vec<(f64, f64)> = Vec::new();
        for point in points {
            while let [.., a, b] = corners[..] {
                let turn = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
                if turn > 0.0 {
                    break;
                }
                corners.pop();
            }
            corners.push(point);
        }
        corners.pop();
        corners
    };
    let mut corners = half(&mut points.iter().copied());
    corners.extend(half(&mut points.iter().rev().copied()));
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_has_the_corners_alone() {
        let square = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)];
        let mut points = square.to_vec();
        points.extend([(1.0, 1.0), (1.0, 0.0), (2.0, 0.0)]);
        assert_eq!(outline(points), square);
        assert!(outline(vec![(1.0, 1.0); 3]).len() < 3);
    }
}
