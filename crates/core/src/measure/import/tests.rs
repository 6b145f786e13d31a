//! Beside what the programs printed: `testdata/` has outputs of fio 3.33, iperf3 3.12, sysbench 1.0.20, stress-ng 0.15 and Criterion as they
//! were written. Those of perftest (layout of version 4.5) and of doca_bench (labels of its documentation) have figures that are made up.

use super::*;
use crate::random::SplitMix64;

const FIO: &str = include_str!("testdata/fio.json");
const IPERF3: &str = include_str!("testdata/iperf3.json");
const IPERF3_UDP: &str = include_str!("testdata/iperf3-udp.json");
const SYSBENCH: &str = include_str!("testdata/sysbench.txt");
const DOCA_BENCH: &str = include_str!("testdata/doca-bench.txt");
const STRESS_NG: &str = include_str!("testdata/stress-ng.txt");
const STRESS_NG_YAML: &str = include_str!("testdata/stress-ng.yaml");
const PERFTEST: &str = include_str!("testdata/perftest.txt");
const BENCHMARK: &str = include_str!("testdata/criterion/benchmark.json");
const SAMPLE: &str = include_str!("testdata/criterion/sample.json");

fn origin() -> Origin {
    Origin {
        host: None,
        evidence: Evidence::Measured,
    }
}

/// The records of what a program wrote, which is told from others.
fn read(program: Program, text: &str) -> Vec<Record> {
    assert_eq!(Program::of(text), Some(program));
    program.records(text, &origin()).unwrap()
}

fn near(record: &Record, metric: &str, value: f64) {
    let summary = record.summary.get(metric);
    let median = summary.unwrap_or_else(|| panic!("{metric}")).median;
    assert!(
        (median / value - 1.0).abs() < 1e-9,
        "{metric}: {median}, not {value}"
    );
}

#[test]
fn fio_has_a_record_for_each_direction() {
    let [reads, writes] = &read(Program::Fio, FIO)[..] else {
        panic!("two")
    };
    assert_eq!(reads.parameters["direction"], Value::Text("read".into()));
    assert_eq!(reads.parameters["bs"], Value::Text("4k".into()));
    assert_eq!(reads.parameters["iodepth"], Value::Int(4));
    assert!(!reads.parameters.contains_key("filename"));
    near(reads, "items_per_s", 16344.655345);
    near(reads, "bytes_per_s", 66_947_708.0);
    near(reads, "latency_ns_mean", 166_841.255241);
    near(reads, "latency_ns_p99", 561_152.0);
    assert_eq!(reads.counts["items"], 16361);
    near(writes, "items_per_s", 16333.666334);
    near(writes, "latency_ns_p99", 54528.0);
    assert_eq!(reads.provenance.libraries["fio"], "fio-3.33");
    assert_eq!(reads.provenance.host, "");
}

#[test]
fn jobs_of_fio_that_ran_at_once_are_apart_and_errors_have_no_numbers() {
    let mut whole: Json = serde_json::from_str(FIO).unwrap();
    let jobs = whole["jobs"].as_array_mut().unwrap();
    jobs.push(jobs[0].clone());
    jobs[1]["error"] = 5.into();
    let records = read(Program::Fio, &whole.to_string());
    assert_eq!(records.len(), 4);
    assert_eq!(records[2].parameters["instance"], Value::Int(2));
    assert!(matches!(&records[2].outcome, Outcome::Failed { reason } if reason.contains('5')));
    assert!(records[2].summary.is_empty());
}

#[test]
fn iperf3_counts_what_was_received() {
    let [record] = &read(Program::Iperf3, IPERF3)[..] else {
        panic!("one")
    };
    near(record, "bytes_per_s", 14_503_372_088.146_059 / 8.0);
    assert_eq!(record.counts["retransmits"], 18);
    assert_eq!(record.parameters["blksize"], Value::Int(131_072));
    assert_eq!(record.provenance.host, "vm");
    let [record] = &read(Program::Iperf3, IPERF3_UDP)[..] else {
        panic!("one")
    };
    assert_eq!(record.parameters["protocol"], Value::Text("UDP".into()));
    assert_eq!(record.counts["packets"], 382);
    near(record, "packets_per_s", 382.0 / 1.000133);
    let refused = r#"{"start": {"version": "iperf 3.12"}, "intervals": [], "end": {}, "error": "unable to connect"}"#;
    let [record] = &read(Program::Iperf3, refused)[..] else {
        panic!("one")
    };
    assert!(matches!(&record.outcome, Outcome::Failed { reason } if reason == "unable to connect"));
}

