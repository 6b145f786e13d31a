//! The operators that dpb has beside those of `dpb-operators`: what other crates compute, as entries of the registry.

use std::fs;
use std::path::Path as FilePath;
use std::sync::{Arc, LazyLock};

use dpb_core::spec::{Arguments, Domain, NO_FILE, Parameter};
use dpb_core::{OpSpec, SetupError, Unsupported};
use dpb_dbmods::compare::tpch_predicates;
use dpb_dbmods::compare::workload::ScanWorkload;
use dpb_dbmods::query::{Output, Predicate, Query, sql};
use dpb_dbmods::scan::operator::{NAME, Scan};
use dpb_dbmods::schema::Schema;
use dpb_dbmods::table::Segment;
use dpb_dbmods::tpch;
use dpb_operators::cpu::Implementation;
use dpb_operators::registry::{Case, Entry, Library, own};

/// Operators of the database modules.
pub const DATABASE: &[Entry] = &[SCAN];

/// The paths of the scan, best first.
const PATHS: &[Implementation] = &[
    Implementation::Avx512,
    Implementation::Avx2,
    Implementation::Neon,
    Implementation::Portable,
];

/// The query that is none of TPC-H's: every row, all columns.
const ALL: &str = "all";

/// Scale factor of the table that is generated.
const SAMPLE_SCALE: f64 = 0.01;
/// Rows of its row groups.
const SAMPLE_GROUP_ROWS: usize = 1500;
/// Longest file with a condition.
const CONDITION_BYTES_MAX: u64 = 1 << 20;

const SCAN: Entry = Entry {
    name: NAME,
    scenario: "database",
    summary: "a query over row groups of a table: rows that qualify, or an aggregate",
    unit: "row group",
    output: "how far it came, counters, then Arrow IPC messages of record batches or a partial aggregate",
    source: "dpBento, \"predicate pushdown\"",
    peers: &["DuckDB, by `dpb pushdown`"],
    parameters: &[
        Parameter {
            name: "table",
            values: Domain::File,
            default: NO_FILE,
            meaning: "A segment file, as `dpb data` makes it. Without one: 60,175 rows of lineitem in row groups of 1,500.",
        },
        Parameter {
            name: "query",
            values: Domain::Word(&["q6", "q1", "q14", "q19", ALL]),
            default: "q6",
            meaning: "What TPC-H's query asks of lineitem alone: its aggregate, or all columns of the rows that qualify; `all` is every row.",
        },
        Parameter {
            name: "where",
            values: Domain::File,
            default: NO_FILE,
            meaning: "A file with a condition in SQL, instead of `query`: all columns of the rows for which it is true.",
        },
    ],
    paths: PATHS,
    library: Library {
        name: "dpb-dbmods",
        version: || env!("CARGO_PKG_VERSION"),
    },
    allocates: PATHS,
    documentation: include_str!("../../dbmods/docs/scan.md"),
    ..Entry::new::<Scan>(
        parse,
        |spec, path| {
            let path = path.among(NAME, PATHS)?;
            if !path.is_available() {
                let reason = format!("needs {}", path.needs());
                return Err(SetupError::Unsupported(Unsupported { reason }));
            }
            Ok(Box::new(own::<Scan>(spec).kernel(path.name())?))
        },
        |case| Ok(Box::new(ScanWorkload::new(own::<Scan>(&case.spec)))),
    )
};

fn parse(given: &Arguments<'_>) -> Result<Case, SetupError> {
    let segment = segment(given.word("table"))?;
    let scan = Scan::new(Arc::clone(&segment), query(given, segment.schema())?)?;
    let scan = match given.word("where") {
        NO_FILE => scan.named(given.word("query")),
        _ => scan,
    };
    Ok(OpSpec::from(scan).into())
}

fn segment(path: &str) -> Result<Arc<Segment>, SetupError> {
    // Made once a process: the generator takes longer than many a measurement.
    static SAMPLE: LazyLock<Result<Arc<Segment>, String>> = LazyLock::new(|| {
        let sample = tpch::sample("lineitem", SAMPLE_SCALE, SAMPLE_GROUP_ROWS);
        sample.map(Arc::new).map_err(|error| error.to_string())
    });
    let opened = match path {
        NO_FILE => SAMPLE.clone(),
        path => Segment::open(FilePath::new(path))
            .map(Arc::new)
            .map_err(|error| error.to_string()),
    };
    opened.map_err(|why| wrong("table", path, &why))
}

