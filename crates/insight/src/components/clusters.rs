//! Groups of rows that lie close together: Ward's hierarchical clustering (1963), by the recurrence of Lance and Williams (1967).

use std::collections::BTreeMap;

/// Two clusters that become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merge {
    /// The cluster with the smaller number. Rows are clusters 0 to n − 1; the cluster that merge `i` makes is n + i.
    pub left: usize,
    /// The other one.
    pub right: usize,
    /// The distance between them: √(2·a·b/(a + b)) times that of their means, for a and b rows. Of two rows it is their own distance.
    pub distance: f64,
    /// The number of rows in both.
    pub size: usize,
}

/// The merges from single rows to one cluster, the nearest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Dendrogram {
    /// The merges, one fewer than rows.
    pub merges: Vec<Merge>,
    rows: usize,
}

impl Dendrogram {
    /// The tree over `points`, by Euclid's distance.
    pub fn of(points: &[Vec<f64>]) -> Self {
        let rows = points.len();
        let mut sizes: BTreeMap<usize, usize> = (0..rows).map(|row| (row, 1)).collect();
        let mut squares = BTreeMap::new();
        for (j, right) in points.iter().enumerate() {
            for (i, left) in points[..j].iter().enumerate() {
                squares.insert((i, j), square(left, right));
            }
        }
        let mut merges = Vec::new();
        while let Some(merge) = nearest(&squares, &sizes) {
            let made = rows + merges.len();
            let (a, b) = (sizes[&merge.left] as f64, sizes[&merge.right] as f64);
            let between = squares[&key(merge.left, merge.right)];
            sizes.remove(&merge.left);
            sizes.remove(&merge.right);
            for (&other, &size) in &sizes {
                let c = size as f64;
                let to = |one| squares[&key(one, other)];
                let sum = (a + c) * to(merge.left) + (b + c) * to(merge.right) - c * between;
                squares.insert(key(other, made), sum / (a + b + c));
            }
            squares.retain(|(i, j), _| {
                ![*i, *j]
                    .iter()
                    .any(|at| [merge.left, merge.right].contains(at))
            });
            sizes.insert(made, merge.size);
            merges.push(merge);
        }
        Self { merges, rows }
    }

    /// The rows in an order in which no two branches cross.
    pub fn order(&self) -> Vec<usize> {
        let top = match self.merges.len() {
            0 => (0..self.rows).collect(),
            merges => vec![self.rows + merges - 1],
        };
        let mut order = Vec::with_capacity(self.rows);
        let mut open = top;
        while let Some(cluster) = open.pop() {
            match cluster.checked_sub(self.rows) {
                None => order.push(cluster),
                Some(merge) => open.extend([self.merges[merge].right, self.merges[merge].left]),
            }
        }
        order
    }

    /// Each row's group where the tree is cut into `groups`: numbers from zero, in the order of [`Self::order`].
    pub fn cut(&self, groups: usize) -> Vec<usize> {
        let kept = self
            .rows
            .saturating_sub(groups.max(1))
            .min(self.merges.len());
        let mut root: Vec<usize> = (0..self.rows + kept).collect();
        for (at, merge) in self.merges[..kept].iter().enumerate() {
            (root[merge.left], root[merge.right]) = (self.rows + at, self.rows + at);
        }
        let find = |mut at: usize| {
            while root[at] != at {
                at = root[at];
            }
            at
        };
        let mut numbers = BTreeMap::new();
        let mut groups = vec![0; self.rows];
        for row in self.order() {
            let next = numbers.len();
            groups[row] = *numbers.entry(find(row)).or_insert(next);
        }
        groups
    }
}

fn key(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

fn square(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

/// The nearest pair; of several the first by number, so that the tree does not depend on chance.
fn nearest(
    squares: &BTreeMap<(usize, usize), f64>,
    sizes: &BTreeMap<usize, usize>,
) -> Option<Merge> {
    let pair = squares.iter().min_by(|(_, a), (_, b)| a.total_cmp(b));
    pair.map(|(&(left, right), square)| Merge {
        left,
        right,
        distance: square.max(0.0).sqrt(),
        size: sizes[&left] + sizes[&right],
    })
}
