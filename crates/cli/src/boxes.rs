//! Boxes: JSON files that say which tests are run (dpBento, "measurement box").
//!
//! ```json
//! {
//!   "name": "checksums",
//!   "repeats": 7,
//!   "tasks": [
//!     { "task": "op", "parameters": { "operator": ["crc32c", "checksum"], "size": "64..1024" }, "metrics": ["bytes_per_s"] }
//!   ]
//! }
//! ```
//!
//! A box is read whole before anything runs: unknown keys, values of another type and values out of range are errors that name the
//! place in the file. The tests are the cartesian product of the parameters' values; metrics are not multiplied.
//! Boxes in dpBento's own form (`benchmarks`) are read too, see [`dpbento`].

mod dpbento;
mod json;
mod place;
mod schema;
mod shipped;

use std::path::Path;
use std::sync::Arc;

use clap::{Arg, Command};
use serde_json::{Map, Value};

use crate::Globals;
use crate::exit::Failure;
use crate::plugin::{Plugin, Plugins};
use crate::task::{Cost, Kind, Parameter, Place as At, Task};
use place::Place;
pub use schema::{bounded_parameters, schema};
pub use shipped::{SHIPPED, Shipped};

/// Most tests that a box may have.
const TESTS_MAX: usize = 100_000;
/// Runs of a test when neither the box nor the command line says how many.
const REPEATS: u64 = 7;

/// A box, read and checked.
#[derive(Debug)]
pub struct MeasurementBox {
    /// Its name.
    pub name: String,
    /// What it measures, for people.
    pub description: String,
    /// The seed of everything random in its tests.
    pub seed: u64,
    /// The tests, in the order of the file; of one task those that are compared are next to each other.
    pub tests: Vec<Test>,
    /// What a box of dpBento names and dpb does not have.
    pub absent: Vec<String>,
}

/// One task with one value for each parameter.
#[derive(Clone, Debug)]
pub struct Test {
    /// What carries it out.
    pub runner: Runner,
    /// The parameters that the box gives, in the task's order.
    pub parameters: Vec<(Parameter, String)>,
    /// Runs of the test, if the box says how many.
    pub repeats: Option<u64>,
    /// The metrics that the box asks for; empty for all.
    pub metrics: Vec<String>,
    /// The machine that it runs on.
    pub site: Site,
    /// What another machine has said of it: what it takes there, or why that machine does not take it.
    pub told: Option<Result<Cost, String>>,
}

/// The machine that a test runs on. Other machines are named by their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// This one.
    Here,
    /// Another one.
    On(String),
    /// This one, with the task's server on another one.
    To(String),
}

/// What carries out a test.
#[derive(Clone, Debug)]
pub enum Runner {
    /// A verb of dpb.
    Task(&'static Task),
    /// A folder of executables.
    Plugin(Arc<Plugin>),
}

/// What a command line changes of a box.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The seed, instead of the box's.
    pub seed: Option<u64>,
    /// Runs of each test, instead of the box's.
    pub repeats: Option<u64>,
}

impl Runner {
    /// The task's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Task(task) => task.name,
            Self::Plugin(plugin) => &plugin.name,
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        match self {
            Self::Task(task) => task.parameters(),
            Self::Plugin(plugin) => plugin.parameters.clone(),
        }
    }

    fn metrics(&self) -> Vec<String> {
        match self {
            Self::Task(task) => {
                let metrics = task.view.metrics.iter();
                metrics.map(|metric| metric.name.to_owned()).collect()
            }
            Self::Plugin(plugin) => plugin.metrics.iter().map(|m| m.name.clone()).collect(),
        }
    }
}

