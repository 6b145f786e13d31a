//! Boxes as dpBento's `run_dpbento.py` reads them, turned into dpb's tasks.
//!
//! | `benchmark_class` | dpb |
//! |---|---|
//! | `compute` | `op arithmetic`, each type and operation |
//! | `memory` | `memory` |
//! | `storage` | `storage` |
//! | `communication` | `tcp` and `rdma`, against `dpu_ip` |
//! | `hashing` | `op` with the digest or the cipher that the algorithm names |
//! | `compression` | `op deflate`, `op inflate` |
//! | `regex` | `op rxpmatch` with the pattern of TPC-H's query 13 |
//! | `BTree` | `index` with the engine `lmdb`, on the host alone, as dpBento runs it |
//! | `RDB` | `dbms` with the engine `duckdb` |
//!
//! A class, an item, an algorithm or a parameter that dpb has nothing for is listed ([`MeasurementBox::absent`](super::MeasurementBox))
//! and the rest runs. Keys that dpBento ignores (`output_dir`, `notes`, `…_description`) are ignored. dpBento multiplies lists with
//! each other, as dpb does; where two of its values are one choice of dpb's (`randread`), each becomes a task of its own.

use std::cell::RefCell;

use serde_json::{Value, json};

use super::Reader;
use super::place::Place;
use crate::exit::Failure;

/// What becomes of one benchmark.
type Translated = Result<Vec<Value>, String>;

/// Reads `benchmarks`.
pub(super) fn read(top: &Place<'_>, reader: &mut Reader<'_>) -> Result<(), Failure> {
    for benchmark in top.need("benchmarks")?.items()? {
        let class = benchmark.need("benchmark_class")?.text()?;
        let given = Given::of(&benchmark)?;
        match translated(&class, &given) {
            Ok(tasks) => {
                for task in tasks {
                    add(&task, &class, &benchmark, reader)?;
                }
                for key in given.unread() {
                    let line = format!("{class}: dpb has nothing for the parameter `{key}`");
                    reader.absent.push(line);
                }
            }
            Err(why) => reader.absent.push(format!("{class}: {why}")),
        }
    }
    Ok(())
}

/// Adds a task, if there is one of its name.
fn add(
    task: &Value,
    class: &str,
    benchmark: &Place<'_>,
    reader: &mut Reader<'_>,
) -> Result<(), Failure> {
    let name = task["task"].as_str().unwrap_or_default();
    if let Some(why) = task["absent"].as_str() {
        reader.absent.push(format!("{class}: {why}"));
        return Ok(());
    }
    if reader.globals.tasks.find(name).is_none() {
        let line = format!("{class}: dpb has no task `{name}`");
        if !reader.absent.contains(&line) {
            reader.absent.push(line);
        }
        return Ok(());
    }
    reader.task(&benchmark.child("as", task))
}

fn translated(class: &str, given: &Given) -> Translated {
    match class {
        "compute" => compute(given),
        "memory" => memory(given),
        "storage" => storage(given),
        "communication" => communication(given),
        "hashing" => hashing(given),
        "compression" => compression(given),
        "regex" => regex(given),
        "BTree" => index(given),
        "RDB" => database(given),
        "KVS_BF3" | "KVS_Octeon" | "KVS_Farnet" | "GraphDB" | "ml" => {
            Err("dpBento's repository has no such benchmark, and dpb none either".to_owned())
        }
        _ => Err("there is no such benchmark in dpBento".to_owned()),
    }
}

/// What a benchmark gives: items and parameters, each a list of texts.
struct Given {
    items: Vec<String>,
    parameters: Vec<(String, Vec<String>)>,
    /// The names of the parameters that were asked for.
    read: RefCell<Vec<String>>,
}

impl Given {
    fn of(benchmark: &Place<'_>) -> Result<Self, Failure> {
        let items = match benchmark.get("benchmark_items") {
            Some(items) => texts(&items)?,
            None => Vec::new(),
        };
        let mut parameters = Vec::new();
        if let Some(place) = benchmark.get("parameters") {
            for key in place.keys()? {
                if !key.ends_with("_description") {
                    let values = place.get(key).expect("one of its keys");
                    parameters.push((key.to_owned(), texts(&values)?));
                }
            }
        }
        Ok(Self {
            items,
            parameters,
            read: RefCell::default(),
        })
    }

    /// The values of a parameter, or dpBento's default.
    fn values(&self, name: &str, default: &str) -> Vec<String> {
        self.read.borrow_mut().push(name.to_owned());
        let given = self.parameters.iter().find(|(key, _)| key == name);
        let values = given.map(|(_, values)| values.clone()).unwrap_or_default();
        if values.is_empty() {
            return default.split(',').map(str::to_owned).collect();
        }
        values
    }

