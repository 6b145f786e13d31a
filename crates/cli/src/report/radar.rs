//! Radars: the figures of one operator or program around a circle. They show a shape; nothing is concluded from its area.

use std::f64::consts::TAU;
use std::fmt::Write;

use super::html::escape;

/// One radar.
pub(super) struct Radar {
    pub(super) title: String,
    /// The kind of evidence.
    pub(super) kind: &'static str,
    /// The place among the colours.
    pub(super) colour: usize,
    pub(super) axes: Vec<Axis>,
    /// The record's place on the page.
    pub(super) href: String,
}

/// One figure.
pub(super) struct Axis {
    pub(super) name: String,
    /// The part of the axis, 0 to 1.
    pub(super) share: f64,
    /// The value, as it is said when it is pointed at.
    pub(super) text: String,
}

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 210.0;
const RADIUS: f64 = 72.0;
/// Names stand so far outside.
const NAMES: f64 = 86.0;

impl Radar {
    /// The radar and its name.
    pub(super) fn html(&self) -> String {
        let said: Vec<String> = self
            .axes
            .iter()
            .map(|axis| format!("{} {}", axis.name, axis.text))
            .collect();
        let tip = escape(&format!("{}: {}", self.title, said.join(", ")));
        let mut svg =
            format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"group\" aria-label=\"{tip}\">");
        for ring in [0.5, 1.0] {
            let ring = self.polygon(|_| ring);
            let _ = write!(svg, "<polygon class=\"ring\" points=\"{ring}\"/>");
        }
        for at in 0..self.axes.len() {
            let (x, y) = self.point(at, RADIUS);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{y:.1}\"/>",
                WIDTH / 2.0,
                HEIGHT / 2.0
            );
        }
        let shape = self.polygon(|axis| axis.share.clamp(0.0, 1.0));
        let _ = write!(
            svg,
            "<g class=\"c{} {}\"><a class=\"pt web\" href=\"#{}\" data-tip=\"{tip}\" aria-label=\"{tip}\"><polygon points=\"{shape}\"/></a></g>",
            self.colour,
            self.kind,
            escape(&self.href)
        );
        for (at, axis) in self.axes.iter().enumerate() {
            let (x, y) = self.point(at, NAMES);
            let anchor = match x - WIDTH / 2.0 {
                beside if beside > 8.0 => "start",
                beside if beside < -8.0 => "end",
                _ => "middle",
            };
            let _ = write!(
                svg,
                "<text class=\"spoke\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                y + 4.0,
                escape(&axis.name)
            );
        }
        let kind = super::bars::named_kind(self.kind);
        format!(
            "<figure><figcaption><h3>{}</h3>{kind}</figcaption>{svg}</svg></figure>",
            escape(&self.title)
        )
    }

    fn polygon(&self, share: impl Fn(&Axis) -> f64) -> String {
        let corners = self.axes.iter().enumerate().map(|(at, axis)| {
            let (x, y) = self.point(at, RADIUS * share(axis));
            format!("{x:.1},{y:.1}")
        });
        corners.collect::<Vec<_>>().join(" ")
    }

    /// The place on an axis; the first one points up.
    fn point(&self, at: usize, distance: f64) -> (f64, f64) {
        let angle = TAU * at as f64 / self.axes.len() as f64;
        (
            WIDTH / 2.0 + distance * angle.sin(),
            HEIGHT / 2.0 - distance * angle.cos(),
        )
    }
}
