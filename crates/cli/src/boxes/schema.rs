//! The JSON Schema of a box, from the tasks' declarations.

use serde_json::{Map, Value, json};

use crate::task::{Task, Tasks};

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
    let parameters = task.parameters();
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
