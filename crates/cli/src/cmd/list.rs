//! `dpb list`: operators, their parameters, backends and tasks.

use std::path::PathBuf;

use dpb_core::Listed;
use dpb_core::measure::comparison::Better;
use dpb_core::spec::Parameter;
use dpb_operators::cpu::Cpu;
use dpb_operators::registry::Entry;
use serde::Serialize;

use crate::Globals;
use crate::boxes::{SHIPPED, Shipped, bounded_parameters};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};
use crate::plugin::Plugins;
use crate::task::{Parameter as TestParameter, Task, Tasks};

/// List operators, backends and tasks.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dpb list\n  dpb list operators --format json\n  dpb list parameters\n  \
                  dpb list tasks --format json"
)]
pub struct Args {
    /// List only this kind; without it, all but parameters
    #[arg(value_enum)]
    what: Option<What>,
    /// A plug-in's folder, or a folder with plug-ins, for the list of tasks
    #[arg(long, value_name = "FOLDER")]
    plugins: Vec<PathBuf>,
}

/// What there are lists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Operators: what can be computed
    Operators,
    /// Parameters of operators: what each changes
    Parameters,
    /// Backends: where operators run
    Backends,
    /// Tasks: what can be measured, with parameters and metrics; --format json has the meaning and the default of each, and the largest value of whole numbers
    Tasks,
    /// Boxes that dpb ships
    Boxes,
}

/// One line of any list; what does not apply is empty.
#[derive(Clone, Debug, Default, Serialize)]
struct Row {
    kind: &'static str,
    name: String,
    here: String,
    summary: String,
    details: String,
    /// Of a task or a plug-in; tables have the names alone, among the details.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<TaskParameter>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<TaskMetric>,
}

/// A parameter of a task's tests.
#[derive(Clone, Debug, Serialize)]
struct TaskParameter {
    name: String,
    meaning: String,
    /// `size`, `count` …, or the words that it takes.
    values: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum: Option<f64>,
}

/// A figure that a task's records have.
#[derive(Clone, Debug, Serialize)]
struct TaskMetric {
    name: String,
    meaning: String,
    better: Better,
}

impl Row {
    /// Parameters and metrics are in the details by name, before what is there.
    fn with(self, parameters: Vec<TaskParameter>, metrics: Vec<TaskMetric>) -> Self {
        let names: Vec<&str> = parameters.iter().map(|own| own.name.as_str()).collect();
        let figures = metrics.iter().map(|metric| match metric.better {
            Better::More => metric.name.clone(),
            Better::Less => format!("{} (less is better)", metric.name),
        });
        let figures: Vec<String> = figures.collect();
        let mut details = format!("metrics: {}", figures.join(", "));
        if !names.is_empty() {
            details = format!("parameters: {}; {details}", names.join(", "));
        }
        if !self.details.is_empty() {
            details = format!("{details}; {}", self.details);
        }
        Self {
            details,
            parameters,
            metrics,
            ..self
        }
    }
}

impl TaskParameter {
    fn of(parameter: &TestParameter) -> Self {
        Self {
            name: parameter.name.clone(),
            meaning: parameter.meaning.clone(),
            values: parameter.kind.to_string(),
            default: parameter.default.clone(),
            minimum: parameter.range.minimum,
            maximum: parameter.range.maximum,
        }
    }
}

/// Prints the lists.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let wanted = |what| args.what.is_none_or(|only| only == what);
    let mut lists = Vec::new();
    if wanted(What::Operators) {
        lists.push(globals.operators.iter().map(operator).collect());
    }
    if args.what == Some(What::Parameters) {
        let of_each = globals.operators.iter().map(|entry| {
            let parameters = entry.all_parameters();
            parameters.map(|p| parameter(entry, p))
        });
        lists.push(of_each.flatten().collect());
    }
    if wanted(What::Backends) {
        lists.push(globals.families.backends().map(backend).collect());
    }
    if wanted(What::Tasks) {
        let mut rows = tasks(globals.tasks);
        rows.extend(plugins(&args.plugins, globals.tasks)?);
        lists.push(rows);
    }
    if wanted(What::Boxes) {
        lists.push(SHIPPED.iter().map(shipped).collect());
    }
    match globals.format() {
        Format::Json => lists.iter().flatten().try_for_each(output::print_json),
        Format::Csv => output::print(&table(&lists.concat()).to_csv()),
        Format::Markdown => output::print(&table(&lists.concat()).to_markdown()),
        Format::Table => {
            let texts: Vec<String> = lists.iter().map(|rows| table(rows).to_text()).collect();
            output::print(&texts.join("\n"))
        }
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(["kind", "name", "here", "summary", "details"].map(Column::left));
    for Row {
        kind,
        name,
        here,
        summary,
        details,
        ..
    } in rows
    {
        table.row([kind, name.as_str(), here, summary, details]);
    }
    table
}