impl Test {
    /// Gives a parameter this value, instead of the box's. False if the test has no such parameter.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let all = self.runner.parameters();
        let place = |name: &str| all.iter().position(|parameter| parameter.name == name);
        let Some(own) = place(name) else {
            return false;
        };
        match self
            .parameters
            .iter_mut()
            .find(|(given, _)| given.name == name)
        {
            Some((_, given)) => value.clone_into(given),
            None => {
                let before = self.parameters.iter();
                let before = before.filter(|(given, _)| place(&given.name) < Some(own));
                let at = before.count();
                self.parameters
                    .insert(at, (all[own].clone(), value.to_owned()));
            }
        }
        true
    }

    /// The task's words on a command line, without the program and without where results go.
    pub fn words(&self, repeats: u64, seed: u64) -> Vec<String> {
        let verbs: Vec<String> = match &self.runner {
            Runner::Task(task) => task.verbs().map(str::to_owned).collect(),
            Runner::Plugin(plugin) => vec![plugin.name.clone()],
        };
        [verbs, self.arguments(repeats, seed)].concat()
    }

    /// Those of them that stand behind the verb.
    pub fn arguments(&self, repeats: u64, seed: u64) -> Vec<String> {
        let words = |place| {
            let here = self
                .parameters
                .iter()
                .filter(move |(p, _)| p.place == place);
            here.flat_map(|(parameter, value)| parameter.words(value))
        };
        let mut all = Vec::from_iter(words(At::Position));
        all.extend(words(At::Flag));
        if let Runner::Task(task) = &self.runner {
            for (flag, value) in [("repeat", repeats), ("seed", seed)] {
                if task.has_flag(flag) && !self.gives(flag) {
                    all.push(format!("--{flag}={value}"));
                }
            }
        }
        all
    }

    fn gives(&self, name: &str) -> bool {
        self.parameters.iter().any(|(p, _)| p.name == name)
    }

    /// The value of a parameter: the box's, or the default.
    pub fn value(&self, name: &str) -> Option<String> {
        self.given_or_default(name).map(|(_, value)| value)
    }

    /// A parameter that has a value, and the value: the box's, or the default.
    pub fn given_or_default(&self, name: &str) -> Option<(Parameter, String)> {
        let given = self.parameters.iter().find(|(p, _)| p.name == name);
        given.cloned().or_else(|| {
            let all = self.runner.parameters();
            let parameter = all.into_iter().find(|p| p.name == name)?;
            let value = parameter.default.clone()?;
            Some((parameter, value))
        })
    }

    /// What the test will take, roughly, if its data is kept in `data_dir`: what is there already it need not make.
    pub fn cost(&self, data_dir: &Path) -> Cost {
        match self.told {
            Some(Ok(cost)) => return cost,
            // It does not run.
            Some(Err(_)) => return Cost::default(),
            None => {}
        }
        match &self.runner {
            Runner::Task(task) => {
                let words = [self.arguments(1, 1), self.data_words(data_dir)].concat();
                let matches = task.command().try_get_matches_from(words);
                matches.map_or_else(|_| Cost::default(), |matches| (task.cost)(&matches))
            }
            Runner::Plugin(plugin) => plugin.cost,
        }
    }

    /// The words that tell the task's process to keep its data in `data_dir`, if it keeps any and the box does not say where.
    pub fn data_words(&self, data_dir: &Path) -> Vec<String> {
        let takes = |task: &Task| task.has_flag("data-dir");
        let says = ["data_dir", "file", "device"];
        match &self.runner {
            Runner::Task(task) if takes(task) && !says.iter().any(|name| self.gives(name)) => {
                vec![format!("--data-dir={}", data_dir.display())]
            }
            _ => Vec::new(),
        }
    }

    /// The test as one line: `op operator=crc32c size=64`, and the other machine: `on dpu`.
    pub fn title(&self) -> String {
        let given = self.parameters.iter();
        let given = given.map(|(parameter, value)| format!(" {}={value}", parameter.name));
        let given: String = given.collect();
        let site = match &self.site {
            Site::Here => String::new(),
            Site::On(machine) => format!(" on {machine}"),
            Site::To(machine) => format!(" to {machine}"),
        };
        format!("{}{given}{site}", self.runner.name())
    }
}