fn query(given: &Arguments<'_>, schema: &Schema) -> Result<Query, SetupError> {
    let path = given.word("where");
    let name = given.word("query");
    let all_columns = Output::Rows((0..schema.columns.len() as u32).collect());
    let (predicate, output) = match (path, tpch_predicates::preset(name)) {
        (NO_FILE, None) => (Predicate::Constant(Some(true)), all_columns),
        (NO_FILE, Some(preset)) => {
            let said = |error: sql::SqlError| wrong("query", name, &error.to_string());
            let predicate = sql::parse_predicate(schema, preset.predicate).map_err(said)?;
            let output = match preset.aggregate {
                None => all_columns,
                Some(functions) => Output::Aggregate(
                    sql::parse_aggregate(schema, functions, preset.group_by).map_err(said)?,
                ),
            };
            (predicate, output)
        }
        (path, _) => {
            let said = |why: String| wrong("where", path, &why);
            let bytes = fs::metadata(path)
                .map_err(|error| said(error.to_string()))?
                .len();
            if bytes > CONDITION_BYTES_MAX {
                return Err(said(format!("{bytes} bytes are too long for a condition")));
            }
            let text = fs::read_to_string(path).map_err(|error| said(error.to_string()))?;
            let predicate = sql::parse_predicate(schema, text.trim());
            (
                predicate.map_err(|error| said(error.to_string()))?,
                all_columns,
            )
        }
    };
    Ok(Query {
        table: schema.table.clone(),
        predicate,
        output,
        limit: None,
    })
}

fn wrong(parameter: &str, value: &str, why: &str) -> SetupError {
    SetupError::Parameter(format!("{NAME}: {parameter}={value}: {why}"))
}

#[cfg(test)]
mod tests {
    use dpb_core::conformance;
    use dpb_operators::registry::Operators;

    use super::*;
    use crate::backends;

    /// Every query on every backend that computes here; outputs are judged by the reference evaluator.
    #[test]
    fn a_scan_conforms_on_every_backend() {
        let operators = Operators::new(&[DATABASE]);
        let families = backends::families(&[], operators);
        let entry = &DATABASE[0];
        let folder = tempfile::tempdir().unwrap();
        let condition = folder.path().join("condition.sql");
        let text = "l_comment LIKE '%express%' OR l_shipmode = 'RAIL' AND l_quantity * l_tax > 2.5";
        fs::write(&condition, text).unwrap();
        let mut cases = entry.cases();
        cases.push(
            entry
                .case(&format!("where={}", condition.display()))
                .unwrap(),
        );
        assert_eq!(cases.len(), 6);
        let workloads = cases.iter().map(|case| entry.workload(case).unwrap());
        let workloads: Vec<_> = workloads.collect();
        let workloads: Vec<_> = workloads.iter().map(|workload| &**workload).collect();
        let mut names = PATHS
            .iter()
            .filter(|path| path.is_available())
            .map(|path| format!("cpu/{path}"))
            .collect::<Vec<_>>();
        let faulty = "faulty/delay_polls_max=3,reorder=1";
        names.extend(["pool/2", "sim/default", faulty].map(str::to_owned));
        std::thread::scope(|scope| {
            for name in names {
                let (families, workloads) = (&families, &workloads);
                scope.spawn(move || {
                    let backend = families.open(&name);
                    let backend = backend.unwrap_or_else(|error| panic!("{error}"));
                    let coverage = conformance::check(&*backend, workloads);
                    assert!(coverage.is_ok(), "{name}: {coverage:?}");
                });
            }
        });
    }

    #[test]
    fn what_cannot_be_scanned_is_said() {
        let entry = &DATABASE[0];
        let said = |text: &str| entry.case(text).expect_err(text).to_string();
        assert!(said("table=/nowhere/at.all").contains("/nowhere/at.all"));
        assert!(said("query=q2").contains("q6|q1|q14|q19|all"));
        assert!(said("where=/nowhere/at.all").contains("where=/nowhere/at.all"));
        for preset in tpch_predicates::PRESETS {
            entry.case(&format!("query={}", preset.name)).unwrap();
        }
    }
}
