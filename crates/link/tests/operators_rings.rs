//! Operators of another machine whose large items and outputs go past the connection, by a stand-in for a device: the same results, and whatever
//! breaks ends every job soon.

mod operators_support;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use dpb_core::conformance::Suite;
use dpb_core::stage::Stage;
use dpb_core::{
    Backend, Completion, Evidence, Family, Items, Job, JobError, Operator, Queue, SetupError, Span,
};
use dpb_link::bulk::{INLINE_BYTES_MAX, Ring};
use dpb_link::operators::{OperatorsService, Quotas, Remote, Share, lost, tcp};
use dpb_link::testing::{Device, Fault};
use dpb_operators::registry;
use operators_support::proxy::{self, Fate, Message};
use operators_support::{Served, resolve, service};
use rayon::prelude::*;

/// Smaller than most jobs, so that these go around it.
const RING: Ring = Ring {
    pieces: 3,
    piece_bytes: 1500,
};
/// Tags of the protocol's documentation.
const RING_TAG: u8 = 20;
const JOB_PLACED: u8 = 24;
const DONE_PLACED: u8 = 25;
const CREDIT: u8 = 26;
const DONE: u8 = 18;
/// Longer than any wait here may take.
const SOON: Duration = Duration::from_secs(20);

fn with(device: &Arc<Device>) -> OperatorsService {
    service().with_duplex(Ok(device.clone()))
}

fn by(device: &Arc<Device>, patience: Duration) -> Remote {
    Remote::new(tcp, resolve).with_patience(patience).beside(
        "remote-memory",
        "memory",
        device.clone(),
    )
}

fn open(served: &Served, device: &Arc<Device>, backend: &str) -> Box<dyn Backend> {
    let remote = by(device, Duration::from_secs(120));
    let opened = remote.open(&format!("{}/{backend}", served.address));
    opened.unwrap_or_else(|why| panic!("{why}"))
}

/// One of a fixed shape, one in place, some whose outputs grow or shrink, one that keeps a table.
const SOME: [&str; 6] = ["crc32c", "aes-gcm", "deflate", "inflate", "copy", "lpm4"];

#[test]
fn operators_conform_whichever_way_their_bytes_go() {
    let ring = Ring {
        pieces: 4,
        piece_bytes: 3001,
    };
    let device = Device::with_delay(ring, &[Fault::None], Duration::ZERO);
    let served = Served::start(with(&device));
    let mut pairs = SOME.map(|name| ("cpu", name)).to_vec();
    pairs.extend([
        ("pool/2", "deflate"),
        ("faulty/delay_polls_max=3,reorder=1", "copy"),
        ("cpu/portable", "aes-gcm"),
    ]);
    pairs.par_iter().for_each(|(backend, name)| {
        let entry = registry::find(name).expect("registered");
        let workload = entry.workload(entry.default_case()).expect("its own spec");
        let backend = open(&served, &device, backend);
        let coverage = Suite::default().check(&*backend, &[&*workload]);
        let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(coverage.items > 0, "{name}: nothing compared");
    });
    assert!(device.written_bytes() > 1 << 20);
}

/// A job of one item over pseudo-random bytes.
fn job(operator: &dyn Operator, backend: &dyn Backend, tag: u64, len: usize) -> Job {
    let mut src = backend.alloc(len).expect("memory");
    let mut at = tag;
    src.fill_with(|| {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (at >> 56) as u8
    });
    let dst = backend.alloc(operator.dst_len(len)).expect("memory");
    let items = Items::fixed(len as u32, 1);
    Job::new(tag, src, items, dst, operator.shape())
}

/// Polls until `count` jobs are home.
fn home(queue: &mut dyn Queue, count: usize) -> Vec<Completion> {
    let (mut done, began) = (Vec::new(), Instant::now());
    while done.len() < count {
        if queue.poll(&mut done) == 0 {
            queue.wait(Duration::from_millis(5));
        }
        assert!(began.elapsed() < SOON, "{} of {count} are home", done.len());
    }
    done
}

fn queue(operator: &Arc<dyn Operator>, depth: u32) -> Box<dyn Queue> {
    let depth = NonZeroU32::new(depth).expect("not zero");
    operator.clone().open(depth).expect("a queue")
}

#[test]
fn outputs_are_those_of_a_backend_here() {
    for has_file in [true, false] {
        outputs_are_the_same(has_file);
    }
}