impl MeasurementBox {
    /// Reads a box: a file's path, or the name of one that dpb ships.
    ///
    /// # Errors
    /// Wrong usage: what is wrong, and where in the file.
    pub fn open(
        name: &str,
        plugins: &Plugins,
        changes: &Changes,
        globals: &Globals,
    ) -> Result<Self, Failure> {
        let shipped = SHIPPED.iter().find(|shipped| shipped.name == name);
        let (file, text) = match shipped {
            Some(shipped) => (name.to_owned(), shipped.text.to_owned()),
            None => {
                let bytes = dpb_core::file::read(name.as_ref(), 16 << 20).map_err(|error| {
                    let known: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
                    let known = known.join(", ");
                    Failure::usage(format!(
                        "cannot read the box {name}: {error}; dpb ships {known}"
                    ))
                })?;
                let text = String::from_utf8(bytes)
                    .map_err(|_| Failure::usage(format!("{name} is not UTF-8 text")))?;
                (name.to_owned(), text)
            }
        };
        Self::read(&file, &text, plugins, changes, globals)
    }

    /// Reads a box from its text; `file` names it in errors.
    ///
    /// # Errors
    /// As [`MeasurementBox::open`].
    pub fn read(
        file: &str,
        text: &str,
        plugins: &Plugins,
        changes: &Changes,
        globals: &Globals,
    ) -> Result<Self, Failure> {
        let value = json::read(text).map_err(|error| {
            let what = if error.is_data() { "" } else { "not JSON: " };
            Failure::usage(format!("{file}: {what}{error}"))
        })?;
        let top = Place::new(file, &value);
        let mut reader = Reader {
            plugins,
            globals,
            repeats: changes.repeats,
            absent: Vec::new(),
            tests: Vec::new(),
        };
        if top.get("benchmarks").is_some() {
            dpbento::read(&top, &mut reader)?;
            return reader.finish(name_of(file), "a box of dpBento".to_owned(), changes.seed);
        }
        top.only(&["name", "description", "seed", "repeats", "tasks", "$schema"])?;
        let text = |key: &str| top.get(key).map(|place| place.text()).transpose();
        let seed = top.get("seed").map(|place| place.number(0)).transpose()?;
        let repeats = top
            .get("repeats")
            .map(|place| place.number(1))
            .transpose()?;
        reader.repeats = reader.repeats.or(repeats);
        for task in top.need("tasks")?.items()? {
            reader.task(&task)?;
        }
        let name = text("name")?.unwrap_or_else(|| name_of(file));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) || name.starts_with('.') {
            let at = top.get("name").unwrap_or(top.clone());
            return Err(at.wrong("a name has letters, digits, hyphens, underscores and dots"));
        }
        let description = text("description")?.unwrap_or_default();
        reader.finish(name, description, changes.seed.or(seed))
    }
}

/// A file's name without folder and ending.
fn name_of(file: &str) -> String {
    let stem = std::path::Path::new(file).file_stem();
    let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
    let plain = stem.unwrap_or_default().replace(
        |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c),
        "-",
    );
    if plain.is_empty() {
        "box".to_owned()
    } else {
        plain
    }
}

/// Collects tests while a box is read.
struct Reader<'a> {
    plugins: &'a Plugins,
    globals: &'a Globals,
    repeats: Option<u64>,
    absent: Vec<String>,
    tests: Vec<Test>,
}

