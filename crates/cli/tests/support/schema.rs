//! JSON Schema, as far as that of records goes.

use serde_json::Value;

/// Checks `value` against the part of JSON Schema that ours uses; where it does not fit.
pub fn misfit(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    if let Some(path) = schema["$ref"].as_str() {
        return misfit(value, root.pointer(&path[1..]).expect("a definition"), root);
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let misfits: Option<Vec<String>> = choices
                .iter()
                .map(|choice| misfit(value, choice, root))
                .collect();
            if let Some(misfits) = misfits {
                return Some(misfits.join(" and "));
            }
        }
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        return Some(format!("{value} is not {}", schema["const"]));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Some(format!("{value} is none of {values:?}"));
    }
    let beyond = |bound: &str, is_beyond: fn(u64, u64) -> bool| {
        let bound = schema[bound].as_u64();
        bound
            .zip(value.as_u64())
            .is_some_and(|(bound, value)| is_beyond(value, bound))
    };
    if beyond("minimum", |value, bound| value < bound)
        || beyond("maximum", |value, bound| value > bound)
    {
        return Some(format!("{value} is out of range"));
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let fits = |name: &&str| match *name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("the schema has a type {other}"),
    };
    if !names.is_empty() && !names.iter().any(fits) {
        return Some(format!("{value} is no {names:?}"));
    }
    if value.is_null() {
        return None;
    }
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if value.get(name).is_none() {
            return Some(format!("{name} is missing"));
        }
    }
    if schema["additionalProperties"] == false {
        let known = |name: &&String| !schema["properties"][name.as_str()].is_null();
        let mut names = value
            .as_object()
            .into_iter()
            .flat_map(|object| object.keys());
        if let Some(name) = names.find(|name| !known(name)) {
            return Some(format!("{name} is not known"));
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let part = [&schema["properties"][name], &schema["additionalProperties"]];
        if let Some(part) = part.into_iter().find(|part| part.is_object())
            && let Some(why) = misfit(member, part, root)
        {
            return Some(format!("{name}: {why}"));
        }
    }
    let items = value.as_array().into_iter().flatten();
    items
        .filter(|_| schema["items"].is_object())
        .find_map(|item| misfit(item, &schema["items"], root))
}