/// Of all lengths around the bounds of what is placed, of a piece and of a ring, several in flight; beside those of this machine's CPU.
fn outputs_are_the_same(has_file: bool) {
    let device = Device::new(RING, &[Fault::None]);
    device.has_file.store(has_file, Ordering::Relaxed);
    let served = Served::start(with(&device));
    let there = open(&served, &device, "cpu");
    let here = operators_support::best();
    for name in ["copy", "sha256", "deflate"] {
        let spec = registry::find(name).expect("registered").default_spec();
        let operators = [&here, &there].map(|backend| backend.prepare(&spec).expect("an operator"));
        let edges = [1, INLINE_BYTES_MAX, 1500, 3 * 1500, 4 * 4500, 300_000];
        let lengths: Vec<usize> = edges.iter().flat_map(|&at| at - 1..at + 2).collect();
        let run = |operator: &Arc<dyn Operator>, backend: &dyn Backend| {
            let mut queue = queue(operator, 4);
            let mut ready: VecDeque<Job> = lengths
                .iter()
                .zip(0..)
                .map(|(len, tag)| job(&**operator, backend, tag, *len))
                .collect();
            let (mut done, count) = (Vec::new(), ready.len());
            let began = Instant::now();
            while done.len() < count {
                queue.submit(&mut ready);
                if queue.poll(&mut done) == 0 {
                    queue.wait(Duration::from_millis(5));
                }
                assert!(began.elapsed() < SOON);
            }
            done.sort_by_key(|done| done.job.tag);
            done
        };
        let before = device.written_bytes();
        let [ours, theirs] = [run(&operators[0], &*here), run(&operators[1], &*there)];
        for ((ours, theirs), len) in ours.iter().zip(&theirs).zip(&lengths) {
            assert_eq!(theirs.result, Ok(()), "{name} {len}");
            assert_eq!(ours.job.outcomes, theirs.job.outcomes, "{name} {len}");
            let bytes = |done: &Completion| match done.job.outcomes.first() {
                Some(Ok(len)) => done.job.dst[0][..*len as usize].to_vec(),
                _ => done.job.dst[0].to_vec(),
            };
            assert!(bytes(ours) == bytes(theirs), "{name} {len}");
        }
        // Items went one way, and outputs the other where they were long enough: neither more nor less than these.
        let placed = |len: usize| if len > INLINE_BYTES_MAX { len } else { 0 };
        let items: usize = lengths.iter().copied().map(placed).sum();
        let outputs = theirs.iter().map(|done| match done.job.outcomes.first() {
            Some(Ok(len)) => placed(*len as usize),
            _ => placed(done.job.dst[0].len()),
        });
        let expected = items + outputs.sum::<usize>();
        assert_eq!(device.written_bytes() - before, expected as u64, "{name}");
    }
}

/// Does `what` with an operator whose outputs come in more pieces than a ring has, in a thread of its own. A wait that nobody ends is a failure
/// here and not a test without an end.
fn in_time<T: Send + 'static>(
    delay: Duration,
    what: impl FnOnce(&dyn Backend, &Arc<dyn Operator>) -> T + Send + 'static,
) -> T {
    let (says, said) = mpsc::channel();
    thread::spawn(move || {
        let device = Device::with_delay(RING, &[Fault::None], delay);
        let served = Served::start(with(&device));
        let backend = open(&served, &device, "cpu");
        let spec = registry::find("copy").expect("registered").default_spec();
        let operator = backend.prepare(&spec).expect("an operator");
        let _ = says.send(what(&*backend, &operator));
    });
    said.recv_timeout(SOON).expect("nobody ended a wait")
}

const DELAYS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(2)];

/// Whoever sleeps until the queue's file is readable is woken for each piece of a body: no message announces these.
#[test]
fn the_file_alone_tells_of_every_piece() {
    use rustix::event::{PollFd, PollFlags, poll};
    for delay in DELAYS {
        let results = in_time(delay, |backend, operator| {
            let mut lane = queue(operator, 2);
            let jobs = (0..8).map(|tag| job(&**operator, backend, tag, 20_000));
            let (mut ready, mut done) = (jobs.collect(), Vec::new());
            while done.len() < 8 {
                lane.submit(&mut ready);
                lane.wait(Duration::ZERO);
                if lane.poll(&mut done) == 0 {
                    let file = lane.file().expect("the stand-in has one");
                    poll(&mut [PollFd::new(&file, PollFlags::IN)], None).expect("a wait");
                }
            }
            done.iter().map(|done| done.result).collect::<Vec<_>>()
        });
        assert_eq!(results, [Ok(()); 8], "{delay:?}");
    }
}

