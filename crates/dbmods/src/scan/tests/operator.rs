//! The operator in slots of any length, its partial aggregates, and backends that fail.

use std::num::NonZeroU32;

use arrow_buffer::Buffer;
use dpb_core::{
    Backend, Batch, BatchOut, Buf, Buffers, Clock, Inline, JobError, Kernel, Limits, OpSpec,
    Operator, OutputShape, Properties, SetupError, Span, Stage, StageError, Unsupported, WallClock,
};

use super::super::operator::{Merged, Output as Given, Scan, Share, own_cores, write_item};
use super::*;
use crate::ipc;

/// A scan's operator with a slot of so many bytes.
struct Slotted {
    stage: Stage,
    plan: Arc<Plan>,
}

impl Slotted {
    fn new(table: &Table, query: &Query, share: Share, slot_bytes: Option<usize>) -> Self {
        let scan = Scan::new(Arc::clone(&table.segment), query.clone()).unwrap();
        let plan = Arc::clone(scan.plan());
        let query = Arc::new(query.clone());
        let scan = Scan::of_plan(Arc::clone(&plan), Arc::clone(&table.segment), query, share);
        let cores = own_cores();
        let operator = cores.prepare(&OpSpec::from(scan)).unwrap();
        let groups = table.segment.groups().len();
        let slot_bytes = slot_bytes.unwrap_or_else(|| operator.dst_len(4 * (1 + groups)));
        let stage = Stage::new(operator, 1, slot_bytes as u32, |bytes| cores.alloc(bytes));
        Self {
            stage: stage.unwrap(),
            plan,
        }
    }

    /// What an item gives: how far it came, what was counted, the body.
    fn run(
        &mut self,
        row: usize,
        groups: Vec<usize>,
    ) -> Result<(usize, usize, ScanStats, Vec<u8>), StageError> {
        let mut item = Vec::new();
        write_item(&mut item, row, groups);
        let mut memory = Buf::zeroed(item.len()).unwrap();
        memory.copy_from_slice(&item);
        let whole = Span {
            buf: 0,
            start: 0,
            len: item.len() as u32,
        };
        let outputs = self.stage.run_over(&mut Buffers::from(memory), &[whole])?;
        let output = outputs.get(0).map_err(StageError::Job)?;
        let given = Given::parse(output, self.plan.names.len()).unwrap();
        Ok((given.groups, given.row, given.stats, given.body.to_vec()))
    }
}

/// All but what depends on the time that something took.
fn counts(stats: &ScanStats) -> [u64; 5] {
    [
        stats.tuples_scanned,
        stats.tuples_skipped,
        stats.rows_selected,
        stats.blocks_scanned,
        stats.blocks_skipped,
    ]
}

#[test]
fn a_scan_in_slots_of_any_length_goes_on_where_it_ended() {
    let table = Table::extremes();
    let groups = table.segment.groups().len();
    for predicate in [
        "TRUE",
        "small > 3",
        "small = 3 AND word = 'zz'",
        "day < DATE '1961-11-01'",
        "fixed = 8",
    ] {
        let query = query(&table, predicate, all_columns(&table));
        let expected = eval::run(&query, &table.rows).unwrap();
        let mut whole = Slotted::new(&table, &query, Share::default(), None);
        let (done, row, all, _) = whole.run(0, (0..groups).collect()).unwrap();
        assert_eq!((done, row), (groups, 0), "{predicate}: dst_len suffices");
        assert_eq!(all.tuples_scanned, table.rows.len() as u64);
        let one_batch = Share {
            batch_rows: 777,
            batches_max: 1,
            ..Share::default()
        };
        for (share, slot_bytes) in [
            (Share::default(), 6_000),
            (Share::default(), 77_777),
            (Share::default(), 1 << 20),
            (one_batch, 1 << 20),
        ] {
            let mut slotted = Slotted::new(&table, &query, share.clone(), Some(slot_bytes));
            let (mut left, mut row) = ((0..groups).collect::<Vec<_>>(), 0);
            let (mut found, mut sum) = (Vec::new(), ScanStats::default());
            while !left.is_empty() {
                let (done, rows, stats, body) = slotted.run(row, left.clone()).unwrap();
                assert!((done, rows) > (0, row), "{predicate}: no progress");
                left.drain(..done);
                row = rows;
                sum.add(stats);
                let batches = ipc::decode_batches(&body, slotted.plan.output_schema()).unwrap();
                assert!(batches.len() <= share.batches_max);
                for batch in &batches {
                    assert!((1..=share.batch_rows).contains(&batch.num_rows()));
                    found.extend(rows_of(batch));
                }
            }
            assert!(found == expected, "{predicate} in slots of {slot_bytes}");
            assert_eq!(counts(&sum), counts(&all), "{predicate} in {slot_bytes}");
        }
        // No row fits.
        let mut short = Slotted::new(&table, &query, Share::default(), Some(200));
        let result = short.run(0, vec![0]).map(|_| ());
        let is_empty = expected.is_empty();
        assert!(
            result.is_ok() == is_empty || result == Err(StageError::Job(JobError::DstTooShort))
        );
    }
}