    /// The parameters that are given and that nothing asked for.
    fn unread(&self) -> Vec<&str> {
        let read = self.read.borrow();
        let given = self.parameters.iter().map(|(key, _)| key.as_str());
        given
            .filter(|key| !read.iter().any(|name| name == key))
            .collect()
    }

    /// The items, or all that the class has.
    fn items_or(&self, all: &[&str]) -> Vec<String> {
        match self.items.as_slice() {
            [] => all.iter().map(|&item| item.to_owned()).collect(),
            items => items.to_vec(),
        }
    }
}

/// A value or a list of values, as texts; lists inside lists keep their JSON.
fn texts(place: &Place<'_>) -> Result<Vec<String>, Failure> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let values = match place.is_list() {
        true => place.items()?.iter().map(|item| text(item.value)).collect(),
        false => vec![text(place.value)],
    };
    Ok(values
        .into_iter()
        .filter(|value| !value.is_empty())
        .collect())
}

/// dpBento's sizes are powers of 1024: `8k`, `4m`, `1G`.
fn sizes(values: &[String]) -> Vec<Value> {
    let size = |value: &String| {
        let split = value.find(|c: char| !c.is_ascii_digit());
        let (number, unit) = value.split_at(split.unwrap_or(value.len()));
        match unit.to_ascii_uppercase().as_str() {
            "" => number
                .parse::<u64>()
                .map_or_else(|_| json!(value), |n| json!(n)),
            "K" | "M" | "G" => json!(format!("{number}{}iB", unit.to_ascii_uppercase())),
            _ => json!(value),
        }
    };
    values.iter().map(size).collect()
}

fn numbers(values: &[String]) -> Vec<Value> {
    let number = |value: &String| {
        value
            .parse::<u64>()
            .map_or_else(|_| json!(value), |n| json!(n))
    };
    values.iter().map(number).collect()
}

fn reals(values: &[String]) -> Vec<Value> {
    let real = |value: &String| {
        value
            .parse::<f64>()
            .map_or_else(|_| json!(value), |real| json!(real))
    };
    values.iter().map(real).collect()
}

/// `30`, `30s`.
fn seconds(values: &[String]) -> Vec<Value> {
    let seconds = |value: &String| {
        let number = value.strip_suffix('s').unwrap_or(value);
        number
            .parse::<f64>()
            .map_or_else(|_| json!(value), |s| json!(s))
    };
    values.iter().map(seconds).collect()
}

fn absent(why: String) -> Value {
    json!({ "absent": why })
}

/// dpb's words for those of dpBento, each once; what has none is added to `tasks` as absent, as a `what`.
fn words(
    values: &[String],
    what: &str,
    of: impl Fn(&str) -> Option<&'static str>,
    tasks: &mut Vec<Value>,
) -> Vec<&'static str> {
    let mut words = Vec::new();
    for value in values {
        match of(value.trim()) {
            Some(word) if words.contains(&word) => {}
            Some(word) => words.push(word),
            None => tasks.push(absent(format!("dpb has no {what} {value}"))),
        }
    }
    words
}

fn compute(given: &Given) -> Translated {
    // In one text with commas, or as a list.
    let types = given.values("data_type", "int32,fp32");
    let types = types.iter().flat_map(|text| text.split(','));
    let types: Vec<String> = types.map(str::to_owned).collect();
    let mut tasks = Vec::new();
    let known = |name: &str| {
        Some(match name {
            "fp32" | "float" => "f32",
            "double" | "fp64" => "f64",
            "int8" => "int8",
            "int16" => "int16",
            "int32" => "int32",
            "int64" => "int64",
            "int128" => "int128",
            _ => return None,
        })
    };
    let mut parameters = Vec::new();
    for operand in words(&types, "arithmetic of the type", known, &mut tasks) {
        for operation in ["add", "subtract", "multiply", "divide"] {
            parameters.push(format!(
                "type={operand},operation={operation},form=dependent"
            ));
        }
    }
    if !parameters.is_empty() {
        tasks.push(json!({ "task": "op", "parameters": {
            "operator": "arithmetic", "parameters": parameters, "size": 32, "batch": 16, "backend": "cpu/best",
        }}));
    }
    Ok(tasks)
}

