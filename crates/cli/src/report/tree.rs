//! A dendrogram: which rows are alike, and how far apart what is joined lies.

use std::fmt::Write;

use dpb_insight::components::clusters::Dendrogram;

use super::html::escape;
use super::scatter::short;

/// A tree over named leaves.
pub(super) struct Tree {
    pub(super) title: String,
    pub(super) notes: Vec<String>,
    /// By row, its name, whether it is of the second set, and its record's place on the page.
    pub(super) leaves: Vec<(String, bool, String)>,
    pub(super) tree: Dendrogram,
}

const WIDTH: f64 = 600.0;
/// The names' part.
const NAMES: f64 = 240.0;
/// Height of a leaf: a name on a phone fits.
const LEAF: f64 = 24.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 30.0;
const RIGHT: f64 = 14.0;

impl Tree {
    /// The drawing.
    pub(super) fn html(&self) -> String {
        let rows = self.leaves.len();
        let bottom = TOP + LEAF * rows as f64;
        let longest = self
            .tree
            .merges
            .iter()
            .map(|merge| merge.distance)
            .fold(0.0, f64::max);
        let right = |distance: f64| match longest > 0.0 {
            true => NAMES + distance / longest * (WIDTH - NAMES - RIGHT),
            false => NAMES,
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"group\" aria-label=\"{}\">",
            bottom + BOTTOM,
            escape(&self.title)
        );
        let mut places = vec![(0.0, 0.0); rows];
        for (line, row) in self.tree.order().into_iter().enumerate() {
            let y = TOP + LEAF * (line as f64 + 0.5);
            places[row] = (NAMES, y);
            let (name, is_second, href) = &self.leaves[row];
            let tip = escape(name);
            let _ = write!(
                svg,
                "<g class=\"c{}\"><a class=\"leaf\" href=\"#{}\" data-tip=\"{tip}\" aria-label=\"{tip}\"><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></a></g>",
                usize::from(*is_second),
                escape(href),
                NAMES - 6.0,
                y + 4.0,
                escape(&short(name))
            );
        }
        for merge in &self.tree.merges {
            let ((from_x, from_y), (to_x, to_y)) = (places[merge.left], places[merge.right]);
            let x = right(merge.distance);
            let _ = write!(
                svg,
                "<path class=\"branch\" d=\"M{from_x:.1} {from_y:.1}H{x:.1}V{to_y:.1}H{to_x:.1}\"/>"
            );
            places.push((x, f64::midpoint(from_y, to_y)));
        }
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{NAMES}\" y=\"{y:.1}\" text-anchor=\"middle\">0</text><text class=\"tick\" x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{longest:.1}</text></svg>",
            WIDTH - RIGHT,
            y = bottom + 20.0
        );
        format!(
            "<figure>{}{svg}</figure>",
            super::bars::caption(&self.title, &self.notes, &[])
        )
    }
}
