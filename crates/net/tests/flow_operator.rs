//! The flow table behind the seam: the conformance suite on the operator that reports, on a core and on a modelled device; and the one that begins flows, whose packets are all accounted for.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;

use dpb_core::random::SplitMix64;
use dpb_core::{
    Backend, Buf, Buffers, Items, Job, JobError, OpSpec, OutputShape, Queue, Right, SetupError,
    Workload, conformance,
};
use dpb_net::flow::operator::{
    FlowAddresses, FlowTable, FlowTableWorkload, Missing, OUTPUT_BYTES, Totals, Verdict,
};
use dpb_net::flow::{Flags, Timeouts, Tuple};
use dpb_sim::{Model, Modelled, Simulation};

fn reporting(addresses: FlowAddresses) -> FlowTable {
    FlowTable {
        addresses,
        capacity: 2000,
        flows: 1500,
        seed: 11,
        missing: Missing::Report,
    }
}

#[test]
fn a_table_that_reports_passes_the_suite_on_a_core_and_on_a_model() {
    let workloads = FlowAddresses::ALL.map(|it| FlowTableWorkload::new(reporting(it)));
    let workloads: Vec<&dyn Workload> = workloads.iter().map(|it| it as &dyn Workload).collect();
    let (core, totals) = FlowTable::backend(Timeouts::default());
    let coverage = conformance::check(&core, &workloads);
    let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(coverage.items > 1000, "{coverage:?}");
    let Totals { stats, ended, left } = totals.read();
    assert_eq!(stats.offered, stats.missed + left.0);
    assert_eq!(ended, (0, 0));
    assert!(stats.missed > 100 && left.0 > 100);
    // A device's times are the model's, its results those of the core.
    let simulation = Simulation::new();
    let (inner, _) = FlowTable::backend(Timeouts::default());
    let device = Modelled::new("flow-table", Model::default(), inner, &simulation);
    let suite = conformance::Suite::default().brief();
    let coverage = suite.check(&device, &workloads);
    assert!(coverage.is_ok(), "{coverage:?}");
}

#[test]
fn more_flows_than_there_is_room_for_are_refused_with_the_reason() {
    let (core, _) = FlowTable::backend(Timeouts::default());
    let spec = OpSpec::from(FlowTable {
        flows: 2001,
        ..reporting(FlowAddresses::V4)
    });
    let Err(SetupError::Unsupported(refused)) = core.prepare(&spec) else {
        panic!("it is prepared")
    };
    assert!(refused.reason.contains("2001 flows"), "{refused}");
}

fn run(queue: &mut dyn Queue, items: &[u8], item_bytes: u32) -> Vec<(u32, u32)> {
    let count = items.len() as u32 / item_bytes;
    let mut src = Buf::zeroed(items.len()).expect("memory");
    src.copy_from_slice(items);
    let dst = Buf::zeroed(count as usize * OUTPUT_BYTES).expect("memory");
    let items = Items::fixed(item_bytes, count);
    let job = Job::new(0, src.freeze(), items, dst, OutputShape::Variable);
    let mut ready = VecDeque::from([job]);
    assert_eq!(queue.submit(&mut ready), 1);
    let mut done = Vec::new();
    assert_eq!(queue.poll(&mut done), 1);
    let completion = done.pop().expect("one");
    assert_eq!(completion.result, Ok(()));
    assert!(
        completion
            .job
            .outcomes
            .iter()
            .all(|it| *it == Ok(OUTPUT_BYTES as u32))
    );
    let Buffers::One(dst) = &completion.job.dst else {
        panic!("one buffer")
    };
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four"));
    (dst.chunks(OUTPUT_BYTES))
        .map(|output| (number(&output[..4]), number(&output[4..])))
        .collect()
}

