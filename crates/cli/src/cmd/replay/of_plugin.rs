//! The test of a plug-in's record once more: the plug-in runs again with the record's parameters, as in a box.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::measure::provenance::new_run;
use dpb_core::measure::{Record, Value};
use serde_json::{Map, json};

use crate::boxes::{Runner, Site, Test};
use crate::contained::Unwatched;
use crate::executor::{Executor, Order, Surroundings, TestEnd};
use crate::exit::Failure;
use crate::plugin::Plugin;

/// The record's test.
///
/// # Errors
/// If the plug-in takes a value of the record no more, or needs a parameter that the record lacks.
pub(super) fn test(
    record: &Record,
    plugin: &Arc<Plugin>,
    instead: &[String],
) -> Result<Test, Failure> {
    let name = &plugin.name;
    if let Some(flag) = instead.first() {
        return Err(Failure::usage(format!(
            "{flag}: the record is of the plug-in {name}, which has no flags"
        )));
    }
    let mut parameters = Vec::new();
    for parameter in &plugin.parameters {
        let Some(value) = record.parameters.get(&parameter.name) else {
            if parameter.is_required {
                let wanted = &parameter.name;
                let why = format!("the record has no `{wanted}`, which the plug-in {name} needs");
                return Err(Failure::usage(why));
            }
            continue;
        };
        let text = parameter.text(&json(value));
        let text =
            text.map_err(|why| Failure::usage(format!("{name}: {}: {why}", parameter.name)))?;
        parameters.push((parameter.clone(), text));
    }
    Ok(Test {
        runner: Runner::Plugin(plugin.clone()),
        parameters,
        repeats: repeats(record),
        metrics: Vec::new(),
        site: Site::Here,
        told: None,
    })
}

/// A record's value as a box has it.
fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Text(value) => value.as_str().into(),
    }
}

fn repeats(record: &Record) -> Option<u64> {
    match record.parameters.get("repeat") {
        Some(Value::Int(runs)) => u64::try_from(*runs).ok().filter(|runs| *runs > 0),
        _ => None,
    }
}

/// The box that has the test alone, and how it is run.
pub(super) fn shown(test: &Test, record: &Record, plugin: &Plugin) -> String {
    let parameters = test.parameters.iter();
    let parameters =
        parameters.map(|(parameter, text)| (parameter.name.clone(), parameter.kind.value(text)));
    let mut task = json!({ "task": plugin.name, "parameters": parameters.collect::<Map<_, _>>() });
    if let Some(repeats) = test.repeats {
        task["repeats"] = repeats.into();
    }
    format!(
        "dpb run BOX --plugins {} --seed {}\nwith BOX: {}\n",
        plugin.folder().display(),
        record.provenance.seed,
        json!({ "tasks": [task] })
    )
}

/// Runs it, and what prepares it before, as `dpb run` does.
///
/// # Errors
/// If it cannot be started, or was interrupted.
pub(super) fn again(
    test: &Test,
    record: &Record,
    plugin: &Plugin,
    data_dir: PathBuf,
) -> Result<Vec<Record>, Failure> {
    let data_dir = std::path::absolute(data_dir).map_err(anyhow::Error::from)?;
    let mut executor = Executor::new(data_dir, Surroundings::Ours, Duration::MAX);
    let order = Order {
        test,
        repeats: crate::boxes::repeats_of(test),
        seed: record.provenance.seed,
        run: &new_run(),
        cost: plugin.cost,
        words: &[],
    };
    match executor.test(&order, &mut Unwatched)? {
        TestEnd::Done(done) => Ok(done.records),
        TestEnd::Ended => Err(Failure::interrupted("interrupted")),
    }
}
