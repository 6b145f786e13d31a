//! Boxes as people write them, right and wrong.

use std::sync::LazyLock;

use dpb_core::Families;
use dpb_operators::registry::Operators;

use super::*;
use crate::backends;
use crate::testing::globals;

static FAMILIES: LazyLock<Families> = LazyLock::new(|| backends::families(&[], Operators::DPB));

fn read(text: &str) -> Result<MeasurementBox, String> {
    let globals = globals(*FAMILIES);
    let plugins = Plugins::default();
    MeasurementBox::read("b.json", text, &plugins, &Changes::default(), &globals)
        .map_err(|failure| failure.message)
}

fn words(boxed: &MeasurementBox) -> Vec<String> {
    let tests = boxed.tests.iter();
    tests
        .map(|test| test.words(repeats_of(test), boxed.seed).join(" "))
        .collect()
}

#[test]
fn tests_are_the_product_of_the_values() {
    let boxed = read(
        r#"{ "seed": 3, "repeats": 2, "tasks": [ { "task": "op", "metrics": ["items_per_s"],
            "parameters": { "size": [64, "1KiB"], "backend": ["cpu/best", "cpu/portable"], "operator": "crc32c", "latency": true } } ] }"#,
    );
    let boxed = boxed.expect("a box");
    assert_eq!(boxed.name, "b");
    let tests = words(&boxed);
    assert_eq!(
        tests,
        [
            "op crc32c --size=64 --latency --backend=cpu/best --repeat=2 --seed=3",
            "op crc32c --size=64 --latency --backend=cpu/portable --repeat=2 --seed=3",
            "op crc32c --size=1024 --latency --backend=cpu/best --repeat=2 --seed=3",
            "op crc32c --size=1024 --latency --backend=cpu/portable --repeat=2 --seed=3",
        ]
    );
    assert_eq!(boxed.tests[0].metrics, ["items_per_s"]);
    // A range is as many values as a list.
    let range = read(
        r#"{ "tasks": [ { "task": "op", "parameters": { "operator": "crc32c", "size": "64..1024" } } ] }"#,
    );
    assert_eq!(range.expect("a box").tests.len(), 5);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let task = |rest: &str| format!(r#"{{ "tasks": [ {{ "task": "op", {rest} }} ] }}"#);
    let with = |parameters: &str| {
        task(&format!(
            r#""parameters": {{ "operator": "crc32c", {parameters} }}"#
        ))
    };
    for (text, said) in [
        ("{", "b.json: not JSON"),
        ("[]", "b.json: an object is expected"),
        ("{}", "b.json: `tasks` is missing"),
        (r#"{ "tasks": {} }"#, "b.json: tasks: a list is expected"),
        (
            r#"{ "tasks": [], "colour": 1 }"#,
            "no key `colour`; there are name",
        ),
        (
            r#"{ "tasks": [], "name": "../up" }"#,
            "b.json: name: a name has",
        ),
        (
            r#"{ "tasks": [ { "task": "dance" } ] }"#,
            "b.json: tasks[0].task: no task or plug-in `dance`; there are op",
        ),
        (
            &task(r#""metrics": ["beauty"]"#),
            "b.json: tasks[0].metrics[0]: op has no metric `beauty`; there are bytes_per_s",
        ),
        (
            &task(r#""repeats": 0"#),
            "b.json: tasks[0].repeats: a whole number from 1 on",
        ),
        (
            &with(r#""colour": 1"#),
            "b.json: tasks[0].parameters: no key `colour`; there are operator",
        ),
        (
            &with(r#""size": [64, "4K"]"#),
            "b.json: tasks[0].parameters.size[1]: `4K`: write `4KiB`",
        ),
        (
            &with(r#""size": true"#),
            "tasks[0].parameters.size: true is not a size",
        ),
        (
            &with(r#""size": []"#),
            "tasks[0].parameters.size: a parameter needs a value",
        ),
        (
            &with(r#""size": [64, 64]"#),
            "tasks[0].parameters.size[1]: `64` is there twice",
        ),
        (
            &with(r#""threads": 100000"#),
            "tasks[0].parameters.threads: ",
        ),
        (
            &with(r#""mode": "sideways""#),
            "tasks[0].parameters.mode: `sideways` is not one of closed, open",
        ),
        (
            &with(r#""latency": "yes""#),
            "tasks[0].parameters.latency: \"yes\" is not true or false",
        ),
        (&with(r#""out": "x""#), "no key `out`"),
        (
            &with(r#""backend": "abacus""#),
            "tasks[0].parameters: op operator=crc32c backend=abacus: ",
        ),
        (&with(r#""parameters": "level=1""#), "takes no parameters"),
        (
            &task(r#""parameters": { "size": 64 }"#),
            "required arguments",
        ),
        (&with(r#""mode": "open""#), "--rate"),
    ] {
        let why = read(text).expect_err(text);
        assert!(why.contains(said), "{text}\n{why}\nnot: {said}");
    }
}

/// A box is refused where the verb is.
#[test]
fn a_value_out_of_range_is_refused_whatever_the_task() {
    for (task, parameters, said) in [
        (
            "memory",
            r#""size": [1024, 100]"#,
            "memory size=100: --size 100: a buffer has",
        ),
        (
            "memory",
            r#""pin": "4000000""#,
            "memory pin=4000000: --pin 4000000: this process",
        ),
        (
            "storage",
            r#""block": 513"#,
            "storage block=513: --block 513: requests are multiples",
        ),
        (
            "storage",
            r#""block": "2GiB", "file_size": "4GiB""#,
            "--block 2147483648: requests",
        ),
        (
            "storage",
            r#""file_size": 1000"#,
            "storage file_size=1000: --file-size 1000: it is",
        ),
        (
            "storage",
            r#""pin": "4000000""#,
            "storage pin=4000000: --pin 4000000: this process",
        ),
        (
            "storage",
            r#""device": "/dev/dpb-none", "access": "write""#,
            "writing destroys all that /dev/dpb-none holds",
        ),
        (
            "tcp",
            r#""size": [64, 4]"#,
            "tcp size=4: messages of 4 bytes",
        ),
        ("tcp", r#""size": "32MiB""#, "messages of 33554432 bytes"),
        ("tcp", r#""rate": 1000"#, "--rate needs --mode open"),
        ("tcp", r#""seconds": "2h""#, "tasks[0].parameters"),
        (
            "tcp",
            r#""server_pin": "4000000""#,
            "--server-pin 4000000: this process",
        ),
    ] {
        let text = format!(
            r#"{{ "tasks": [ {{ "task": "{task}", "parameters": {{ {parameters} }} }} ] }}"#
        );
        let why = read(&text).expect_err(&text);
        assert!(
            why.starts_with("b.json: tasks[0].parameters"),
            "{text}\n{why}"
        );
        assert!(why.contains(said), "{text}\n{why}\nnot: {said}");
    }
}

#[test]
fn every_positional_of_a_task_is_a_key() {
    let boxed = read(
        r#"{ "tasks": [ { "task": "rdma", "parameters": {
            "host": ["10.0.0.1", "dpu.example"], "method": "lat", "verb": ["read", "write"], "size": 64, "gid_index": 3 } } ] }"#,
    );
    let tests = words(&boxed.expect("a box"));
    assert_eq!(
        tests,
        [
            "rdma lat 10.0.0.1 --size=64 --gid-index=3 --verb=read --repeat=7",
            "rdma lat 10.0.0.1 --size=64 --gid-index=3 --verb=write --repeat=7",
            "rdma lat dpu.example --size=64 --gid-index=3 --verb=read --repeat=7",
            "rdma lat dpu.example --size=64 --gid-index=3 --verb=write --repeat=7",
        ]
    );
    for (parameters, said) in [
        (
            r#""host": "dpu", "method": "speed", "verb": "read""#,
            "tasks[0].parameters.method: `speed` is not one of lat, bw",
        ),
        (
            r#""host": "dpu", "method": "lat", "verb": "read", "gid_index": 256"#,
            "tasks[0].parameters.gid_index: invalid value '256' for '<NUMBER>'",
        ),
        (
            r#""host": "dpu", "verb": "read""#,
            "tasks[0].parameters: rdma host=dpu verb=read: ",
        ),
    ] {
        let text =
            format!(r#"{{ "tasks": [ {{ "task": "rdma", "parameters": {{ {parameters} }} }} ] }}"#);
        let why = read(&text).expect_err(&text);
        assert!(why.contains(said), "{text}\n{why}\nnot: {said}");
    }
}

#[test]
fn dpb_ships_boxes_that_can_be_read() {
    let globals_free: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
    assert!(globals_free.contains(&"quick"));
    for shipped in SHIPPED {
        let boxed = read(shipped.text).unwrap_or_else(|why| panic!("{}: {why}", shipped.name));
        assert_eq!(boxed.name, shipped.name);
        assert!(
            !boxed.description.is_empty() && !boxed.tests.is_empty(),
            "{}",
            shipped.name
        );
    }
}

#[test]
fn a_box_of_dpbento_becomes_tasks_and_a_list_of_what_is_missing() {
    let boxed = read(
        r#"{ "output_dir": "/optional", "benchmarks": [
            { "benchmark_class": "compute", "benchmark_items": ["fp", "int"], "parameters": { "data_type": "int8,double,fp16" },
              "metrics": ["data_type", "op_type", "ops/s"] },
            { "benchmark_class": "hashing", "benchmark_items": ["openssl_speed"],
              "parameters": { "algorithm": ["sha256", "sm3"], "seconds": [1], "bytes": [4, 4096], "multi": [1], "misalign": [0] } },
            { "benchmark_class": "compression", "benchmark_items": ["single", "threading"],
              "parameters": { "operation": ["decompress"], "data_size": ["1K", "4m"], "threads": -1 } },
            { "benchmark_class": "RDB", "parameters": { "scale_factors": [0.01, 10], "query": [1, 6], "execution_mode": ["cold", "hot", "tepid"], "threads": [8] } },
            { "benchmark_class": "BTree", "lmdb_mapsize": 10737418240,
              "parameters": { "num_threads": [1, 2], "num_records": [1000], "num_operations_per_thread": [16777216] } },
            { "benchmark_class": "BTree" },
            { "benchmark_class": "hasing" } ] }"#,
    );
    let boxed = boxed.expect("a box");
    let tests = words(&boxed);
    assert_eq!(
        tests
            .iter()
            .filter(|test| test.starts_with("op arithmetic"))
            .count(),
        8
    );
    assert!(tests.contains(&"op sha256 --parameters= --size=4096 --threads=1 --seconds=1s --backend=cpu/best --repeat=1 --seed=1".to_owned())
        || tests.iter().any(|test| test.starts_with("op sha256") && test.contains("--size=4096")), "{tests:#?}");
    assert!(tests.iter().any(|test| test.starts_with("op inflate")
        && test.contains("--size=4194304")
        && test.contains("--backend=pool")));
    let databases: Vec<&String> = tests
        .iter()
        .filter(|test| test.starts_with("dbms"))
        .collect();
    assert_eq!(databases.len(), 2, "{databases:?}");
    for flag in [
        "--engine=duckdb",
        "--query=1,6",
        "--state=cold,hot",
        "--threads=8",
    ] {
        assert!(databases[0].contains(flag), "{databases:?}");
    }
    let indexes: Vec<&String> = tests
        .iter()
        .filter(|test| test.starts_with("index"))
        .collect();
    assert_eq!(indexes.len(), 3, "{indexes:?}");
    for (index, own) in indexes.iter().zip([
        ["--records=1000", "--host-threads=1"],
        ["--records=1000", "--host-threads=2"],
        ["--records=5000000", "--host-threads="],
    ]) {
        // YCSB's C over LMDB without syncs, one request a transaction.
        let all = [
            "--engine=lmdb",
            "--durability=none",
            "--workload=c",
            "--batch=1",
        ];
        for flag in own.into_iter().chain(all) {
            assert!(index.contains(flag), "{flag}: {index}");
        }
        assert!(index.contains("--split=1:0") && !index.contains("--host-threads=0"));
    }
    for missing in [
        "compute: dpb has no arithmetic of the type fp16",
        "BTree: dpb has nothing for the parameter `num_operations_per_thread`",
        "hashing: dpb has no operator for sm3",
        "RDB: dpb has no state of a database tepid",
        "hasing: ",
    ] {
        assert!(
            boxed.absent.iter().any(|line| line.starts_with(missing)),
            "{missing}: {:#?}",
            boxed.absent
        );
    }
}

#[test]
fn a_box_of_dpbento_says_what_it_gives_in_vain_and_keeps_all_values_of_a_list() {
    let boxed = read(
        r#"{ "benchmarks": [
            { "benchmark_class": "communication", "benchmark_items": ["TCP"], "parameters": {
                "data_size": [8], "threads": [1], "test_rounds": [1000], "dpu_ip": "192.0.2.7", "port": "8080",
                "port_description": "of the DPU" } },
            { "benchmark_class": "storage", "parameters": { "test_lst": ["randread"], "direct": [0, 1], "runtime": ["1s", "2s"],
                "runtimes": [3, 10], "io_engine": ["libaio", "sync", "psync", "mmap"], "block_sizes": ["8k"], "size": ["1G"] } },
            { "benchmark_class": "memory", "parameters": { "memory-total-size": ["10G"], "time": [1, 30] } } ] }"#,
    );
    let boxed = boxed.expect("a box");
    let tests = words(&boxed);
    let of = |task: &'static str| tests.iter().filter(move |test| test.starts_with(task));
    assert_eq!(of("tcp").count(), 1);
    assert!(of("tcp").all(|test| test.contains("--server=192.0.2.7:8080")));
    // Two engines, direct or not, 1 or 2 seconds, 3 or 10 runs.
    assert_eq!(of("storage").count(), 16, "{tests:#?}");
    for engine in ["libaio", "sync"] {
        let flag = format!("--engine={engine}");
        assert_eq!(of("storage").filter(|test| test.contains(&flag)).count(), 8);
    }
    for repeats in [3, 10] {
        let repeat = format!("--repeat={repeats}");
        assert_eq!(
            of("storage").filter(|test| test.contains(&repeat)).count(),
            8
        );
    }
    assert_eq!(of("memory").count(), 2);
    for missing in [
        "communication: dpb has nothing for the parameter `test_rounds`",
        "storage: dpb has no storage engine mmap",
        "memory: dpb has nothing for the parameter `memory-total-size`",
    ] {
        assert!(
            boxed.absent.iter().any(|line| line == missing),
            "{missing}: {:#?}",
            boxed.absent
        );
    }
    assert_eq!(boxed.absent.len(), 3, "{:#?}", boxed.absent);
}

/// `DPB_DPBENTO` names a checkout of dpBento's repository, which is not part of dpb's.
#[test]
fn boxes_of_dpbentos_repository_are_read() {
    let Some(folder) = std::env::var_os("DPB_DPBENTO") else {
        eprintln!("skipped: DPB_DPBENTO names no checkout of dpBento");
        return;
    };
    let mut folders = vec![std::path::PathBuf::from(folder).join("configs_user")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "json") {
                let boxed = read(&std::fs::read_to_string(&path).expect("a file"));
                let boxed = boxed.unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
                assert!(
                    !boxed.tests.is_empty() || !boxed.absent.is_empty(),
                    "{} says nothing",
                    path.display()
                );
                println!(
                    "{}: {} tests; {}",
                    path.display(),
                    boxed.tests.len(),
                    boxed.absent.join("; ")
                );
                count += 1;
            }
        }
    }
    assert!(count > 0, "no box there");
}

#[test]
fn a_key_that_stands_twice_is_an_error_with_its_line() {
    let error = read(
        r#"{ "tasks": [ { "task": "op", "parameters": { "operator": "crc32c", "size": 64,
            "size": 128 } } ] }"#,
    );
    let error = format!("{:?}", error.expect_err("a key twice"));
    assert!(error.contains("the key `size` twice at line 2"), "{error}");
}

#[test]
fn the_schema_takes_what_the_reader_takes() {
    let schema = schema(crate::TASKS);
    let tasks = schema["properties"]["tasks"]["items"]["oneOf"]
        .as_array()
        .expect("tasks");
    assert_eq!(tasks.len(), crate::TASKS.iter().count());
    let op = tasks.iter().find(|task| task["title"] == "op").expect("op");
    let size = &op["properties"]["parameters"]["properties"]["size"];
    assert!(
        size["description"]
            .as_str()
            .is_some_and(|text| text.starts_with("Bytes of an item"))
    );
    assert_eq!(
        op["properties"]["parameters"]["required"],
        serde_json::json!(["operator"])
    );
}

#[test]
fn the_schema_has_the_bounds_of_the_tasks_own_parsers() {
    let mut bounds = 0;
    for task in crate::TASKS.iter() {
        let command = task.command();
        for parameter in bounded_parameters(task) {
            let Some(maximum) = parameter.range.maximum else {
                continue;
            };
            let most = maximum as u64;
            let takes = |value: u64| taken(&command, &parameter, &value.to_string());
            let name = format!("{} {} {most}", task.name, parameter.name);
            assert_eq!(takes(most), Ok(()), "{name}");
            assert!(takes(most + 1).is_err(), "{name}");
            let one = &parameter.schema()["oneOf"][0]["anyOf"][0];
            assert_eq!(one["maximum"], most, "{name}");
            bounds += 1;
        }
    }
    assert!(bounds > 10, "counts of threads, runs and jobs have bounds");
}