#[test]
fn an_item_that_names_what_there_is_not_is_refused() {
    let table = Table::short_last_group();
    let query = query(&table, "TRUE", all_columns(&table));
    let mut slotted = Slotted::new(&table, &query, Share::default(), None);
    let refused = Err(StageError::Job(JobError::Malformed));
    for (row, groups, is_right) in [
        (0, vec![], true),
        (7, vec![1], true),
        (GROUP_ROWS - 1, vec![0, 1], true),
        (1, vec![], false),
        (8, vec![1], false),
        (GROUP_ROWS, vec![0], false),
        (0, vec![2], false),
        (0, vec![0, 2], false),
    ] {
        let count = groups.len();
        match slotted.run(row, groups) {
            Ok((done, next, ..)) => assert!(is_right && (done, next) == (count, 0)),
            other => assert!(!is_right && other.map(|_| ()) == refused, "{row}"),
        }
    }
}

#[test]
fn partial_aggregates_merge_and_what_is_none_is_refused() {
    let table = Table::extremes();
    let functions =
        "count(*) AS n, sum(small) AS s, min(text) AS t, max(money) AS m, avg(small) AS a";
    let schema = table.segment.schema();
    for by in [None, Some("word"), Some("word, small")] {
        let aggregate = sql::parse_aggregate(schema, functions, by).unwrap();
        let query = query(&table, "small < 90", Output::Aggregate(aggregate));
        let expected = eval::run(&query, &table.rows).unwrap();
        let mut slotted = Slotted::new(&table, &query, Share::default(), None);
        let mut merged = Merged::new(&slotted.plan, usize::MAX);
        let mut bodies = Vec::new();
        for item in [vec![1], vec![], vec![0]] {
            let (.., body) = slotted.run(0, item).unwrap();
            merged.add(&body).unwrap();
            bodies.push(body);
        }
        let found = rows_of(&merged.finish().unwrap());
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let mut pairs = found.iter().zip(expected);
            assert!(pairs.all(|(a, b)| is_same(a, b)), "{found:?} {expected:?}");
        }
        // Too little memory for the groups, and a slot that is too short for them.
        if by.is_some() {
            let refused = Merged::new(&slotted.plan, 1).add(&bodies[0]).unwrap_err();
            assert!(matches!(refused, ScanError::Memory(1)), "{refused}");
            let mut short = Slotted::new(&table, &query, Share::default(), Some(200));
            let refused = short.run(0, vec![0]).map(|_| ());
            assert_eq!(refused, Err(StageError::Job(JobError::DstTooShort)));
        }
        // Mangled ones are refused, or are other aggregates.
        let body = &bodies[0];
        let add = |bytes: &[u8]| {
            let mut merged = Merged::new(&slotted.plan, usize::MAX);
            merged.add(bytes).and_then(|_| merged.finish())
        };
        assert!((0..body.len()).all(|end| add(&body[..end]).is_err()));
        assert!(add(&[&body[..], &[0]].concat()).is_err());
        let mut refused = 0;
        for at in 0..body.len().min(400) {
            for flip in [1, 0x80, 0xff] {
                let mut forged = body.clone();
                forged[at] ^= flip;
                refused += usize::from(add(&forged).is_err());
            }
        }
        assert!(refused > 0);
    }
}

#[test]
fn groups_that_need_more_memory_than_there_is_fail_the_job() {
    let table = Table::extremes();
    let aggregate = sql::parse_aggregate(table.segment.schema(), "count(*) AS n", Some("small"));
    let query = query(&table, "TRUE", Output::Aggregate(aggregate.unwrap()));
    let share = Share {
        group_bytes: 100,
        ..Share::default()
    };
    let mut slotted = Slotted::new(&table, &query, share, None);
    let failed = slotted.run(0, vec![0]).map(|_| ());
    assert_eq!(failed, Err(StageError::Job(JobError::Device(12))));
}