/// `wait` does not sleep where bytes of a body are there, which no message and no file tells of any more.
#[test]
fn nobody_waits_for_a_piece_that_is_there() {
    for delay in DELAYS {
        let result = in_time(delay, |backend, operator| {
            let mut lane = queue(operator, 1);
            lane.submit(&mut [job(&**operator, backend, 1, 20_000)].into());
            let mut done = Vec::new();
            while lane.poll(&mut done) == 0 {
                // The next pieces arrive meanwhile.
                thread::sleep(Duration::from_millis(20));
                lane.wait(Duration::from_secs(3600));
            }
            done[0].result
        });
        assert_eq!(result, Ok(()), "{delay:?}");
    }
}

/// Pieces are a sign of life, although no message comes with them and they are too few for a credit.
#[test]
fn pieces_end_a_silence() {
    const LEN: usize = 300_000;
    let ring = Ring {
        pieces: 64,
        piece_bytes: 20_000,
    };
    let device = Device::with_delay(ring, &[Fault::None], Duration::ZERO);
    // The outputs take more than twice as long as the client is patient.
    *device.pace.lock().expect("no panic") = Duration::from_millis(150);
    let served = Served::start(with(&device));
    let remote = by(&device, Duration::from_secs(1));
    let there = remote.open(&format!("{}/cpu", served.address));
    let there = there.unwrap_or_else(|why| panic!("{why}"));
    let here = operators_support::best();
    let prepare = |name: &str, backend: &dyn Backend| {
        let spec = registry::find(name).expect("registered").default_spec();
        backend.prepare(&spec).expect("an operator")
    };
    // The item is short, so that it goes with its message.
    let (deflate, inflate) = (prepare("deflate", &*here), prepare("inflate", &*there));
    let mut packing = Stage::new(deflate, 1, LEN as u32, |len| here.alloc(len)).expect("a stage");
    let span = |len: usize| Span {
        buf: 0,
        start: 0,
        len: len as u32,
    };
    let mut zeros = here.alloc(LEN).expect("memory").into();
    let packed = packing.run_over(&mut zeros, &[span(LEN)]).expect("a call");
    let packed = packed.get(0).expect("packed");
    assert!(packed.len() < INLINE_BYTES_MAX);
    let mut src = there.alloc(packed.len()).expect("memory");
    src.copy_from_slice(packed);
    let dst = there.alloc(LEN).expect("memory");
    let items = Items::fixed(packed.len() as u32, 1);
    let slots = Items::fixed(LEN as u32, 1);
    let mut lane = queue(&inflate, 1);
    let job = Job::with_slots(1, src, items, dst, slots, Vec::with_capacity(1));
    lane.submit(&mut [job].into());
    let done = home(&mut *lane, 1);
    assert_eq!(done[0].result, Ok(()));
    assert!(done[0].job.output(inflate.shape(), 0) == Ok(&[0; LEN][..]));
}

/// A stage sleeps in `wait` until its outputs are there.
#[test]
fn a_stage_gets_outputs_that_come_in_pieces() {
    const LEN: usize = 20_000;
    for delay in DELAYS {
        in_time(delay, |backend, operator| {
            let alloc = |len| backend.alloc(len);
            let mut stage = Stage::new(operator.clone(), 1, LEN as u32, alloc).expect("a stage");
            for round in 0..20_u8 {
                let mut items = backend.alloc(LEN).expect("memory");
                let mut at = round;
                items.fill_with(|| {
                    at = at.wrapping_mul(5).wrapping_add(1);
                    at
                });
                let expected = items.to_vec();
                let (buf, start, len) = (0, 0, LEN as u32);
                let span = Span { buf, start, len };
                let outputs = stage.run_over(&mut items.into(), &[span]).expect("outputs");
                assert!(outputs.get(0) == Ok(&expected[..]), "round {round}");
            }
        });
    }
}