fn operator(entry: &Entry) -> Row {
    let parameters: Vec<String> = entry
        .all_parameters()
        .map(|parameter| {
            format!(
                "{}={} (default {})",
                parameter.name, parameter.values, parameter.default
            )
        })
        .collect();
    let peers = match entry.peers {
        [] => "no peers".to_owned(),
        peers => format!("peers: {}", peers.join(", ")),
    };
    let mut details = format!("{}; {peers}", entry.source);
    if !parameters.is_empty() {
        details = format!("{}; {details}", parameters.join(", "));
    }
    Row {
        kind: "operator",
        name: entry.name.to_owned(),
        here: Cpu::codes_of(entry).map_or_else(|| "no".to_owned(), |code| format!("on {code}")),
        summary: format!("{} ({})", entry.summary, entry.scenario),
        details,
        ..Row::default()
    }
}

fn parameter(entry: &Entry, parameter: &Parameter) -> Row {
    let Parameter {
        name,
        values,
        default,
        meaning,
    } = parameter;
    Row {
        kind: "parameter",
        name: format!("{} {name}", entry.name),
        here: format!("default {default}"),
        summary: (*meaning).to_owned(),
        details: values.to_string(),
        ..Row::default()
    }
}

fn backend((name, listed): (String, Listed)) -> Row {
    Row {
        kind: "backend",
        name,
        here: if listed.is_here { "yes" } else { "no" }.to_owned(),
        summary: listed.summary,
        details: listed.details,
        ..Row::default()
    }
}

fn tasks(tasks: Tasks) -> Vec<Row> {
    let row = |task: &Task| {
        let parameters = bounded_parameters(task);
        let metrics = task.view.metrics.iter().map(|metric| TaskMetric {
            name: metric.name.to_owned(),
            meaning: metric.label.to_owned(),
            better: metric.better(),
        });
        let row = Row {
            kind: "task",
            name: task.name.to_owned(),
            here: "yes".to_owned(),
            summary: task.summary.to_owned(),
            details: format!("as in {}", task.example),
            ..Row::default()
        };
        let parameters = parameters.iter().map(TaskParameter::of);
        row.with(parameters.collect(), metrics.collect())
    };
    tasks.iter().map(row).collect()
}

fn plugins(folders: &[PathBuf], tasks: Tasks) -> Result<Vec<Row>, Failure> {
    let plugins = Plugins::of(folders, tasks)?;
    let mut rows = Vec::new();
    for name in plugins.names() {
        let plugin = plugins.find(name)?.expect("it has this name");
        let parameters = plugin.parameters.iter().map(TaskParameter::of);
        let metrics = plugin.metrics.iter().map(|metric| TaskMetric {
            name: metric.name.clone(),
            meaning: metric.meaning.clone(),
            better: metric.better(),
        });
        let row = Row {
            kind: "plug-in",
            name: plugin.name.clone(),
            here: "yes".to_owned(),
            summary: plugin.summary.clone(),
            ..Row::default()
        };
        rows.push(row.with(parameters.collect(), metrics.collect()));
    }
    Ok(rows)
}

fn shipped(shipped: &Shipped) -> Row {
    Row {
        kind: "box",
        name: shipped.name.to_owned(),
        here: "yes".to_owned(),
        summary: shipped.description(),
        details: format!("dpb run {}", shipped.name),
        ..Row::default()
    }
}