/// Flows that begin, go on, end by time and are refused, against a map; the totals are all that was offered.
#[test]
fn a_table_that_begins_flows_accounts_for_every_packet() {
    let table = FlowTable {
        capacity: 300,
        flows: 0,
        missing: Missing::Begin,
        ..reporting(FlowAddresses::V4)
    };
    let timeouts = Timeouts {
        datagrams_ms: 40,
        turn_ms: 1,
        ..Timeouts::default()
    };
    let (core, totals) = FlowTable::backend(timeouts);
    let operator = core.prepare(&table.into()).expect("prepared");
    let mut queue = operator.open(NonZeroU32::MIN).expect("a queue");
    let mut random = SplitMix64::new(2);
    // The number of each flow and the time of its last packet.
    let mut flows: HashMap<u32, (u32, u32)> = HashMap::new();
    let (mut offered, mut refused, mut bytes_in) = (0, 0, 0);
    for job in 0..400u32 {
        let now_ms = job;
        let mut items = Vec::new();
        let mut right = Vec::new();
        for _ in 0..1 + random.below(50) {
            let flow = random.below(600) as u32;
            let bytes = random.below(1500) as u16;
            let tuple = Tuple {
                addresses: [flow, !flow],
                ports: [9, 10],
                protocol: 17,
            };
            FlowTable::write_v4(&mut items, &tuple, Flags::default(), bytes, now_ms);
            offered += 1;
            let has_room = flows.len() < 300;
            right.push(match flows.get_mut(&flow) {
                // It is over, and begins anew where it was.
                Some((number, last_ms)) if now_ms - *last_ms > 40 => {
                    *last_ms = now_ms;
                    (Verdict::New, flow, Some(*number))
                }
                Some((number, last_ms)) => {
                    *last_ms = now_ms;
                    (Verdict::Known, flow, Some(*number))
                }
                None if has_room => {
                    flows.insert(flow, (u32::MAX, now_ms));
                    (Verdict::New, flow, None)
                }
                None => (Verdict::Full, flow, Some(u32::MAX)),
            });
            match right[right.len() - 1].0 {
                Verdict::Full => refused += 1,
                _ => bytes_in += u64::from(bytes),
            }
        }
        let outputs = run(&mut *queue, &items, 20);
        for ((verdict, number), (right, flow, known)) in outputs.into_iter().zip(right) {
            assert_eq!(verdict, right as u32);
            match (right, known) {
                (Verdict::New, _) => flows.get_mut(&flow).expect("there").0 = number,
                // Begun in this job.
                (Verdict::Known, Some(u32::MAX)) => assert_eq!(flows[&flow].0, number),
                (_, known) => assert_eq!(Some(number), known),
            }
        }
        // Looked at after the job, all of them within a millisecond.
        flows.retain(|_, (_, last_ms)| now_ms - *last_ms <= 40);
        let Totals { stats, .. } = totals.read();
        assert_eq!((stats.offered, stats.refused), (offered, refused));
    }
    drop(queue);
    let Totals { stats, ended, left } = totals.read();
    assert_eq!(
        stats.offered,
        ended.0 + left.0 + stats.refused + stats.missed
    );
    assert_eq!(ended.1 + left.1, bytes_in);
    assert!(ended.0 > 1000 && refused > 100 && stats.missed == 0);
}

/// Times may begin anywhere: the clock goes on from the first packet, and flows that there were before are as old as that.
#[test]
fn a_clock_begins_with_the_first_packet() {
    let mut random = SplitMix64::new(4);
    for start_ms in [0, 1_000_000_000, 1 << 31, u32::MAX - 10] {
        let table = FlowTable {
            missing: Missing::Begin,
            ..reporting(FlowAddresses::V4)
        };
        let workload = FlowTableWorkload::new(reporting(FlowAddresses::V4));
        let timeouts = Timeouts {
            datagrams_ms: 40,
            transitory_ms: 40,
            ..Timeouts::default()
        };
        let (core, _) = FlowTable::backend(timeouts);
        let operator = core.prepare(&table.into()).expect("prepared");
        let mut queue = operator.open(NonZeroU32::MIN).expect("a queue");
        // A packet of a flow that there is from the start, as the workload makes it, at a time of ours.
        let known = loop {
            let item = workload.encode_item(&random.next_u64().to_le_bytes());
            let item = item.expect("any bytes choose one");
            let right = workload.right(&item, OUTPUT_BYTES);
            // UDP's all end after the same time.
            let is_known =
                matches!(right, Right::Only(output) if output[0] == Verdict::Known as u8);
            if is_known && item[12] == 17 {
                break item;
            }
        };
        let mut verdict_at = |after_ms: u32| {
            let time_ms = start_ms.wrapping_add(after_ms);
            let item = [&known[..16], &time_ms.to_be_bytes()].concat();
            run(&mut *queue, &item, 20)[0].0
        };
        assert_eq!(verdict_at(0), Verdict::Known as u32, "from {start_ms}");
        assert_eq!(verdict_at(40), Verdict::Known as u32);
        assert_eq!(verdict_at(81), Verdict::New as u32, "over since then");
        // Late, and as if it came now.
        assert_eq!(verdict_at(0), Verdict::Known as u32);
        assert_eq!(verdict_at(121), Verdict::Known as u32);
        assert_eq!(verdict_at(162), Verdict::New as u32);
    }
}

#[test]
fn items_of_other_lengths_are_refused_alone() {
    let (core, _) = FlowTable::backend(Timeouts::default());
    for addresses in FlowAddresses::ALL {
        let table = reporting(addresses);
        let operator = core.prepare(&table.into()).expect("prepared");
        let mut queue = operator.open(NonZeroU32::MIN).expect("a queue");
        let lens = [table.item_bytes() - 1, table.item_bytes(), 0];
        let src = Buf::zeroed(lens.iter().sum()).expect("memory");
        let dst = Buf::zeroed(3 * OUTPUT_BYTES).expect("memory");
        let items = Items::one_behind_another(lens);
        let job = Job::new(0, src.freeze(), items, dst, OutputShape::Variable);
        let mut ready = VecDeque::from([job]);
        queue.submit(&mut ready);
        let mut done = Vec::new();
        queue.poll(&mut done);
        let malformed = Err(JobError::Malformed);
        assert_eq!(done[0].job.outcomes, [malformed, Ok(8), malformed]);
    }
}