/// YCSB's workload C over LMDB without syncs, one read transaction a request. dpBento has no split between host and DPU; dpb's own boxes ask for one
/// by `--split`. Runs go by time, not by a number of operations.
fn index(given: &Given) -> Translated {
    /// A record of YCSB: ten fields of 100 bytes.
    const VALUE_BYTES: u64 = 1000;
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = given.values("num_threads", "0").into_iter();
    // dpBento's zero is as many as there are CPUs.
    let threads = threads.map(|threads| match threads.as_str() {
        "0" => all().to_string(),
        _ => threads,
    });
    Ok(vec![json!({ "task": "index", "parameters": {
        "engine": "lmdb",
        "durability": "none",
        "workload": "c",
        "records": numbers(&given.values("num_records", "5000000")),
        "value_bytes": VALUE_BYTES,
        "split": "1:0",
        "host_threads": numbers(&threads.collect::<Vec<String>>()),
        "batch": 1,
    }})])
}

/// All queries and states of a database are one test, so that they share its data's check.
fn database(given: &Given) -> Translated {
    let mut tasks = Vec::new();
    let known = |state: &str| match state {
        "cold" => Some("cold"),
        "hot" => Some("hot"),
        _ => None,
    };
    let states = given.values("execution_mode", "hot");
    let states = words(&states, "state of a database", known, &mut tasks);
    let mut parameters = json!({
        "engine": "duckdb",
        "sf": reals(&given.values("scale_factors", "1")),
        "state": states.join(","),
        "threads": numbers(&given.values("threads", "1")),
    });
    let queries = given.values("query", "");
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    if queries.iter().any(|query| !query.is_empty()) {
        parameters["query"] = json!(queries.join(","));
    }
    if !states.is_empty() {
        tasks.push(json!({ "task": "dbms", "parameters": parameters }));
    }
    Ok(tasks)
}

fn memory(given: &Given) -> Translated {
    let mut tasks = Vec::new();
    let accesses = given.values("memory-oper", "read");
    let known = |access: &str| match access {
        "read" => Some("read"),
        "write" => Some("write"),
        _ => None,
    };
    let accesses = words(&accesses, "memory access", known, &mut tasks);
    let modes = given.values("memory-access-mode", "seq");
    let known = |mode: &str| match mode {
        "rnd" => Some("random"),
        "seq" => Some("sequential"),
        _ => None,
    };
    let patterns = words(&modes, "order of memory accesses", known, &mut tasks);
    let size = sizes(&given.values("memory-block-size", "1K"));
    let threads = numbers(&given.values("threads", "1"));
    let seconds = seconds(&given.values("time", "10"));
    if !accesses.is_empty() && !patterns.is_empty() {
        tasks.push(json!({ "task": "memory", "parameters": {
            "size": size,
            "access": accesses,
            "pattern": patterns,
            "threads": threads,
            "seconds": seconds,
        }, "repeats": 1 }));
    }
    Ok(tasks)
}

fn storage(given: &Given) -> Translated {
    let mut tasks = Vec::new();
    let known = |engine: &str| match engine {
        "libaio" => Some("libaio"),
        "io_uring" => Some("io_uring"),
        // fio's names for calls that wait.
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Some("sync"),
        _ => None,
    };
    let engines = given.values("io_engine", "io_uring");
    let engines = words(&engines, "storage engine", known, &mut tasks);
    let known = |direct: &str| match direct {
        "0" | "false" => Some("no"),
        "1" | "true" => Some("yes"),
        _ => None,
    };
    let direct = given.values("direct", "1");
    let direct = words(&direct, "choice of direct I/O", known, &mut tasks);
    let tests = given.values("test_lst", "randwrite,randread,write,read");
    let repeats = numbers(&given.values("runtimes", "5"));
    let sizes = |name, default| sizes(&given.values(name, default));
    let (block, file_size) = (sizes("block_sizes", "1m"), sizes("size", "1G"));
    let jobs = numbers(&given.values("numProc", "4"));
    let depth = numbers(&given.values("iodepth", "32"));
    let seconds = seconds(&given.values("runtime", "30s"));
    let is_none = engines.is_empty() || direct.is_empty();
    for test in tests.iter().filter(|_| !is_none) {
        let (pattern, access) = match test.as_str() {
            "randread" => ("random", "read"),
            "randwrite" => ("random", "write"),
            "read" => ("sequential", "read"),
            "write" => ("sequential", "write"),
            _ => {
                tasks.push(absent(format!("dpb has no access pattern {test}")));
                continue;
            }
        };
        tasks.extend(repeats.iter().map(|repeats| {
            json!({ "task": "storage", "parameters": {
                "pattern": pattern,
                "access": access,
                "block": block,
                "file_size": file_size,
                "jobs": jobs,
                "depth": depth,
                "engine": engines,
                "direct": direct,
                "seconds": seconds,
            }, "repeats": repeats })
        }));
    }
    Ok(tasks)
}