#[test]
fn sysbench_has_a_record_for_each_run() {
    let [cpu, memory, reads, writes, syncs] = &read(Program::Sysbench, SYSBENCH)[..] else {
        panic!("five")
    };
    assert_eq!(cpu.parameters["test"], Value::Text("cpu".into()));
    assert_eq!(cpu.parameters["cpu-max-prime"], Value::Int(10000));
    near(cpu, "items_per_s", 2048.93);
    near(cpu, "latency_ns_p95", 370_000.0);
    assert_eq!(
        memory.parameters["memory-block-size"],
        Value::Text("8KiB".into())
    );
    near(memory, "items_per_s", 1_556_839.25);
    near(memory, "bytes_per_s", 12162.81 * 1_048_576.0);
    // What is too short for two digits of a millisecond is printed as zero, and is no figure.
    assert!(!memory.summary.contains_key("latency_ns_mean"));
    near(reads, "items_per_s", 8231.68);
    near(reads, "bytes_per_s", 128.62 * 1_048_576.0);
    near(writes, "bytes_per_s", 85.75 * 1_048_576.0);
    near(syncs, "items_per_s", 276.36);
    assert!(!syncs.summary.contains_key("bytes_per_s"));
}

#[test]
fn stress_ng_has_a_record_for_each_stressor() {
    let [matrix, cpu] = &read(Program::StressNg, STRESS_NG)[..] else {
        panic!("two")
    };
    assert_eq!(matrix.parameters["stressor"], Value::Text("matrix".into()));
    assert_eq!(matrix.parameters["instances"], Value::Int(1));
    near(matrix, "bogo_ops_per_s", 1560.15);
    near(matrix, "bogo_ops_per_cpu_s", 5222.07);
    near(cpu, "bogo_ops_per_s", 733.80);
    assert_eq!(cpu.counts["bogo_ops"], 737);
    assert_eq!(cpu.parameters["timeout"], Value::Text("1s".into()));
}

/// The form that version 0.12 writes; the two stressors are the example of Liu et al., figure 7.
#[test]
fn stress_ngs_yaml_has_a_record_for_each_stressor_with_a_rate() {
    let [branch, memrate] = &read(Program::StressNg, STRESS_NG_YAML)[..] else {
        panic!("two")
    };
    assert_eq!(Program::of(STRESS_NG_YAML), Some(Program::StressNg));
    assert_eq!(branch.parameters["stressor"], Value::Text("branch".into()));
    assert_eq!(branch.parameters["timeout"], Value::Text("10s".into()));
    near(branch, "bogo_ops_per_s", 1_451_159_699.206867);
    near(memrate, "bogo_ops_per_cpu_s", 0.700877);
    assert_eq!(memrate.counts["bogo_ops"], 283);
    let here = &branch.provenance;
    assert_eq!((here.cpus, here.memory_bytes), (40, 16_734_117_888));
    assert_eq!(here.libraries["stress-ng"], "0.12.01");
    assert_eq!(
        (here.host.as_str(), here.kernel.as_str()),
        ("node-0.example", "5.4.0-51-generic")
    );
}

/// By the documentation alone: the file was written by hand.
#[test]
fn doca_benchs_blocks_are_records() {
    let [throughput, latency] = &read(Program::DocaBench, DOCA_BENCH)[..] else {
        panic!("two")
    };
    assert_eq!(
        throughput.parameters["steps"],
        Value::Text("doca_compress::compress".into())
    );
    assert_eq!(throughput.parameters["size"], Value::Int(65536));
    assert_eq!(throughput.parameters["depth"], Value::Int(32));
    near(throughput, "items_per_s", 20_000.0);
    near(throughput, "bytes_per_s", 9.958 * 134_217_728.0);
    near(throughput, "output_bytes_per_s", 4.010 * 134_217_728.0);
    assert_eq!(throughput.counts["items"], 61183);
    assert_eq!(latency.parameters["size"], Value::Int(4096));
    near(latency, "latency_ns_p50", 2134.0);
    near(latency, "latency_ns_p999", 3193.0);
    assert!(!latency.summary.contains_key("items_per_s"));
    let other = DOCA_BENCH
        .replace("Throughput:", "Rate:")
        .replace("gress rate:", "gress:");
    let origin = Origin {
        host: None,
        evidence: Evidence::Measured,
    };
    assert!(Program::DocaBench.records(&other, &origin).is_err());
}

