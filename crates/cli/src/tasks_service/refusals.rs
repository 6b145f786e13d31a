//! What an agent takes from no client, before it reads anything of it: parameters that name files, devices or other machines.
//!
//! Reading a box opens files that parameters name, so this is asked first.

use serde_json::Value;

use dpb_core::spec::{Domain, NO_FILE};
use dpb_link::operators::is_remote;
use dpb_operators::registry::Operators;
use dpb_sim::system::Shipped;

use super::protocol::Asked;
use crate::cmd;
use crate::task::{Kind, Parameter, Place};

/// Whether a test names nothing of the agent's beyond its own data.
///
/// # Errors
/// The parameter, and why it is refused.
pub fn check(
    asked: &Asked,
    known: &[Parameter],
    operators: Operators,
    may_clear: bool,
) -> Result<(), String> {
    for (name, value) in &asked.parameters {
        let Some(parameter) = known.iter().find(|parameter| parameter.name == *name) else {
            continue;
        };
        // As boxes have it: a value, or a list of values.
        let values = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            check_value(parameter, value, operators, may_clear)
                .map_err(|why| format!("`{name}` {why}"))?;
        }
    }
    Ok(())
}

fn check_value(
    parameter: &Parameter,
    value: &Value,
    operators: Operators,
    may_clear: bool,
) -> Result<(), String> {
    let text = value.as_str().unwrap_or_default();
    if parameter.place == Place::Position && text.starts_with('-') {
        return Err("begins with a hyphen, as flags do".to_owned());
    }
    match (&parameter.kind, parameter.name.as_str()) {
        (Kind::File, _) => Err("names a file or a device of the agent's machine".to_owned()),
        (Kind::Address, _) => Err("names another machine".to_owned()),
        (_, "backend") if names_remote(text) => {
            Err("names a backend of yet another machine".to_owned())
        }
        (_, "system") if !text.split(',').all(|name| Shipped::find(name.trim()).is_some()) => {
            Err("names a file of the agent's machine; systems that come with dpb are taken".to_owned())
        }
        (_, "set") if cmd::sim::names_file(text) => {
            Err("may name a file of the agent's machine".to_owned())
        }
        (_, "parameters") => match file_among(text, operators) {
            Some(own) => Err(format!(
                "names a file of the agent's machine: {own}; `{NO_FILE}` is taken"
            )),
            None => Ok(()),
        },
        (Kind::Switch, "cold") if *value == Value::Bool(true) && !may_clear => Err(
            "empties caches that others use, which this agent does not allow (`dpb serve --allow-cold`)"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

fn names_remote(backends: &str) -> bool {
    backends.split(',').any(|name| is_remote(name.trim()))
}

/// The part of `key=value,…` that names a file, for any operator.
fn file_among(text: &str, operators: Operators) -> Option<&str> {
    text.split(',').map(str::trim).find(|part| {
        let Some((name, value)) = part.split_once('=') else {
            return false;
        };
        value != NO_FILE && is_file(name, operators)
    })
}

fn is_file(name: &str, operators: Operators) -> bool {
    operators.iter().any(|entry| {
        let mut parameters = entry.parameters.iter().chain(entry.workload_parameters);
        parameters.any(|known| known.name == name && known.values == Domain::File)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn why_not(task: &str, parameters: Value, may_clear: bool) -> Option<String> {
        let known = crate::TASKS.find(task).expect("a task").parameters();
        let asked: Asked =
            serde_json::from_value(json!({ "task": task, "parameters": parameters })).expect("one");
        check(&asked, &known, Operators::DPB, may_clear).err()
    }

    #[test]
    fn files_devices_and_other_machines_are_refused_and_named() {
        for (task, parameters, said) in [
            (
                "op",
                json!({ "operator": "crc32c", "input": "/etc/passwd" }),
                "`input` names a file",
            ),
            (
                "op",
                json!({ "operator": "aes-gcm", "parameters": "key=/etc/shadow" }),
                "`parameters` names",
            ),
            (
                "op",
                json!({ "operator": "crc32c", "parameters": ["", "key=secret"] }),
                "key=secret",
            ),
            (
                "op",
                json!({ "operator": "--out=/tmp/x" }),
                "`operator` begins",
            ),
            (
                "op",
                json!({ "operator": "crc32c", "backend": "cpu/best,remote/h:1/cpu" }),
                "`backend` names",
            ),
            (
                "op",
                json!({ "operator": "crc32c", "backend": ["cpu/best", "remote-rdma:h:1/cpu"] }),
                "`backend` names",
            ),
            ("storage", json!({ "file": "/etc/passwd" }), "`file` names"),
            ("storage", json!({ "device": "/dev/sda" }), "`device` names"),
            (
                "tcp",
                json!({ "server": "10.0.0.1:80" }),
                "`server` names another machine",
            ),
            (
                "rdma",
                json!({ "method": "lat", "host": "elsewhere" }),
                "`host` names another machine",
            ),
            ("pushdown", json!({ "cold": true }), "`cold` empties caches"),
            (
                "sim run",
                json!({ "system": "card,/etc/passwd" }),
                "`system` names a file",
            ),
            (
                "sim run",
                json!({ "system": "card", "set": ["card.pcie_ns=1", "card.stage.record=/etc/passwd"] }),
                "`set` may name a file",
            ),
        ] {
            let why = why_not(task, parameters.clone(), false);
            let why = why.unwrap_or_else(|| panic!("{parameters} is taken"));
            assert!(why.contains(said), "{why}");
        }
        for (task, parameters) in [
            (
                "op",
                json!({ "operator": "aes-gcm", "parameters": "key=-", "backend": "cpu/best" }),
            ),
            ("storage", json!({ "block": "4KiB" })),
            ("pushdown", json!({ "cold": false })),
            (
                "sim run",
                json!({ "system": ["card", "woo-chung/dumb"], "set": "card.pcie_ns=1,2" }),
            ),
        ] {
            assert_eq!(why_not(task, parameters, false), None);
        }
        assert_eq!(why_not("pushdown", json!({ "cold": true }), true), None);
    }
}
