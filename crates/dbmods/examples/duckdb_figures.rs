//! What DuckDB does with `lineitem` on this machine: the bar for dpb's own scan.
//!
//! ```text
//! cargo run --release -p dpb-dbmods --example duckdb_figures -- DATA_DIR [SCALE_FACTOR [THREADS [REPEATS]]]
//! ```
//!
//! For each query, file and delivery: the median of the repeats after one that warms up, as wall and CPU milliseconds (of
//! this process, all threads) and as tuples scanned per CPU second.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dpb_dbmods::duckdb::tpch_baseline::ensure;
use dpb_dbmods::duckdb::{Config, Connection, Database, Delivery, Library};
use rustix::time::{ClockId, clock_gettime};

/// Name, what is selected, which rows.
const QUERIES: [(&str, &str, &str); 8] = [
    (
        "Q6 count",
        "count(*)",
        "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
         AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    ),
    ("one column 0.1 % count", "count(*)", "l_partkey <= 200 * SF"),
    ("one column 10 % count", "count(*)", "l_partkey <= 20000 * SF"),
    ("16 columns 1 %", "*", "l_partkey <= 2000 * SF"),
    ("16 columns 10 %", "*", "l_partkey <= 20000 * SF"),
    ("16 columns 100 %", "*", "true"),
    ("LIKE count", "count(*)", "l_comment LIKE '%special%requests%'"),
    (
        "Q1 aggregate",
        "l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
         sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount),
         count(*)",
        "l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("DATA_DIR is missing")?;
    let mut number = |default: f64| args.next().map_or(Ok(default), |text| text.parse());
    let (scale_factor, threads, repeats) = (number(1.0)?, number(1.0)? as usize, number(7.0)?);
    let library = Library::find()?;
    let data = ensure(
        library,
        Path::new(&dir),
        scale_factor,
        "lineitem",
        threads,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    )?;
    println!(
        "{library:?}, scale factor {scale_factor}, {} rows, {threads} threads",
        data.rows
    );
    let config = Config {
        threads: Some(threads),
        read_only: true,
        any_order: true,
        allowed_paths: vec![data.parquet_path.clone()],
        ..Config::default()
    };
    let database = Database::open(library, Some(&data.duckdb_path), &config)?;
    let mut connection = database.connect()?;
    let parquet = format!("'{}'", data.parquet_path.display());
    for (name, what, predicate) in QUERIES {
        let predicate = predicate.replace("SF", &scale_factor.to_string());
        for (file, table) in [("duckdb", "lineitem"), ("parquet", parquet.as_str())] {
            let sql = format!("SELECT {what} FROM {table} WHERE {predicate}");
            for delivery in [Delivery::Streamed, Delivery::Materialised] {
                let mut runs = (0..=repeats as usize)
                    .map(|_| run(&mut connection, &sql, delivery))
                    .collect::<Result<Vec<_>, _>>()?;
                runs.remove(0);
                let wall = median(runs.iter().map(|run| run.wall_s));
                let cpu = median(runs.iter().map(|run| run.cpu_s));
                println!(
                    "{name:<24} {file:<8} {:<13} {:>9.2} ms {:>9.2} CPU-ms {:>8.1} M tuples/CPU-s {:>8} rows",
                    format!("{delivery:?}"),
                    wall * 1e3,
                    cpu * 1e3,
                    data.rows as f64 / cpu / 1e6,
                    runs[0].rows,
                );
            }
        }
    }
    Ok(())
}

struct Run {
    wall_s: f64,
    cpu_s: f64,
    rows: usize,
}

fn run(connection: &mut Connection, sql: &str, delivery: Delivery) -> Result<Run, Box<dyn Error>> {
    let (start, cpu) = (Instant::now(), cpu_s());
    let mut rows = 0;
    for batch in connection.query(sql, None, delivery)? {
        rows += batch?.num_rows();
    }
    Ok(Run {
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: cpu_s() - cpu,
        rows,
    })
}

fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
