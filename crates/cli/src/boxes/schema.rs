//! The JSON Schema of a box, from the tasks' declarations.

use clap::Command;
use serde_json::{Map, Value, json};

use super::taken;
use crate::task::{Kind, Parameter, Range, Task, Tasks};

/// The schema. Plug-ins are not in it: their manifests say what they take.
pub fn schema(tasks: Tasks) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Box",
        "description": "Which tests are run: tasks, and lists of values of their parameters, whose cartesian product is the tests.",
        "type": "object",
        "required": ["tasks"],
        "additionalProperties": false,
        "properties": {
            "$schema": { "type": "string" },
            "name": { "type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$" },
            "description": { "type": "string" },
            "seed": { "type": "integer", "minimum": 0, "default": 1 },
            "repeats": { "type": "integer", "minimum": 1, "default": super::REPEATS },
            "tasks": { "type": "array", "items": { "oneOf": tasks.iter().map(of).collect::<Vec<_>>() } },
        },
    })
}

fn of(task: &Task) -> Value {
    let parameters = bounded_parameters(task);
    let required = parameters.iter().filter(|parameter| parameter.is_required);
    let required: Vec<&str> = required.map(|parameter| parameter.name.as_str()).collect();
    let properties = parameters.iter();
    let properties: Map<String, Value> = properties
        .map(|parameter| (parameter.name.clone(), parameter.schema()))
        .collect();
    let metrics: Vec<&str> = task.view.metrics.iter().map(|metric| metric.name).collect();
    json!({
        "title": task.name,
        "description": task.summary,
        "type": "object",
        "required": if required.is_empty() { vec!["task"] } else { vec!["task", "parameters"] },
        "additionalProperties": false,
        "properties": {
            "task": { "const": task.name },
            "description": { "type": "string" },
            "repeats": { "type": "integer", "minimum": 1 },
            "metrics": { "type": "array", "items": { "enum": metrics } },
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
        },
    })
}

/// The parameters of a task's tests, each whole number with the largest value that the flag's own parser takes on this machine.
pub fn bounded_parameters(task: &Task) -> Vec<Parameter> {
    let command = task.command();
    let bounded = task.parameters().into_iter().map(|parameter| Parameter {
        range: Range {
            maximum: maximum(&command, &parameter).map(|bound| bound as f64),
            ..parameter.range
        },
        ..parameter
    });
    bounded.collect()
}

/// The largest whole number that the parameter takes; `None` where it is no whole number, or has no bound. Bounds lie in the parsers of
/// flags, so these are asked.
fn maximum(command: &Command, parameter: &Parameter) -> Option<u64> {
    if !matches!(parameter.kind, Kind::Size | Kind::Count | Kind::Number) {
        return None;
    }
    let takes = |value: u64| taken(command, parameter, &value.to_string()).is_ok();
    if takes(u64::MAX) {
        return None;
    }
    let powers = (0..u64::BITS).rev().map(|power| 1 << power);
    let mut most = powers.into_iter().find(|&power| takes(power))?;
    let mut step = most / 2;
    while step > 0 {
        if takes(most + step) {
            most += step;
        }
        step /= 2;
    }
    Some(most)
}
