//! The messages of the service `tasks`: a client's to an agent that judges tests and runs none, and an agent's to a client.
//!
//! A test that an agent takes is one command line that the program takes too, and names no file, device or other machine. What an agent says is
//! written as it was read.
#![no_main]

use std::sync::LazyLock;

use dpb_cli::testing::{Judge, ReadBox, read_agents_messages, shipped_boxes};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

/// Flags that would reach beyond a test's own folder.
const REFUSED: [&str; 9] = [
    "--input",
    "--file",
    "--device",
    "--server",
    "--host",
    "--credentials",
    "--token-file",
    "--data-dir",
    "--cold",
];

static JUDGE: LazyLock<Judge> = LazyLock::new(Judge::new);

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    match bytes.split_first() {
        Some((&mode, body)) if mode % 3 == 0 => check(body),
        Some((&mode, body)) if mode % 3 == 1 => order(body),
        Some((_, body)) => {
            read_agents_messages(body);
        }
        None => {}
    }
});

fn check(body: &[u8]) {
    let Ok(takes) = JUDGE.check(body) else {
        return;
    };
    let asked: Value = serde_json::from_slice(body).expect("it was read");
    let asked = asked.as_array().expect("a list of tests");
    assert_eq!(takes.len(), asked.len(), "an answer to each");
    for (asked, is_taken) in asked.iter().zip(takes) {
        // Whoever is told that a test can run finds that it can.
        let order = json!({ "test": asked, "repeats": 1, "seed": 1, "run": "r" });
        let ordered = JUDGE.order(order.to_string().as_bytes());
        assert_eq!(ordered.is_ok(), is_taken, "{asked}: {ordered:?}");
    }
}

fn order(body: &[u8]) {
    let Ok(words) = JUDGE.order(body) else {
        return;
    };
    for word in &words {
        let flag = word.split_once('=').map_or(&**word, |(flag, _)| flag);
        assert!(!REFUSED.contains(&flag), "{words:?}");
        let names_remote = word.split([',', '=']).any(|part| {
            let part = part.trim();
            part.starts_with("remote/") || part.starts_with("remote-rdma/")
        });
        assert!(!names_remote || !word.starts_with("--backend"), "{words:?}");
    }
    let order: Value = serde_json::from_slice(body).expect("it was read");
    let text = json!({ "tasks": [order["test"]] }).to_string();
    let read = ReadBox::read(&text).expect("an agent reads it as a box");
    assert_eq!(read.tests(), 1);
    if let Err(why) = read.accepts(0) {
        panic!("{why}: {words:?}");
    }
}

/// The tasks of the boxes that dpb ships, each alone with the first of its values, as questions and orders; answers of an agent; and tests that
/// are refused.
fn seeds() -> Vec<Vec<u8>> {
    let mut tests: Vec<Value> = Vec::new();
    for text in shipped_boxes() {
        let whole: Value = serde_json::from_str(text).expect("a shipped box is JSON");
        for task in whole["tasks"].as_array().into_iter().flatten() {
            let mut parameters = task["parameters"].clone();
            for value in parameters.as_object_mut().into_iter().flatten() {
                if let Some(first) = value.1.get(0) {
                    *value.1 = first.clone();
                }
            }
            tests.push(json!({ "task": task["task"], "parameters": parameters }));
        }
    }
    tests.extend([
        json!({ "task": "op", "parameters": { "operator": "crc32c", "input": "/etc/passwd" } }),
        json!({ "task": "op", "parameters": { "operator": "crc32c", "backend": "remote-rdma/h:1/cpu" } }),
        json!({ "task": "storage", "parameters": { "file": "/etc/passwd" } }),
        json!({ "task": "tcp", "parameters": { "server": "10.0.0.1:80" } }),
        json!({ "task": "pushdown", "parameters": { "cold": true } }),
    ]);
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let mut seed = |mode: u8, body: Value| {
        seeds.push([&[mode], body.to_string().as_bytes()].concat());
    };
    for test in &tests {
        seed(
            1,
            json!({ "test": test, "repeats": 2, "seed": 7, "run": "17.a-b" }),
        );
        seed(0, json!([test]));
    }
    seed(0, json!(tests[..tests.len().min(5)]));
    for answer in [
        json!([{ "takes": { "once_s": 1.5, "each_run_s": 1e300, "memory_bytes": 3, "disk_bytes": 4 } }, { "refused": "no" }]),
        json!({ "code": 1, "stderr": "it failed" }),
        json!({ "port": 7500, "token": "t", "fingerprint": null }),
    ] {
        seed(2, answer);
    }
    seeds.sort();
    seeds.dedup();
    seeds
}