#[test]
fn a_record_says_which_way_bytes_went() {
    let device = Device::new(RING, &[Fault::None]);
    let served = Served::start(with(&device).with_machine("a machine"));
    let backend = open(&served, &device, "cpu/portable");
    assert_eq!(
        backend.name(),
        format!("remote-memory/{}/cpu/portable", served.address)
    );
    let properties = backend.properties();
    // Under qemu the agent's CPU is a stand-in too.
    let by = match std::env::var_os("DPB_QEMU") {
        Some(_) => "qemu-user; jobs by a stand-in",
        None => "a stand-in",
    };
    assert_eq!(
        properties.evidence,
        Evidence::Emulated { by: by.to_owned() }
    );
    let place = properties.made_of.device.expect("where it is");
    assert!(place.ends_with("a machine, by memory"), "{place}");
    // Where the backend at the other end is emulated too, both are named.
    match open(&served, &device, "faulty/flips_ppm=1")
        .properties()
        .evidence
    {
        Evidence::Emulated { by } => {
            assert!(by.contains("faults") && by.contains("a stand-in"), "{by}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_end_without_a_device_is_named() {
    let device = Device::new(RING, &[Fault::None]);
    let has_none = "it was started with --bulk tcp";
    let served = Served::start(service().with_duplex(Err(has_none.to_owned())));
    let refused = |served: &Served| {
        let opened = by(&device, SOON).open(&format!("{}/cpu", served.address));
        opened.err().expect("no transport").to_string()
    };
    let why = refused(&served);
    assert!(why.contains(&format!("the agent: {has_none}")), "{why}");
    // The same agent serves who asks for no transport.
    let plain = operators_support::open(&served.name("cpu"));
    let spec = registry::find("crc32c").expect("registered").default_spec();
    assert!(plain.limits(&spec).is_ok());
    // One that was never told of any.
    let why = refused(&Served::start(service()));
    assert!(why.contains("the agent: "), "{why}");
    // This end cannot open its ring once it has the answer.
    let served = Served::start(with(&device));
    *device.refuses.lock().expect("no panic") = Some("no port is up".to_owned());
    let why = refused(&served);
    assert!(why.contains("this end: no port is up"), "{why}");
    assert!(why.starts_with("remote-memory/"), "{why}");
    *device.refuses.lock().expect("no panic") = None;
    assert!(
        by(&device, SOON)
            .open(&format!("{}/cpu", served.address))
            .is_ok()
    );
}

/// A transport counts as the queue that it is for, from the first word on.
#[test]
fn transports_are_counted_as_queues() {
    let device = Device::new(RING, &[Fault::None]);
    let quotas = Quotas {
        a_client: Share {
            queues: 1,
            ..Share::a_client(2)
        },
        ..Quotas::default()
    };
    let served = Served::start(with(&device).with_quotas(quotas));
    let backend = open(&served, &device, "cpu");
    let spec = registry::find("copy").expect("registered").default_spec();
    let operator = backend.prepare(&spec).expect("an operator");
    let only = queue(&operator, 2);
    let why = operator.clone().open(NonZeroU32::MIN).err();
    match why.expect("one may be open") {
        SetupError::Unsupported(why) => assert!(why.reason.contains("1 queues"), "{why}"),
        other => panic!("{other:?}"),
    }
    drop(only);
    drop(queue(&operator, 2));
}

/// Two jobs of 20 kB through a queue whose rings have these faults: of the one for outputs, of the one for items. Gives their results, and those
/// of two jobs that come later.
fn broken(faults: [Fault; 2]) -> [Vec<Result<(), JobError>>; 2] {
    // The first two are tried when the backend is opened.
    let [outputs, items] = faults;
    let all = [Fault::None, Fault::None, outputs, items, Fault::None];
    let device = Device::new(RING, &all);
    let served = Served::start(with(&device).with_patience(Duration::from_millis(600)));
    let remote = by(&device, Duration::from_millis(600));
    let backend = remote.open(&format!("{}/cpu", served.address));
    let backend = backend.unwrap_or_else(|why| panic!("{why}"));
    let spec = registry::find("copy").expect("registered").default_spec();
    let operator = backend.prepare(&spec).expect("an operator");
    let mut lane = queue(&operator, 2);
    let results = [0, 2].map(|first| {
        let job = |tag| job(&*operator, &*backend, tag, 20_000);
        let mut ready: VecDeque<Job> = [first, first + 1].map(job).into();
        assert_eq!(lane.submit(&mut ready), 2);
        let mut done = home(&mut *lane, 2);
        assert_eq!(lane.in_flight(), 0);
        done.sort_by_key(|done| done.job.tag);
        done.iter().map(|done| done.result).collect()
    });
    drop(lane);
    // Another queue has rings of its own.
    let mut lane = queue(&operator, 1);
    lane.submit(&mut [job(&*operator, &*backend, 9, 20_000)].into());
    assert_eq!(home(&mut *lane, 1)[0].result, Ok(()));
    results
}

#[test]
fn a_transport_that_breaks_ends_all_jobs() {
    let faults = [
        Fault::Breaks(0),
        Fault::Breaks(17),
        Fault::Lost(3),
        Fault::Unanswered(3),
        Fault::Skipped(2),
        Fault::Short(2),
    ];
    let cases: Vec<[Fault; 2]> = faults
        .into_iter()
        .flat_map(|fault| [[fault, Fault::None], [Fault::None, fault]])
        .collect();
    cases.par_iter().for_each(|faults| {
        let [first, later] = broken(*faults);
        // This end's transport; the agent, which says why; an end that noticed nothing but the silence. Never a connection that just closed.
        let is_over = |result: &Result<(), JobError>| {
            matches!(result, Err(JobError::Device(-67 | -103 | -110)))
        };
        assert!(first.iter().any(is_over), "{faults:?}: {first:?}");
        // A job that was whole before is whole; none is half.
        assert!(
            first.iter().all(|result| result.is_ok() || is_over(result)),
            "{faults:?}: {first:?}"
        );
        assert!(later.iter().all(is_over), "{faults:?}: {later:?}");
    });
    assert!(lost(-67).is_some_and(|why| why.contains("transport")));
}

/// A queue that is given up with jobs in flight, and one that is forgotten: the agent serves others.
#[test]
fn a_queue_may_be_dropped_or_forgotten_at_any_time() {
    let device = Device::new(RING, &[Fault::None]);
    let served = Served::start(with(&device));
    let backend = open(&served, &device, "faulty/delay_polls_max=50");
    let spec = registry::find("copy").expect("registered").default_spec();
    let operator = backend.prepare(&spec).expect("an operator");
    for polls in 0..12 {
        for is_forgotten in [false, true] {
            let mut lane = queue(&operator, 3);
            let jobs = (0..3).map(|tag| job(&*operator, &*backend, tag, 40_000));
            lane.submit(&mut jobs.collect());
            let mut done = Vec::new();
            for _ in 0..polls {
                lane.poll(&mut done);
                lane.wait(Duration::from_micros(200));
            }
            match is_forgotten && polls < 3 {
                true => std::mem::forget(lane),
                false => drop(lane),
            }
        }
    }
    let mut lane = queue(&operator, 1);
    lane.submit(&mut [job(&*operator, &*backend, 9, 40_000)].into());
    assert_eq!(home(&mut *lane, 1)[0].result, Ok(()));
}

/// Two jobs through a proxy that tampers with what their queue's connection carries.
fn tampered(tamper: Box<proxy::Tamper>) -> Vec<Result<(), JobError>> {
    let device = Device::new(RING, &[Fault::None]);
    let served = Served::start(with(&device).with_patience(Duration::from_millis(600)));
    let address = proxy::start(served.address, tamper);
    let remote = by(&device, Duration::from_millis(600));
    let backend = remote.open(&format!("{address}/cpu"));
    let backend = backend.unwrap_or_else(|why| panic!("{why}"));
    let spec = registry::find("copy").expect("registered").default_spec();
    let operator = backend.prepare(&spec).expect("an operator");
    let mut lane = queue(&operator, 2);
    let jobs = [0, 1].map(|tag| job(&*operator, &*backend, tag, 20_000));
    assert_eq!(lane.submit(&mut jobs.into()), 2);
    let done = home(&mut *lane, 2);
    done.iter().map(|done| done.result).collect()
}

/// Changes the first message of a kind.
fn first(tag: u8, change: impl Fn(&Message) -> Fate + Send + Sync + 'static) -> Box<proxy::Tamper> {
    let seen = AtomicUsize::new(0);
    Box::new(move |message| {
        let is_first = message.tag == tag && seen.fetch_add(1, Ordering::Relaxed) == 0;
        match is_first {
            true => change(message),
            false => Fate::Bytes(message.bytes()),
        }
    })
}

#[test]
fn messages_that_lie_about_pieces_end_the_connection() {
    fn with_tag(message: &Message, tag: u8) -> Fate {
        let message = Message {
            tag,
            ..message.clone()
        };
        Fate::Bytes(message.bytes())
    }
    fn with_word(message: &Message, at: usize, word: u32) -> Fate {
        let mut message = message.clone();
        message.body[at..at + 4].copy_from_slice(&word.to_le_bytes());
        Fate::Bytes(message.bytes())
    }
    let cases: Vec<(&str, Box<proxy::Tamper>)> = vec![
        ("the agent dies", first(JOB_PLACED, |_| Fate::Close)),
        ("the client's end dies", first(DONE_PLACED, |_| Fate::Close)),
        (
            "an answer is lost",
            first(DONE_PLACED, |_| Fate::Bytes(Vec::new())),
        ),
        (
            "a job is lost",
            first(JOB_PLACED, |_| Fate::Bytes(Vec::new())),
        ),
        (
            "a job is there twice",
            first(JOB_PLACED, |message| {
                Fate::Bytes([message.bytes(), message.bytes()].concat())
            }),
        ),
        (
            "an answer is there twice",
            first(DONE_PLACED, |message| {
                Fate::Bytes([message.bytes(), message.bytes()].concat())
            }),
        ),
        (
            "outputs that follow and do not",
            first(DONE_PLACED, |message| with_tag(message, DONE)),
        ),
        (
            "items that follow and do not",
            first(JOB_PLACED, |message| with_tag(message, 17)),
        ),
        (
            "fewer bytes than there are",
            first(JOB_PLACED, |message| with_word(message, 28, 19_000)),
        ),
        (
            "a credit for what was not sent",
            first(CREDIT, |message| with_word(message, 0, 77)),
        ),
        (
            "a credit for nothing",
            first(CREDIT, |message| with_word(message, 0, 0)),
        ),
        (
            "a credit of another length",
            first(CREDIT, |message| {
                let mut message = message.clone();
                message.body.push(0);
                Fate::Bytes(message.bytes())
            }),
        ),
        (
            "credits are lost",
            Box::new(|message| match message.tag {
                CREDIT => Fate::Bytes(Vec::new()),
                _ => Fate::Bytes(message.bytes()),
            }),
        ),
    ];
    cases.into_par_iter().for_each(|(what, tamper)| {
        let results = tampered(tamper);
        let is_over = |result: &Result<(), JobError>| matches!(result, Err(JobError::Device(..0)));
        assert!(results.iter().any(is_over), "{what}: {results:?}");
        assert!(
            results
                .iter()
                .all(|result| result.is_ok() || is_over(result))
        );
    });
}

/// Placed messages on a connection that has no rings are no messages, and a ring is asked for once.
#[test]
fn rings_that_are_not_there_carry_nothing() {
    let device = Device::new(RING, &[Fault::None]);
    let served = Served::start(with(&device));
    let placed = |message: &Message| {
        let tag = match message.tag {
            17 => JOB_PLACED,
            tag => tag,
        };
        let message = Message {
            tag,
            ..message.clone()
        };
        Fate::Bytes(message.bytes())
    };
    let address = proxy::start(served.address, Box::new(placed));
    let backend = operators_support::remote().open(&format!("{address}/cpu"));
    let backend = backend.unwrap_or_else(|why| panic!("{why}"));
    let spec = registry::find("copy").expect("registered").default_spec();
    let operator = backend.prepare(&spec).expect("an operator");
    let mut lane = queue(&operator, 1);
    lane.submit(&mut [job(&*operator, &*backend, 1, 300)].into());
    let result = home(&mut *lane, 1)[0].result;
    assert!(
        matches!(result, Err(JobError::Device(-103 | -104 | -32))),
        "{result:?}"
    );

    let twice = first(RING_TAG, |message| {
        Fate::Bytes([message.bytes(), message.bytes()].concat())
    });
    let address = proxy::start(served.address, twice);
    let remote = by(&device, Duration::from_millis(600));
    let why = remote.open(&format!("{address}/cpu")).err();
    assert!(why.is_some(), "two rings");
}
