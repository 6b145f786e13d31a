use dpb_dbmods::pushdown::{
    cache::Cache, query::*, scan::*, segment::Segment, sql, tpch_predicates,
};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
fn cpu() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let segment = Segment::open(std::path::Path::new(
        &std::env::var("SEG").unwrap_or("/tmp/dpb-scan/data/tpch/sf1/lineitem.dpbseg".into()),
    ))
    .unwrap();
    let cache = Cache::new(8 << 30);
    let s = segment.schema().clone();
    let count = || Output::Aggregate(sql::parse_aggregate(&s, "count(*)", None).unwrap());
    let all = || Output::Rows((0..16).collect());
    let q1 = tpch_predicates::preset("q1").unwrap();
    let works = [
        (
            "q6",
            tpch_predicates::preset("q6").unwrap().predicate,
            count(),
        ),
        ("one", "l_partkey < 20000", count()),
        (
            "all1",
            Box::leak(format!("l_partkey <= {}", segment.rows() / 3000).into_boxed_str()),
            all(),
        ),
        (
            "all10",
            Box::leak(format!("l_partkey <= {}", segment.rows() / 300).into_boxed_str()),
            all(),
        ),
        ("all100", "TRUE", all()),
        ("like", "l_comment LIKE '%special%requests%'", count()),
        (
            "q1",
            q1.predicate,
            Output::Aggregate(
                sql::parse_aggregate(&s, q1.aggregate.unwrap(), q1.group_by).unwrap(),
            ),
        ),
    ];
    for (name, p, output) in works {
        if args.len() > 1 && args[1] != name {
            continue;
        }
        let query = Query {
            table: s.table.clone(),
            predicate: sql::parse_predicate(&s, p).unwrap(),
            output,
        };
        let stop = AtomicBool::new(false);
        let options = ScanOptions {
            threads: 1,
            stop: &stop,
            batch_rows: 16384,
            memory_bytes: 64 << 20,
            sink_batches: 0,
        };
        let n: usize = args.get(2).and_then(|a| a.parse().ok()).unwrap_or(7);
        let mut best = f64::MAX;
        let mut all = vec![];
        let mut stats = None;
        for _ in 0..n {
            let t = cpu();
            stats = Some(
                scan(&segment, &cache, &query, &options, &|b| {
                    std::hint::black_box(b);
                    ControlFlow::Continue(())
                })
                .unwrap(),
            );
            let d = cpu() - t;
            all.push(d);
            best = best.min(d);
        }
        all.sort_by(f64::total_cmp);
        println!(
            "median {:.1}",
            segment.rows() as f64 / all[all.len() / 2] / 1e6
        );
        println!(
            "{name:8} {:8.1} M/s  {:6.2} ns/row",
            segment.rows() as f64 / best / 1e6,
            best * 1e9 / segment.rows() as f64
        );
        if args.len() > 1 {
            println!("{stats:#?}");
        }
    }
}