impl Reader<'_> {
    fn finish(
        self,
        name: String,
        description: String,
        seed: Option<u64>,
    ) -> Result<MeasurementBox, Failure> {
        Ok(MeasurementBox {
            name,
            description,
            seed: seed.unwrap_or(1),
            tests: self.tests,
            absent: self.absent,
        })
    }

    /// Reads one element of `tasks`.
    fn task(&mut self, place: &Place<'_>) -> Result<(), Failure> {
        place.only(&["task", "parameters", "metrics", "repeats", "description"])?;
        let name = place.need("task")?;
        let runner = self.runner(&name)?;
        let repeats = place
            .get("repeats")
            .map(|place| place.number(1))
            .transpose()?;
        let metrics = match place.get("metrics") {
            Some(metrics) => self.metrics(&metrics, &runner)?,
            None => Vec::new(),
        };
        let empty = Value::Object(Map::new());
        let parameters = place.get("parameters");
        let parameters = parameters.unwrap_or_else(|| place.child("parameters", &empty));
        self.product(&runner, &parameters, repeats, &metrics)
    }

    fn runner(&self, name: &Place<'_>) -> Result<Runner, Failure> {
        let word = name.text()?;
        if let Some(task) = self.globals.tasks.find(&word) {
            return Ok(Runner::Task(task));
        }
        if let Some(plugin) = self.plugins.find(&word)? {
            return Ok(Runner::Plugin(plugin));
        }
        let known = self.globals.tasks.iter().map(|task| task.name);
        let known: Vec<&str> = known.chain(self.plugins.names()).collect();
        Err(name.wrong(&format!(
            "no task or plug-in `{word}`; there are {}",
            known.join(", ")
        )))
    }

    fn metrics(&self, place: &Place<'_>, runner: &Runner) -> Result<Vec<String>, Failure> {
        let known = runner.metrics();
        let mut metrics = Vec::new();
        for place in place.items()? {
            let metric = place.text()?;
            if !known.contains(&metric) {
                let known = known.join(", ");
                let name = runner.name();
                return Err(place.wrong(&format!(
                    "{name} has no metric `{metric}`; there are {known}"
                )));
            }
            metrics.push(metric);
        }
        Ok(metrics)
    }

    /// Adds the tests of one task: the cartesian product of its parameters' values.
    fn product(
        &mut self,
        runner: &Runner,
        given: &Place<'_>,
        repeats: Option<u64>,
        metrics: &[String],
    ) -> Result<(), Failure> {
        let known = runner.parameters();
        let names: Vec<&str> = known.iter().map(|p| p.name.as_str()).collect();
        given.only(&names)?;
        // Made once: a task has dozens of flags, and a box may have many tests.
        let mut command = match runner {
            Runner::Task(task) => Some(task.command()),
            Runner::Plugin(_) => None,
        };
        let mut axes: Vec<(Parameter, Vec<String>)> = Vec::new();
        for parameter in in_order(&known, runner) {
            let Some(place) = given.get(&parameter.name) else {
                continue;
            };
            axes.push((
                parameter.clone(),
                values(parameter, &place, command.as_ref())?,
            ));
        }
        let count = axes.iter().map(|(_, values)| values.len());
        let count = count.fold(1_usize, usize::saturating_mul);
        if count.saturating_add(self.tests.len()) > TESTS_MAX {
            return Err(given.wrong(&format!("{count} tests are too many; at most {TESTS_MAX}")));
        }
        for at in 0..count {
            let mut rest = at;
            let mut parameters = Vec::new();
            // The last axis changes with each test.
            for (parameter, values) in axes.iter().rev() {
                parameters.push((parameter.clone(), values[rest % values.len()].clone()));
                rest /= values.len();
            }
            parameters.reverse();
            let test = Test {
                runner: runner.clone(),
                parameters,
                repeats: self.repeats.or(repeats),
                metrics: metrics.to_vec(),
                site: Site::Here,
                told: None,
            };
            self.check(&test, given, command.as_mut())?;
            self.tests.push(test);
        }
        Ok(())
    }

    /// Whether the test's task takes the values together; `command` is the task's.
    fn check(
        &self,
        test: &Test,
        place: &Place<'_>,
        command: Option<&mut Command>,
    ) -> Result<(), Failure> {
        let wrong = |why: &str| place.wrong(&format!("{}: {}", test.title(), why.trim()));
        let (task, command) = match (&test.runner, command) {
            (Runner::Task(task), Some(command)) => (task, command),
            (Runner::Task(_), None) => unreachable!("a task has a command"),
            (Runner::Plugin(plugin), _) => {
                let needed = plugin.parameters.iter().filter(|p| p.is_required);
                let missing = needed
                    .map(|p| p.name.as_str())
                    .find(|name| !test.gives(name));
                return match missing {
                    Some(name) => Err(wrong(&format!("`{name}` is missing"))),
                    None => Ok(()),
                };
            }
        };
        let matches = command.try_get_matches_from_mut(test.arguments(REPEATS, 1));
        let matches = matches.map_err(|error| wrong(&complaint(&error)))?;
        (task.check)(&matches, self.globals).map_err(|failure| wrong(&failure.message))
    }
}