#[test]
fn perftests_columns_go_by_their_titles() {
    let [record] = &read(Program::Perftest, PERFTEST)[..] else {
        panic!("one")
    };
    assert_eq!(
        record.parameters["test"],
        Value::Text("RDMA_Write BW".into())
    );
    assert_eq!(record.parameters["depth"], Value::Int(128));
    assert_eq!(record.parameters["size"], Value::Int(65536));
    near(record, "bytes_per_s", 1203.77 * 1_048_576.0);
    near(record, "items_per_s", 19260.0);
    let gigabits = PERFTEST.replace("[MB/sec]", "[Gb/sec]");
    near(
        &read(Program::Perftest, &gigabits)[0],
        "bytes_per_s",
        1203.77e9 / 8.0,
    );
    let latency = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n \
                   2       1000          1.50           9.00         1.75           1.80           0.25            2.50                    8.00\n";
    let record = &read(Program::Perftest, latency)[0];
    near(record, "latency_ns_min", 1500.0);
    near(record, "latency_ns_p50", 1750.0);
    near(record, "latency_ns_p999", 8000.0);
}

#[test]
fn criterions_samples_are_runs() {
    let record = of_criterion(BENCHMARK, SAMPLE, &origin()).unwrap();
    assert_eq!(
        record.parameters["group"],
        Value::Text("scan/q1_aggregate".into())
    );
    let runs = &record.samples["run_ns"].values;
    assert_eq!(runs.len(), 10);
    assert_eq!(runs[0], 42_674_471.0 / 2.0);
    let rates = &record.samples["items_per_s"].values;
    assert_eq!(rates[0], 6_001_215.0 * 1e9 / runs[0]);
    assert!(of_criterion(BENCHMARK, "{}", &origin()).is_err());
    assert!(of_criterion(BENCHMARK, r#"{"iters": [1, 2], "times": [1]}"#, &origin()).is_err());
}

#[test]
fn the_same_test_in_several_files_is_one_record() {
    let named = |host: &str| Origin {
        host: Some(host.to_owned()),
        ..origin()
    };
    let of = |host| Program::Fio.records(FIO, &named(host)).unwrap();
    let merged = merge([of("a"), of("a"), of("b")].concat());
    assert_eq!(merged.len(), 4);
    assert_eq!(merged[0].samples["items_per_s"].values, [16344.655345; 2]);
    assert_eq!(merged[0].summary["items_per_s"].samples, 2);
    assert_eq!(merged[0].counts["items"], 2 * 16361);
    assert_eq!(merged[2].samples["items_per_s"].values.len(), 1);
}

#[test]
fn nothing_that_is_cut_or_spoilt_panics() {
    let all = [
        FIO, IPERF3, IPERF3_UDP, SYSBENCH, STRESS_NG, PERFTEST, DOCA_BENCH,
    ];
    let mut random = SplitMix64::new(9);
    let tries = if cfg!(miri) { 2 } else { 300 };
    for text in all {
        for _ in 0..tries {
            let mut bytes = text.as_bytes()[..random.below(text.len() + 1)].to_vec();
            for _ in 0..random.below(4) {
                if let Some(last) = bytes.len().checked_sub(1) {
                    bytes[random.below(last + 1)] = random.next_u64() as u8;
                }
            }
            let spoilt = String::from_utf8_lossy(&bytes);
            for program in Program::ALL {
                for record in program.records(&spoilt, &origin()).unwrap_or_default() {
                    let json = serde_json::to_string(&record).unwrap();
                    let back: Record = serde_json::from_str(&json).unwrap();
                    assert_eq!(back.task, record.task);
                }
            }
        }
    }
}

#[test]
fn every_record_has_a_metric_that_its_program_declares() {
    const LATENCY: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
        99% percentile[usec]   99.9% percentile[usec]\n 64      1000          1.50           9.00         2.00     \t       2.10        \
        \t0.30   \t\t3.25    \t\t8.00\n";
    let texts = [
        FIO, IPERF3, IPERF3_UDP, SYSBENCH, STRESS_NG, PERFTEST, LATENCY, DOCA_BENCH,
    ];
    let records = texts
        .iter()
        .flat_map(|text| read(Program::of(text).expect("known"), text));
    let mut records: Vec<Record> = records.collect();
    let (items, bytes) = ("\"Elements\"", "\"Bytes\"");
    for benchmark in [
        BENCHMARK.replace(bytes, items),
        BENCHMARK.replace(items, bytes),
    ] {
        records.push(of_criterion(&benchmark, SAMPLE, &origin()).unwrap());
    }
    let programs = Program::ALL.map(|program| (program.name(), program.metrics()));
    let criterion = (CRITERION, metrics_of_criterion());
    for (task, declared) in programs.into_iter().chain([criterion]) {
        let own: Vec<&Record> = records.iter().filter(|r| r.task == task).collect();
        let has = |record: &Record, metric: &Declared| record.summary.contains_key(&metric.name);
        for record in &own {
            assert!(declared.iter().any(|metric| has(record, metric)), "{task}");
        }
        for metric in &declared {
            let is_there = own.iter().any(|record| has(record, metric));
            assert!(is_there, "{task}: {}", metric.name);
        }
    }
}