/// The client's side: dpBento starts its servers on the DPU by itself, dpb's user starts `dpb tcp --serve` or `dpb rdma` there.
fn communication(given: &Given) -> Translated {
    let mut tasks = Vec::new();
    let hosts = given.values("dpu_ip", "192.168.100.2");
    let size = sizes(&given.values("data_size", "8"));
    for item in given.items_or(&["TCP", "RDMA"]) {
        tasks.push(match item.as_str() {
            "TCP" => json!({ "task": "tcp", "parameters": {
                "server": servers(&hosts, &given.values("port", "8080")),
                "size": size,
                "depth": numbers(&given.values("queue_depth", "1")),
                "connections": numbers(&given.values("threads", "1")),
            }}),
            "RDMA" => json!({ "task": "rdma", "parameters": {
                "method": "lat", "verb": "read", "host": hosts, "size": size,
            }}),
            _ => absent(format!("dpBento has no item {item}")),
        });
    }
    Ok(tasks)
}

/// Each port of each host.
fn servers(hosts: &[String], ports: &[String]) -> Vec<String> {
    let servers = hosts.iter().flat_map(|host| {
        ports.iter().map(move |port| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        })
    });
    servers.collect()
}

fn hashing(given: &Given) -> Translated {
    let mut tasks = Vec::new();
    let size = sizes(&given.values("bytes", "16"));
    let threads = numbers(&given.values("multi", "1"));
    let seconds = seconds(&given.values("seconds", "3"));
    for item in given.items_or(&["openssl_speed", "doca_sha256"]) {
        let (backend, algorithms) = match item.as_str() {
            "doca_sha256" => ("doca", vec!["sha256".to_owned()]),
            "openssl_speed" | "openssl speed" => ("cpu/best", given.values("algorithm", "sha256")),
            _ => {
                tasks.push(absent(format!("dpBento has no item {item}")));
                continue;
            }
        };
        for algorithm in algorithms {
            let (operator, own) = match algorithm.as_str() {
                "md5" | "sha1" | "sha256" | "sha512" => (algorithm.as_str(), ""),
                "aes-128-cbc" => ("aes-cbc", "bits=128"),
                "aes-256-cbc" => ("aes-cbc", "bits=256"),
                "aes-128-gcm" => ("aes-gcm", "bits=128"),
                "aes-256-gcm" => ("aes-gcm", "bits=256"),
                _ => {
                    tasks.push(absent(format!("dpb has no operator for {algorithm}")));
                    continue;
                }
            };
            tasks.push(json!({ "task": "op", "parameters": {
                "operator": operator,
                "parameters": own,
                "size": size,
                "threads": threads,
                "seconds": seconds,
                "backend": backend,
            }, "repeats": 1 }));
        }
    }
    Ok(tasks)
}

/// One item at a time, as dpBento times it.
fn sized(operator: &str, own: &str, backend: &str, given: &Given) -> Value {
    json!({ "task": "op", "parameters": {
        "operator": operator,
        "parameters": own,
        "size": sizes(&given.values("data_size", "4K")),
        "batch": 1,
        "backend": backend,
        "latency": true,
    }})
}

/// dpBento's items: plain, with SIMD, on all cores, on DOCA's engine.
fn backend_of(item: &str) -> Option<&'static str> {
    match item {
        "default" | "single" | "simd" => Some("cpu/best"),
        "threading" | "threaded-single" => Some("pool"),
        "doca" => Some("doca"),
        _ => None,
    }
}

fn compression(given: &Given) -> Translated {
    let operations = given.values("operation", "compression");
    let items = given.items_or(&["default", "single", "threaded-single", "threading", "doca"]);
    let mut tasks = Vec::new();
    let known = |operation: &str| match operation {
        "compress" | "compression" => Some("deflate"),
        "decompress" | "decompression" => Some("inflate"),
        _ => None,
    };
    for operator in words(&operations, "operation", known, &mut tasks) {
        let mut done = Vec::new();
        for item in &items {
            match backend_of(item) {
                // Two of dpBento's items differ in the library alone.
                Some(backend) if done.contains(&backend) => {}
                Some(backend) => {
                    done.push(backend);
                    tasks.push(sized(operator, "", backend, given));
                }
                None => tasks.push(absent(format!("dpBento has no item {item}"))),
            }
        }
    }
    Ok(tasks)
}

fn regex(given: &Given) -> Translated {
    let items = given.items_or(&["simd", "threading", "doca"]);
    let task = |item: &String| match backend_of(item) {
        Some(backend) => sized("rxpmatch", "set=q13", backend, given),
        None => absent(format!("dpBento has no item {item}")),
    };
    Ok(items.iter().map(task).collect())
}