/// A kernel that gives the same for each item.
struct Always(Result<Vec<u8>, JobError>);

impl Kernel for Always {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _: usize) -> usize {
        4096
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |_, slot| {
            let output = self.0.as_ref().map_err(|error| *error)?;
            slot[..output.len()].copy_from_slice(output);
            Ok(output.len() as u32)
        });
        Ok(())
    }
}

/// A backend that computes what it likes, or nothing.
struct Wrong(Option<Result<Vec<u8>, JobError>>, WallClock);

impl Backend for Wrong {
    fn name(&self) -> &str {
        "wrong/1"
    }

    fn clock(&self) -> &dyn Clock {
        &self.1
    }

    fn properties(&self) -> Properties {
        Properties::of_this_cpu()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        own_cores().alloc(len)
    }

    fn limits(&self, _: &OpSpec) -> Result<Limits, Unsupported> {
        match self.0 {
            Some(_) => Ok(Limits::new(NonZeroU32::MIN)),
            None => Err(Unsupported {
                reason: "it has no eyes".to_owned(),
            }),
        }
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let limits = self.limits(spec).map_err(SetupError::Unsupported)?;
        let kernel = Always(self.0.clone().expect("there are limits"));
        Ok(Arc::new(Inline::new(kernel, spec.clone(), limits)))
    }
}

#[test]
fn a_backend_that_fails_is_named_and_a_reason_of_our_own_found() {
    let table = Table::short_last_group();
    let on = |given: Option<Result<Vec<u8>, JobError>>, predicate: &str| {
        let query = Arc::new(query(&table, predicate, all_columns(&table)));
        let plan = Arc::new(Plan::new(table.segment.schema(), &query).unwrap());
        let (cache, backend) = (
            Arc::new(Cache::new(1 << 20)),
            Wrong(given, WallClock::default()),
        );
        let sink = |_| ControlFlow::Continue(());
        let result = plan.scan_on(&backend, &query, &table.segment, &cache, &ROOMY, &sink);
        let error = result.unwrap_err().to_string();
        // The same by the way that the crate's front page shows.
        let opened = crate::Table::of(Arc::clone(&table.segment));
        let sink = |_| ControlFlow::Continue(());
        let result = opened.scan_on(&backend, &query, 1, &sink);
        [error, result.unwrap_err().to_string()]
    };
    let head = vec![0; 128];
    let overflows = "number * 9223372036854775807 * 9223372036854775807 * 9 > 1";
    for (given, predicate, said) in [
        (None, "TRUE", "no eyes"),
        (Some(Err(JobError::Device(5))), "TRUE", "wrong/1"),
        (Some(Err(JobError::Malformed)), overflows, "out of range"),
        (Some(Err(JobError::DstTooShort)), "TRUE", "memory"),
        (Some(Ok(Vec::new())), "TRUE", "malformed"),
        (Some(Ok(head.clone())), "TRUE", "no progress"),
        (Some(Ok(vec![9; 128])), "TRUE", "no progress"),
    ] {
        for error in on(given, predicate) {
            assert!(error.contains(said), "{error} says nothing of {said}");
        }
    }
}

#[test]
fn memory_is_used_again_and_no_more_of_it_kept_than_was_said() {
    let table = Table::extremes();
    let query = Arc::new(query(&table, "TRUE", all_columns(&table)));
    let plan = Arc::new(Plan::new(table.segment.schema(), &query).unwrap());
    let (slots, cache) = (Arc::new(Slots::new(8 << 20)), Arc::new(Cache::new(1 << 30)));
    let options = ScanOptions {
        slots: Some(&slots),
        ..ROOMY
    };
    let mut addresses = [Vec::new(), Vec::new()];
    for seen in &mut addresses {
        let seen = Mutex::new(seen);
        let rows = AtomicUsize::new(0);
        let cores = own_cores();
        let stats = plan.scan_on(
            &cores,
            &query,
            &table.segment,
            &cache,
            &options,
            &|message| {
                let batch = ipc::decode_batch(&Buffer::from(message.bytes()), plan.output_schema());
                assert_eq!(batch.unwrap().num_rows() as u64, message.rows());
                rows.fetch_add(message.rows() as usize, Ordering::Relaxed);
                seen.lock().unwrap().push(message.bytes().as_ptr() as usize);
                ControlFlow::Continue(())
            },
        );
        assert_eq!(stats.unwrap().rows_selected as usize, rows.into_inner());
    }
    let [first, second] = addresses;
    assert!(second.iter().all(|address| first.contains(address)));
    slots.trim(0);
}