/// The task's parameters, those whose values are compared last, so that what is compared is measured close together.
fn in_order<'a>(known: &'a [Parameter], runner: &Runner) -> Vec<&'a Parameter> {
    let is_compared = |parameter: &&Parameter| match runner {
        Runner::Task(task) => task.view.series.contains(&parameter.name.as_str()),
        Runner::Plugin(plugin) => plugin.series().contains(&parameter.name),
    };
    let (compared, others): (Vec<&Parameter>, Vec<&Parameter>) =
        known.iter().partition(is_compared);
    [others, compared].concat()
}

/// The values of one parameter; `command` is its task's, if it is a task's.
fn values(
    parameter: &Parameter,
    place: &Place<'_>,
    command: Option<&Command>,
) -> Result<Vec<String>, Failure> {
    let places = match place.is_list() {
        true => place.items()?,
        false => vec![place.clone()],
    };
    if places.is_empty() {
        return Err(place.wrong("a parameter needs a value"));
    }
    let mut values: Vec<String> = Vec::new();
    for place in places {
        let text = parameter
            .text(place.value)
            .map_err(|why| place.wrong(&why))?;
        for value in parameter
            .kind
            .single(&text)
            .map_err(|why| place.wrong(&why))?
        {
            if let Some(command) = command {
                taken(command, parameter, &value).map_err(|why| place.wrong(&why))?;
            }
            if values.contains(&value) {
                return Err(place.wrong(&format!("`{value}` is there twice")));
            }
            values.push(value);
        }
    }
    Ok(values)
}

/// Asks the task's own parser of this parameter whether it takes the value. Values that do not go together, or are missing, are found
/// when a test is whole.
fn taken(command: &Command, parameter: &Parameter, value: &str) -> Result<(), String> {
    let whole = command
        .get_arguments()
        .find(|argument| argument.get_id() == parameter.id.as_str());
    let Some(whole) = whole.filter(|_| parameter.kind != Kind::Switch) else {
        return Ok(());
    };
    let mut alone = Arg::new(whole.get_id().clone())
        .required(true)
        .value_parser(whole.get_value_parser().clone())
        .value_delimiter(whole.get_value_delimiter());
    if let Some(names) = whole.get_value_names() {
        alone = alone.value_names(names.to_vec());
    }
    let came = Command::new("dpb")
        .arg(alone)
        .try_get_matches_from(["dpb", "--", value]);
    came.map(drop).map_err(|error| complaint(&error))
}

/// What clap's error says is wrong, without its `error:`, its tips and the usage.
fn complaint(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.map(str::trim).collect();
    let whole = lines.join(" ");
    whole.strip_prefix("error: ").unwrap_or(&whole).to_owned()
}

/// Runs of `test`: what the command line says, the box, or the usual number.
pub fn repeats_of(test: &Test) -> u64 {
    test.repeats.unwrap_or(REPEATS)
}

#[cfg(test)]
mod tests;
