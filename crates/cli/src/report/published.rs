//! What papers published, as records of their own kind: drawn beside what was measured, never mixed into it.

use std::collections::BTreeMap;

use dpb_core::measure::record::SCHEMA_VERSION;
use dpb_core::measure::{Evidence, Outcome, Provenance, Record, Summary, Value};

/// Where the pushdown's figures stand.
const PUSHDOWN_SOURCE: &str = "dpBento: Benchmarking DPUs for Data Processing (2025), figure 13, by a review of the paper (section 7, \
     predicate pushdown): TPC-H scale factor 10, selectivity 1 %, scan cores from one to all; the baseline fetches the table and scans at \
     33 M tuples/s; BlueField-2 and OCTEON reach 150 M with all their cores, 4.5 times the baseline; BlueField-3 is 1.8 times the \
     baseline with one core and 12 times with 16; the link is 100 Gbit/s (section 3, predicate pushdown)";

/// The baseline, tuples per second: the table crosses the link and DuckDB on the compute server filters it.
const BASELINE: f64 = 33e6;

/// Predicate pushdown in dpBento.
pub fn pushdown() -> Vec<Record> {
    // Cores of each DPU by the paper's section 4; rates by the text, ratios times the baseline.
    [
        ("fetch", "baseline, DuckDB on the host", None, BASELINE),
        ("duckdb-at-dpu", "BlueField-2, 8 cores", Some(8), 150e6),
        ("duckdb-at-dpu", "OCTEON TX2, 24 cores", Some(24), 150e6),
        (
            "duckdb-at-dpu",
            "BlueField-3, 1 core",
            Some(1),
            1.8 * BASELINE,
        ),
        (
            "duckdb-at-dpu",
            "BlueField-3, 16 cores",
            Some(16),
            12.0 * BASELINE,
        ),
    ]
    .into_iter()
    .map(|(scheme, platform, threads, rate)| figure(scheme, platform, threads, rate))
    .collect()
}

fn figure(scheme: &str, platform: &str, threads: Option<i64>, tuples_per_s: f64) -> Record {
    let mut parameters = BTreeMap::from([
        ("scheme".to_owned(), Value::from(scheme)),
        ("platform".to_owned(), Value::from(platform)),
        ("sf".to_owned(), Value::Float(10.0)),
        ("selectivity".to_owned(), Value::Float(0.01)),
        ("link_gbps".to_owned(), Value::Float(100.0)),
    ]);
    if let Some(threads) = threads {
        parameters.insert("threads".to_owned(), Value::Int(threads));
    }
    let rate = Summary {
        median: tuples_per_s,
        ci95_low: None,
        ci95_high: None,
        samples: 1,
    };
    Record {
        schema_version: SCHEMA_VERSION,
        id: format!("published-dpbento-{}", platform.replace([' ', ','], "-")),
        task: "pushdown".to_owned(),
        parameters,
        evidence: Evidence::Published {
            source: PUSHDOWN_SOURCE.to_owned(),
        },
        outcome: Outcome::Done,
        check: None,
        samples: BTreeMap::new(),
        counts: BTreeMap::new(),
        summary: BTreeMap::from([("tuples_per_s".to_owned(), rate)]),
        stability: None,
        provenance: elsewhere(platform),
    }
}

/// Somebody else's machine, of which the paper says little.
fn elsewhere(platform: &str) -> Provenance {
    Provenance {
        run: String::new(),
        command: Vec::new(),
        started_unix_s: 0.0,
        dpb_version: String::new(),
        toolchain: String::new(),
        cpu_model: platform.to_owned(),
        cpus: 0,
        cpu_level: String::new(),
        cpu_features: Vec::new(),
        pinned: Vec::new(),
        governor: None,
        kernel: String::new(),
        memory_bytes: 0,
        host: String::new(),
        libraries: BTreeMap::new(),
        made_of: None,
        seed: 0,
    }
}
