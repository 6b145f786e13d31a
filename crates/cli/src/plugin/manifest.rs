//! A plug-in's manifest, `plugin.json`, read and checked.
//!
//! ```json
//! {
//!   "name": "sort", "summary": "sorting of numbers",
//!   "parameters": [
//!     { "name": "size", "type": "size", "minimum": 8, "maximum": 1073741824, "default": 4096, "meaning": "Bytes of the numbers" },
//!     { "name": "order", "words": ["random", "sorted"], "default": "random", "meaning": "The order before" }
//!   ],
//!   "metrics": [
//!     { "name": "bytes_per_s", "meaning": "bytes sorted per second" },
//!     { "name": "comparisons", "meaning": "comparisons of a run", "better": "less", "chart": false }
//!   ],
//!   "view": { "lead": ["order", "size"], "series": ["order"], "sweeps": ["size"] },
//!   "time_limit": "10m", "run_time": "2s"
//! }
//! ```
//!
//! `minimum` and `maximum` are in the parameter's unit: bytes, seconds, a share of one. Without `better` more is better of what a metric's name
//! counts by the second, and less of all else. `view` says what the report shows, each by names of parameters: the columns that lead a row of a
//! table (`lead`), the parameters whose values are curves of a chart (`series`), those that can be its axis (`sweeps`), those that are the same in
//! all of a chart (`fixed`), and the value of a parameter that ratios are held against (`base`: `parameter`, `value`, `metric`). Without a list,
//! all parameters lead, those that are numbers are axes, and the others curves.

use std::path::PathBuf;
use std::time::Duration;

use dpb_core::measure::comparison::Better;
use serde::Deserialize;

use super::{Plugin, TIME_LIMIT};
use crate::args;
use crate::output;
use crate::task::{self, Base, Cost, Kind, Parameter, Place, Range, ShownTask, Sweep, View};

/// A figure that a plug-in measures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The name in records; it ends in the unit.
    pub name: String,
    /// What it is, for people.
    pub meaning: String,
    /// Which of its values is the better one, where the name does not say it.
    pub better: Option<Better>,
    /// True if it has charts, beside its column in tables.
    #[serde(default = "yes")]
    pub chart: bool,
}

impl Metric {
    /// Which of its values is the better one.
    pub fn better(&self) -> Better {
        self.better.unwrap_or_else(|| Better::of(&self.name))
    }
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    name: String,
    summary: String,
    #[serde(default)]
    parameters: Vec<Declared>,
    metrics: Vec<Metric>,
    #[serde(default)]
    view: DeclaredView,
    /// Most time of one step.
    time_limit: Option<String>,
    /// Time that one run of a test takes, for estimates.
    run_time: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    name: String,
    meaning: String,
    /// A word of [`Kind::named`].
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Instead of a type: the words that the parameter takes.
    #[serde(default)]
    words: Vec<String>,
    /// The smallest and the largest value of a number.
    minimum: Option<f64>,
    maximum: Option<f64>,
    default: Option<serde_json::Value>,
}

/// The manifest's `view`; what it leaves out follows from the parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DeclaredView {
    lead: Option<Vec<String>>,
    series: Option<Vec<String>>,
    sweeps: Option<Vec<String>>,
    fixed: Vec<String>,
    base: Option<DeclaredBase>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredBase {
    parameter: String,
    value: String,
    metric: String,
}

/// What the report shows of a plug-in's records, by names of parameters; see [`View`].
#[derive(Debug)]
pub(super) struct PluginView {
    lead: Vec<String>,
    pub(super) series: Vec<String>,
    sweeps: Vec<String>,
    fixed: Vec<String>,
    base: Option<DeclaredBase>,
}

impl Plugin {
    /// A plug-in from its manifest's text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(manifest: &[u8], folder: PathBuf) -> Result<Self, String> {
        let manifest: Manifest =
            serde_json::from_slice(manifest).map_err(|error| error.to_string())?;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = manifest.name;
        if name.is_empty() || !name.chars().all(is_plain) || !name.starts_with(|c: char| c != '-') {
            return Err("name: it has lower-case letters, digits and hyphens".to_owned());
        }
        let parameters = parameters(manifest.parameters)?;
        check_metrics(&manifest.metrics)?;
        let time =
            |text: Option<String>, usual| text.map_or(Ok(usual), |text| args::duration(&text));
        let run_time = time(manifest.run_time, Duration::from_secs(1));
        Ok(Self {
            name,
            summary: manifest.summary,
            view: manifest.view.checked(&parameters, &manifest.metrics)?,
            parameters,
            metrics: manifest.metrics,
            cost: Cost {
                each_run: run_time.map_err(|why| format!("run_time: {why}"))?,
                ..Cost::default()
            },
            folder,
            time_limit: time(manifest.time_limit, TIME_LIMIT)
                .map_err(|why| format!("time_limit: {why}"))?,
        })
    }

    /// The plug-in as its records are shown. Reports are drawn with what lives as long as the program, as its own tasks do, so each call
    /// takes memory that is never given back: once for each plug-in of a process.
    pub fn shown(&self) -> ShownTask {
        let sweep = |name: &String| {
            let parameter = self.parameters.iter().find(|p| p.name == *name);
            Sweep {
                name: kept(name),
                label: kept(&name.replace('_', " ")),
                text: match parameter.map(|parameter| &parameter.kind) {
                    Some(Kind::Size) => output::bytes,
                    Some(Kind::Share) => output::percent,
                    Some(Kind::Rate) => output::short,
                    _ => output::number,
                },
            }
        };
        let metric = |metric: &Metric| task::Metric {
            name: kept(&metric.name),
            label: kept(&metric.meaning),
            text: output::text_of(&metric.name),
            is_charted: metric.chart,
            better: metric.better,
        };
        let view = &self.view;
        let base = view.base.as_ref().map(|base| Base {
            side: kept(&base.parameter),
            base: kept(&base.value),
            metric: kept(&base.metric),
            own: &[],
        });
        let view = View {
            lead: names(&view.lead),
            series: names(&view.series),
            sweeps: view.sweeps.iter().map(sweep).collect::<Vec<_>>().leak(),
            fixed: names(&view.fixed),
            metrics: self.metrics.iter().map(metric).collect::<Vec<_>>().leak(),
            base,
        };
        ShownTask {
            name: kept(&self.name),
            view: Box::leak(Box::new(view)),
        }
    }
}

