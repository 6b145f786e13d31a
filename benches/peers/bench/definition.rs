//! What is compared, read from `definitions/`: a file for each group, a row for each operator, its parameters and a shape.

use anyhow::{Context, Result, ensure};
use dpb_core::cpu_level::Level;
use serde::Deserialize;

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../definitions/", $name, ".toml")))),+]
    };
}

/// All definition files, by their name: part of the program, which may run on another machine.
const FILES: &[(&str, &str)] = files![
    "harness",
    "toeplitz",
    "checksum",
    "crc",
    "memory",
    "lookups",
    "segments",
    "hashes",
    "ciphers",
    "coders",
    "erasure",
    "public-keys",
    "rules",
];

/// The wanted ratio where a shape says nothing: the best peer's speed, but for what a bench cannot tell apart.
const GOAL: f64 = 0.95;
/// Warm-up of code that learns nothing from its data but what caches and predictors do.
const WARM_UP_S: f64 = 0.001;

/// Where nothing is timed: routes of a list, bytes of an item, and calls, at most.
const ROUTES_TEST: usize = 2_000;
const ROUTES_COUNTED: usize = 100_000;
const BYTES_TEST: usize = 65_536;
const CALLS_TEST: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    bench: Vec<Bench>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bench {
    operators: Vec<String>,
    #[serde(default = "no_parameters")]
    parameters: Vec<String>,
    #[serde(default = "dpb")]
    subject: String,
    peers: Vec<String>,
    #[serde(default)]
    speed: Unit,
    routes: Option<usize>,
    control: Option<f64>,
    #[serde(default)]
    coder: bool,
    #[serde(default = "warm_up")]
    warm_up_s: f64,
    /// The wanted speed below x86-64-v4 of shapes that do not say it.
    below_v4: Option<f64>,
    shapes: Vec<Shape>,
}

/// The calls that a side makes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shape {
    /// Items of a call.
    pub(crate) items: usize,
    /// Bytes of user data of an item.
    pub(crate) bytes: usize,
    /// Calls of a run, each on items of its own.
    #[serde(default = "one")]
    pub(crate) calls: usize,
    /// The wanted speed, as a multiple of the fastest peer's.
    #[serde(default = "goal")]
    pub(crate) goal: f64,
    /// The same where the CPU's level is below x86-64-v4.
    below_v4: Option<f64>,
}

/// The unit of a speed.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Bytes of user data.
    #[default]
    Bytes,
    /// Items.
    Items,
    /// Parts of an item, each of `part_bytes`: lookups, tuples.
    #[serde(untagged)]
    Parts {
        /// Bytes of a part.
        part_bytes: usize,
    },
}

/// One operator on one shape of input.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The definition file.
    pub(crate) group: &'static str,
    /// The operator's name in the registry, or `null`.
    pub(crate) operator: String,
    /// Its parameters, as on the command line.
    pub(crate) parameters: String,
    /// The side that the others are compared with: `dpb`, or a peer.
    pub(crate) subject: String,
    /// The sides that it is compared with; `itself` is the subject once more. A peer's own parameters, see [`parts`], are for coders.
    pub(crate) peers: Vec<String>,
    /// The unit that is counted.
    pub(crate) unit: Unit,
    /// Routes of a generated list, where the operator has one.
    pub(crate) routes: Option<usize>,
    /// For both sides that are the same code: how far from 1 their ratio may be for what calls them.
    pub(crate) control: Option<f64>,
    /// Whether outputs of different sizes are right, so that sides are compared by speed and size.
    pub(crate) is_coder: bool,
    /// For how many seconds of CPU time a side runs before its turn, at a place where it has not been.
    pub(crate) warm_up_s: f64,
    /// The calls.
    pub(crate) shape: Shape,
}

impl Row {
    /// The same with less of all, for where nothing is timed: an emulator takes a hundred times as long. Where instructions are counted a
    /// list of routes is longer, since they are more where routes are.
    pub(crate) fn shortened(&self, is_counted: bool) -> Self {
        let mut row = self.clone();
        row.shape.bytes = row.shape.bytes.min(BYTES_TEST);
        row.shape.calls = row.shape.calls.min(CALLS_TEST);
        let routes = if is_counted {
            ROUTES_COUNTED
        } else {
            ROUTES_TEST
        };
        row.routes = row.routes.map(|given| given.min(routes));
        row
    }
}

/// All rows of all files.
///
/// # Errors
/// The file, and what is wrong in it.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &(group, text) in FILES {
        let file: File =
            toml::from_str(text).with_context(|| format!("definitions/{group}.toml"))?;
        for bench in file.bench {
            bench.check(group)?;
            rows.extend(bench.rows(group));
        }
    }
    Ok(rows)
}

impl Bench {
    fn check(&self, group: &str) -> Result<()> {
        let what = || format!("definitions/{group}.toml: {}", self.operators.join(", "));
        let are_positive = |shape: &Shape| shape.items > 0 && shape.calls > 0 && shape.goal > 0.0;
        ensure!(
            self.shapes.iter().all(are_positive),
            "{}: a shape without items, calls or goal",
            what()
        );
        ensure!(!self.peers.is_empty(), "{}: no peer", what());
        ensure!(
            (0.0..=1.0).contains(&self.warm_up_s),
            "{}: a warm-up is 0 to 1 s of each side and round",
            what()
        );
        ensure!(
            self.coder || self.peers.iter().all(|peer| parts(peer).1.is_none()),
            "{}: a peer with parameters of its own, which only coders may have",
            what()
        );
        ensure!(
            self.control.is_none() || self.peers.len() == 1,
            "{}: a control has one other side",
            what()
        );
        Ok(())
    }

    fn rows(&self, group: &'static str) -> impl Iterator<Item = Row> {
        let is_below_v4 = cfg!(target_arch = "x86_64") && Level::here().name() != "x86-64-v4";
        let goal = move |shape: &Shape| {
            let below_v4 = shape.below_v4.or(self.below_v4);
            below_v4.filter(|_| is_below_v4).unwrap_or(shape.goal)
        };
        let row = move |operator: &String, parameters: &String, shape: &Shape| Row {
            group,
            operator: operator.clone(),
            parameters: parameters.clone(),
            subject: self.subject.clone(),
            peers: self.peers.clone(),
            unit: self.speed,
            routes: self.routes,
            control: self.control,
            is_coder: self.coder,
            warm_up_s: self.warm_up_s,
            shape: Shape {
                goal: goal(shape),
                ..*shape
            },
        };
        self.operators.iter().flat_map(move |operator| {
            self.parameters.iter().flat_map(move |parameters| {
                self.shapes
                    .iter()
                    .map(move |shape| row(operator, parameters, shape))
            })
        })
    }
}

/// The name of a peer, and behind a space the parameters that it has instead of the row's.
pub(crate) fn parts(peer: &str) -> (&str, Option<&str>) {
    match peer.split_once(' ') {
        Some((name, own)) => (name, Some(own)),
        None => (peer, None),
    }
}

fn no_parameters() -> Vec<String> {
    vec![String::new()]
}

fn dpb() -> String {
    "dpb".to_owned()
}

fn one() -> usize {
    1
}

fn warm_up() -> f64 {
    WARM_UP_S
}

fn goal() -> f64 {
    GOAL
}