fn kept(text: &str) -> &'static str {
    text.to_owned().leak()
}

fn names(names: &[String]) -> &'static [&'static str] {
    names
        .iter()
        .map(|name| kept(name))
        .collect::<Vec<_>>()
        .leak()
}

fn parameters(all: Vec<Declared>) -> Result<Vec<Parameter>, String> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for declared in all {
        let name = declared.name.clone();
        let parameter = declared
            .checked()
            .map_err(|why| format!("parameter {name}: {why}"))?;
        if parameters.iter().any(|known| known.name == parameter.name) {
            return Err(format!("parameter {name}: it is there twice"));
        }
        parameters.push(parameter);
    }
    Ok(parameters)
}

fn check_metrics(metrics: &[Metric]) -> Result<(), String> {
    if metrics.is_empty() {
        return Err("metrics: at least one is needed".to_owned());
    }
    for (at, metric) in metrics.iter().enumerate() {
        if metrics[..at].iter().any(|known| known.name == metric.name) {
            return Err(format!("metric {}: it is there twice", metric.name));
        }
    }
    Ok(())
}

impl DeclaredView {
    fn checked(self, parameters: &[Parameter], metrics: &[Metric]) -> Result<PluginView, String> {
        let own = |is_wanted: fn(&Kind) -> bool| {
            let wanted = parameters.iter().filter(|p| is_wanted(&p.kind));
            wanted.map(|p| p.name.clone()).collect::<Vec<_>>()
        };
        let view = PluginView {
            lead: self.lead.unwrap_or_else(|| own(|_| true)),
            series: self.series.unwrap_or_else(|| own(|k| !k.takes_numbers())),
            sweeps: self.sweeps.unwrap_or_else(|| own(Kind::takes_numbers)),
            fixed: self.fixed,
            base: self.base,
        };
        let is_known = |name: &String| parameters.iter().any(|p| p.name == *name);
        for (list, names) in [
            ("lead", &view.lead),
            ("series", &view.series),
            ("sweeps", &view.sweeps),
            ("fixed", &view.fixed),
        ] {
            if let Some(name) = names.iter().find(|name| !is_known(name)) {
                return Err(format!("view: {list}: no parameter `{name}`"));
            }
        }
        if let Some(base) = &view.base {
            // Ratios are those of curves to one of them.
            if !view.series.contains(&base.parameter) {
                let name = &base.parameter;
                return Err(format!("view: base: `{name}` is not among `series`"));
            }
            if !metrics.iter().any(|metric| metric.name == base.metric) {
                return Err(format!("view: base: no metric `{}`", base.metric));
            }
        }
        Ok(view)
    }
}

impl Declared {
    fn checked(self) -> Result<Parameter, String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if self.name.is_empty() || !self.name.chars().all(is_plain) {
            return Err("a name has lower-case letters, digits and underscores".to_owned());
        }
        let kind = match (self.kind.as_deref(), self.words) {
            (None, words) if !words.is_empty() => Kind::Word(words),
            (Some(name), words) if words.is_empty() => Kind::named(name).ok_or_else(|| {
                format!("no type `{name}`; there are size, count, number, real, time, share, rate, text, file, switch")
            })?,
            _ => return Err("it needs a `type` or `words`, one of both".to_owned()),
        };
        let range = Range {
            minimum: self.minimum,
            maximum: self.maximum,
        };
        if range != Range::default() && !kind.takes_numbers() {
            return Err("`minimum` and `maximum` are of numbers".to_owned());
        }
        if let (Some(minimum), Some(maximum)) = (range.minimum, range.maximum)
            && minimum > maximum
        {
            return Err(format!("minimum {minimum} is above maximum {maximum}"));
        }
        let mut parameter = Parameter {
            id: self.name.clone(),
            name: self.name,
            meaning: self.meaning,
            kind,
            range,
            default: None,
            is_required: self.default.is_none(),
            place: Place::Flag,
        };
        let default = self.default.map(|value| parameter.text(&value));
        parameter.default = default
            .transpose()
            .map_err(|why| format!("default: {why}"))?;
        Ok(parameter)
    }
}
