//! Agents that die, fall silent, lie or come back, and clients that do; quotas; secrets. Nothing hangs, and each side says why.

mod operators_support;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dpb_core::{
    Backend, ChangeError, Completion, Family, Items, Job, JobError, OpSpec, OpenError, Operator,
    OutputShape, Queue, SetupError,
};
use dpb_link::operators::{
    Dialled, OperatorsService, Quotas, Remote, SessionSecurity, Share, VERSION, lost, tcp,
};
use dpb_operators::registry;
use operators_support::proxy::{self, DONE, Fate, JOB, Message, WELCOME};
use operators_support::{Served, open, remote, resolve, service};
use proptest::prelude::*;

const CONNRESET: JobError = JobError::Device(-104);
const PROTO: JobError = JobError::Device(-71);
const TIMEDOUT: JobError = JobError::Device(-110);

fn spec(name: &str) -> OpSpec {
    registry::find(name).expect("registered").default_spec()
}

fn pass(message: &Message) -> Fate {
    Fate::Bytes(message.bytes())
}

/// A job of `count` items of 100 bytes.
fn job(operator: &dyn Operator, backend: &dyn Backend, tag: u64, count: u32) -> Job {
    let src = backend.alloc(100 * count as usize).expect("memory");
    let dst_len = operator.dst_len(100) * count as usize;
    let dst = backend.alloc(dst_len).expect("memory");
    Job::new(tag, src, Items::fixed(100, count), dst, operator.shape())
}

/// Polls until `count` jobs are home.
fn home(queue: &mut dyn Queue, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    while done.len() < count {
        if queue.poll(&mut done) == 0 {
            queue.wait(Duration::from_millis(5));
        }
    }
    done
}

/// Two jobs of `operator` through a proxy that tampers; gives their results, and those of two jobs that come later.
fn through(name: &str, tamper: Box<proxy::Tamper>) -> [Vec<Result<(), JobError>>; 2] {
    let served = Served::start(service());
    let address = proxy::start(served.address, tamper);
    let patience = Duration::from_millis(300);
    let remote = Remote::new(tcp, resolve).with_patience(patience);
    let backend = remote.open(&format!("{address}/cpu")).expect("an agent");
    let operator = backend.prepare(&spec(name)).expect("an operator");
    let depth = NonZeroU32::new(2).expect("two");
    let mut queue = operator.clone().open(depth).expect("a queue");
    [0, 2].map(|first| {
        let job = |tag| job(&*operator, &*backend, tag, 3);
        let mut ready: VecDeque<Job> = [first, first + 1].map(job).into();
        assert_eq!(queue.submit(&mut ready), 2);
        let mut done = home(&mut *queue, 2);
        assert_eq!(queue.in_flight(), 0);
        done.sort_by_key(|done| done.job.tag);
        done.iter().map(|done| done.result).collect()
    })
}

/// Tampers with the first completion alone.
fn first_done(change: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Box<proxy::Tamper> {
    let seen = AtomicUsize::new(0);
    Box::new(move |message| {
        let is_first = message.tag == DONE && seen.fetch_add(1, Ordering::Relaxed) == 0;
        Fate::Bytes(match is_first {
            true => change(message),
            false => message.bytes(),
        })
    })
}

#[test]
fn an_agent_that_dies_in_the_middle_of_a_job() {
    let die = |message: &Message| match message.tag {
        JOB => Fate::Close,
        _ => pass(message),
    };
    for results in through("crc32c", Box::new(die)) {
        assert_eq!(results, [Err(CONNRESET); 2]);
    }
    assert!(lost(-104).is_some_and(|why| why.contains("closed")));
}

#[test]
fn an_agent_that_never_answers() {
    let swallow = |message: &Message| match message.tag {
        DONE => Fate::Bytes(Vec::new()),
        _ => pass(message),
    };
    for results in through("crc32c", Box::new(swallow)) {
        assert_eq!(results, [Err(TIMEDOUT); 2]);
    }
}

#[test]
fn an_agent_that_stops_in_the_middle_of_an_answer() {
    let half = |message: &Message| {
        let bytes = message.bytes();
        bytes[..bytes.len() - 1].to_vec()
    };
    // What comes next is taken for the rest, and then is no message.
    let [first, later] = through("crc32c", first_done(half));
    assert!(first.contains(&Err(PROTO)), "{first:?}");
    assert_eq!(later, [Err(PROTO); 2]);
}

#[test]
fn an_agent_that_answers_garbage() {
    for garbage in [
        &[0xaa; 64][..],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        &[DONE; 200],
    ] {
        let [first, later] = through("crc32c", first_done(move |_| garbage.to_vec()));
        assert_eq!([first, later], [[Err(PROTO); 2]; 2]);
    }
}

#[test]
fn answers_to_jobs_that_are_not_in_flight() {
    for at in [0, 3, 4, 7] {
        let another = move |message: &Message| {
            let mut message = message.clone();
            message.body[at] ^= 0x55;
            message.bytes()
        };
        let [first, later] = through("crc32c", first_done(another));
        assert_eq!([first, later], [[Err(PROTO); 2]; 2], "byte {at} of the id");
    }
}

#[test]
fn an_answer_that_comes_twice() {
    let twice = |message: &Message| [message.bytes(), message.bytes()].concat();
    let [first, later] = through("crc32c", first_done(twice));
    assert_eq!(first, [Ok(()), Err(PROTO)]);
    assert_eq!(later, [Err(PROTO); 2]);
}

#[test]
fn outputs_that_do_not_fit() {
    type Change = fn(&mut Vec<u8>);
    // Behind the head of 16 bytes: the outcomes of three items, and the outputs.
    let longer_than_the_slot: Change = |body| body[16 + 2] = 0x70;
    let longer_than_all: Change = |body| body.push(0);
    let shorter_than_all: Change = |body| body.truncate(body.len() - 1);
    let fewer_outcomes: Change = |body| body.truncate(20);
    let an_error_of_no_kind: Change = |body| body[16..20].copy_from_slice(&[0x77, 0, 0, 0x80]);
    let a_result_of_no_kind: Change = |body| body[8] = 200;
    let outputs_of_a_failed_job: Change = |body| body[8] = 1;
    let changes = [
        longer_than_the_slot,
        longer_than_all,
        shorter_than_all,
        fewer_outcomes,
        an_error_of_no_kind,
        a_result_of_no_kind,
        outputs_of_a_failed_job,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let changed = move |message: &Message| {
            let mut message = message.clone();
            change(&mut message.body);
            message.bytes()
        };
        let [first, later] = through("deflate", first_done(changed));
        assert!(first.contains(&Err(PROTO)), "change {number}: {first:?}");
        assert_eq!(later, [Err(PROTO); 2], "change {number}");
    }
    // Of a fixed shape the length is known.
    let [first, later] = through(
        "crc32c",
        first_done(|message| {
            let mut message = message.clone();
            message.body.extend([0; 4]);
            message.bytes()
        }),
    );
    assert_eq!([first, later], [[Err(PROTO); 2]; 2]);
}

#[test]
fn an_agent_of_another_version() {
    let served = Served::start(service());
    let newer = |message: &Message| {
        let mut message = message.clone();
        if message.tag == WELCOME {
            message.body[4] += 1;
        }
        Fate::Bytes(message.bytes())
    };
    let address = proxy::start(served.address, Box::new(newer));
    let why = remote().open(&format!("{address}/cpu")).err();
    let why = why.expect("another version").to_string();
    for version in [VERSION, VERSION + 1] {
        assert!(why.contains(&format!("version {version}")), "{why}");
    }
    // And what is no agent at all.
    let says = TcpStream::connect(served.address).and_then(|mut stream| {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    });
    let says = says.expect("an answer, and the end");
    assert!(says.windows(9).any(|part| part == b"malformed"), "{says:?}");
}

#[test]
fn an_agent_that_is_restarted() {
    let served = Served::start(service());
    let address = served.address;
    let backend = open(&served.name("cpu"));
    let operator = backend.prepare(&spec("crc32c")).expect("an operator");
    let mut queue = operator.clone().open(NonZeroU32::MIN).expect("a queue");
    let run = |queue: &mut dyn Queue| {
        let mut ready: VecDeque<Job> = [job(&*operator, &*backend, 1, 1)].into();
        queue.submit(&mut ready);
        home(queue, 1)[0].result
    };
    assert_eq!(run(&mut *queue), Ok(()));
    drop(served);
    let lost = run(&mut *queue);
    assert!(matches!(lost, Err(JobError::Device(..0))), "{lost:?}");
    let served = Served::start_at(service(), address);
    assert_eq!(run(&mut *queue), lost, "a queue that is lost stays lost");
    let reopened = operator.clone().open(NonZeroU32::MIN);
    let why = reopened
        .err()
        .expect("prepared by the one before")
        .to_string();
    assert!(why.contains("no such operator"), "{why}");
    // The backend finds the new one.
    let operator = backend.prepare(&spec("crc32c")).expect("an operator");
    let mut queue = operator.clone().open(NonZeroU32::MIN).expect("a queue");
    let mut ready: VecDeque<Job> = [job(&*operator, &*backend, 1, 1)].into();
    queue.submit(&mut ready);
    assert_eq!(home(&mut *queue, 1)[0].result, Ok(()));
    drop(queue);
    drop(served);
    let why = backend
        .limits(&spec("sha256"))
        .expect_err("nobody is there");
    assert!(why.reason.contains(&address.to_string()), "{why}");
}

#[test]
fn what_is_not_there_is_a_finding() {
    let served = Served::start(service());
    for (instance, says) in [
        ("nowhere/cpu", "HOST:PORT"),
        (":7400/cpu", "HOST:PORT"),
        ("127.0.0.1:1/cpu", "dpb serve"),
        (&format!("{}/cpu/abacus", served.address), "abacus"),
        (
            &format!("{0}/remote/{0}/cpu", served.address),
            "other agents",
        ),
    ] {
        let why = remote().open(instance).err().expect(instance);
        assert!(why.to_string().contains(says), "{instance}: {why}");
    }
    assert!(matches!(
        remote().open("127.0.0.1:1/cpu").err(),
        Some(OpenError::Absent(_))
    ));
    let backend = open(&served.name("cpu"));
    let unknown = OpSpec::custom("levitate", []);
    let why = backend.limits(&unknown).expect_err("no such").reason;
    assert!(why.contains("levitate"), "{why}");
    assert_eq!(
        backend.prepare(&unknown).err(),
        Some(SetupError::Unsupported(dpb_core::Unsupported {
            reason: why
        }))
    );
}

#[test]
fn lengths_beyond_any_item_are_those_of_the_longest() {
    let served = Served::start(service());
    let backend = open(&served.name("cpu"));
    for name in ["deflate", "inflate", "base64-encode", "lz4"] {
        let Some(entry) = registry::find(name) else {
            continue;
        };
        let spec = entry.default_spec();
        let longest = backend.limits(&spec).expect("limits").item_bytes_max;
        let operator = backend.prepare(&spec).expect("an operator");
        let len = operator.dst_len(longest);
        for beyond in [longest + 1000, usize::MAX / 2, usize::MAX] {
            assert_eq!(operator.dst_len(beyond), len, "{name}, {beyond}");
        }
        // The agent goes on.
        assert!(operator.open(NonZeroU32::MIN).is_ok(), "{name}");
    }
}

#[test]
fn quotas_are_refused_with_their_figures() {
    let quotas = Quotas {
        depth_max: 3,
        input_bytes_max: 5000,
        output_bytes_max: 9000,
        items_max: 7,
        spec_bytes_max: 600,
        a_client: Share {
            operators: 2,
            queues: 2,
            backends: 1,
            threads: 2,
        },
        all_clients: Share::all_clients(1),
    };
    let served = Served::start(service().with_quotas(quotas));
    let backend = open(&served.name("cpu"));
    let limits = backend.limits(&spec("crc32c")).expect("within them");
    assert_eq!(limits.depth_max.get(), 3);
    assert_eq!((limits.input_bytes_max, limits.items_max), (5000, 7));
    let why = backend.limits(&spec("lpm4")).expect_err("a long table");
    assert!(why.reason.contains("600 bytes"), "{why}");
    let operator = backend.prepare(&spec("crc32c")).expect("the first");
    let second = backend.prepare(&spec("deflate")).expect("the second");
    let why = backend.prepare(&spec("sha256")).err().expect("one more");
    assert!(why.to_string().contains("2 operators"), "{why}");
    let open_one = || operator.clone().open(NonZeroU32::MIN);
    let (first, next) = (open_one().expect("one"), open_one().expect("two"));
    let why = open_one().err().expect("one more");
    assert!(why.to_string().contains("2 queues"), "{why}");
    drop(first);
    drop(open_one().expect("one is free"));
    drop(next);
    let why = remote().open(&format!("{}/pool/2", served.address)).err();
    let why = why.expect("one more").to_string();
    assert!(why.contains("1 backends"), "{why}");
    // A job whose slots are longer than the agent's memory for them.
    let mut queue = second.clone().open(NonZeroU32::MIN).expect("a queue");
    let (src, dst) = (backend.alloc(10), backend.alloc(9001));
    let items = Items::fixed(10, 1);
    let long = Job::new(1, src.unwrap(), items, dst.unwrap(), OutputShape::Variable);
    queue.submit(&mut [long].into());
    assert_eq!(home(&mut *queue, 1)[0].result, Err(JobError::TooLong));
    // An operator that is dropped leaves room for another.
    drop((queue, second));
    backend.prepare(&spec("sha256")).expect("one is free");
}

/// More bytes than may be in flight: jobs wait for each other, and all come home.
#[test]
fn jobs_beyond_the_window_wait() {
    let quotas = Quotas {
        input_bytes_max: 3000,
        output_bytes_max: 3000,
        items_max: 10,
        ..Quotas::default()
    };
    let served = Served::start(service().with_quotas(quotas));
    let backend = open(&served.name("pool/2"));
    let operator = backend.prepare(&spec("copy")).expect("an operator");
    let depth = NonZeroU32::new(64).expect("not zero");
    let mut queue = operator.clone().open(depth).expect("a queue");
    let filled = |tag: u64| {
        let mut src = backend.alloc(3000).expect("memory");
        src.fill(tag as u8);
        let dst = backend.alloc(3000).expect("memory");
        Job::new(tag, src, Items::fixed(300, 10), dst, operator.shape())
    };
    let mut ready: VecDeque<Job> = (0..64).map(filled).collect();
    assert_eq!(queue.submit(&mut ready), 64);
    for Completion { job, result } in home(&mut *queue, 64) {
        assert_eq!(result, Ok(()));
        assert!(job.dst[0].iter().all(|&byte| byte == job.tag as u8));
    }
}

#[test]
fn secrets_do_not_cross_in_clear() {
    let served = Served::start(service());
    let in_clear = |address: &str| {
        tcp(address).map(|dialled| Dialled {
            security: SessionSecurity::Clear,
            ..dialled
        })
    };
    let remote = Remote::new(in_clear, resolve);
    let backend = remote.open(&format!("{}/cpu", served.address));
    let backend = backend.expect("an agent");
    let why = backend.limits(&spec("aes-gcm")).expect_err("a key");
    assert!(why.reason.contains("not encrypted"), "{why}");
    assert!(backend.limits(&spec("crc32c")).is_ok());
    assert!(backend.limits(&spec("lpm4")).is_ok());
}

/// A table changes at the agent as it does here, for all queues.
#[test]
fn tables_change_over_the_wire() {
    let served = Served::start(service());
    let sessions = registry::find("hmac-sha256").expect("registered");
    let sessions = sessions.case("sessions=2").expect("in its domain").spec;
    let mut outputs = Vec::new();
    for backend in [operators_support::best(), open(&served.name("cpu"))] {
        let operator = backend.prepare(&sessions).expect("an operator");
        let mut queue = operator.clone().open(NonZeroU32::MIN).expect("a queue");
        let mut run = |seen: &mut Vec<Vec<u8>>| {
            let (src, dst) = (backend.alloc(8).unwrap(), backend.alloc(32).unwrap());
            let job = Job::new(1, src, Items::fixed(8, 1), dst, operator.shape());
            queue.submit(&mut [job].into());
            let done = home(&mut *queue, 1);
            let output = done[0].job.output(operator.shape(), 0);
            seen.push(output.map(<[u8]>::to_vec).unwrap_or_default());
        };
        let mut seen = Vec::new();
        let control = operator.control().expect("a table");
        assert!(operator.control().is_some());
        run(&mut seen);
        let mut changes = 0_u32.to_le_bytes().to_vec();
        changes.extend(4_u16.to_le_bytes());
        changes.extend(b"key!");
        control.change(&changes).expect("a change");
        run(&mut seen);
        assert_eq!(control.commit(), Ok(1));
        run(&mut seen);
        assert_eq!(seen[0], seen[1]);
        assert_ne!(seen[1], seen[2]);
        let malformed = control.change(&changes[..5]);
        seen.push(format!("{malformed:?}").into_bytes());
        assert!(malformed.is_err());
        outputs.push(seen);
    }
    assert_eq!(outputs[0], outputs[1]);
}

/// An agent that works on an answer for longer than the client is patient says so, and is waited for.
#[test]
fn an_answer_may_take_longer_than_the_patience() {
    let slow = |_: &str| {
        std::thread::sleep(Duration::from_secs(5));
        Ok(operators_support::best())
    };
    let agent = OperatorsService::new(Box::new(slow), resolve);
    let served = Served::start(agent.with_patience(Duration::from_millis(1200)));
    let remote = Remote::new(tcp, resolve).with_patience(Duration::from_secs(2));
    let backend = remote.open(&format!("{}/slow", served.address));
    let backend = backend.unwrap_or_else(|why| panic!("{why}"));
    assert!(backend.prepare(&spec("crc32c")).is_ok());
}

/// Changes that are never committed take no more memory of the agent than a spec may; a commit makes room.
#[test]
fn changes_without_a_commit_have_a_bound() {
    let quotas = Quotas {
        spec_bytes_max: 4000,
        ..Quotas::default()
    };
    let served = Served::start(service().with_quotas(quotas));
    let sessions = registry::find("hmac-sha256").expect("registered");
    let sessions = sessions.case("sessions=2").expect("in its domain").spec;
    let backend = open(&served.name("cpu"));
    let operator = backend.prepare(&sessions).expect("an operator");
    let control = operator.control().expect("a table");
    let mut changes = 0_u32.to_le_bytes().to_vec();
    changes.extend(4_u16.to_le_bytes());
    changes.extend(b"key!");
    // Whole messages: what is noted is counted, and what is refused is not.
    let many = changes.repeat(100);
    for version in [1, 2] {
        for _ in 0..4 {
            assert_eq!(control.change(&many), Ok(()));
            assert!(control.change(&many[..5]).is_err(), "malformed");
        }
        for _ in 0..2 {
            assert_eq!(control.change(&changes), Err(ChangeError::Full));
        }
        assert_eq!(control.commit(), Ok(version));
    }
    assert_eq!(control.change(&changes.repeat(401)), Err(ChangeError::Full));
    assert_eq!(control.change(&changes.repeat(400)), Ok(()));
}

/// The bytes of a whole conversation of a client, connection by connection.
fn recorded(served: &Served) -> Vec<Vec<u8>> {
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let record = seen.clone();
    let tamper = move |message: &Message| {
        if message.from_client {
            let mut seen = record.lock().expect("not poisoned");
            // A greeting begins a connection; one client has one question at a time.
            if message.tag == 1 {
                seen.push(Vec::new());
            }
            let last = seen.last_mut().expect("greeted");
            last.extend(message.bytes());
        }
        pass(message)
    };
    let address = proxy::start(served.address, Box::new(tamper));
    let backend = remote().open(&format!("{address}/cpu")).expect("an agent");
    let operator = backend.prepare(&spec("deflate")).expect("an operator");
    drop(operator.clone().open(NonZeroU32::MIN).expect("a queue"));
    drop((operator, backend));
    std::mem::take(&mut seen.lock().expect("not poisoned"))
}

/// Sends `bytes` and nothing more, and reads until the agent ends the connection.
fn say(served: &Served, bytes: &[u8]) {
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    // The agent may have ended it already.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
}

fn still_serves(served: &Served) {
    let backend = open(&served.name("cpu"));
    let operator = backend.prepare(&spec("crc32c")).expect("an operator");
    let mut queue = operator.clone().open(NonZeroU32::MIN).expect("a queue");
    queue.submit(&mut [job(&*operator, &*backend, 1, 2)].into());
    assert_eq!(home(&mut *queue, 1)[0].result, Ok(()));
}

#[test]
fn a_client_that_stops_anywhere() {
    let served = Served::start(service());
    let conversation = recorded(&served);
    assert_eq!(conversation.len(), 2);
    for bytes in conversation {
        for len in 0..bytes.len() {
            say(&served, &bytes[..len]);
        }
    }
    still_serves(&served);
}

/// A job, of a queue of depth one, that lies: the agent ends the connection and says why.
#[test]
fn jobs_that_lie_are_refused() {
    let served = Served::start(service());
    let lies: [(usize, u8); 7] = [(8, 3), (9, 1), (10, 1), (12, 9), (16, 77), (24, 5), (28, 1)];
    for (at, byte) in lies {
        let lie = move |message: &Message| {
            let mut message = message.clone();
            if message.tag == JOB {
                assert_ne!(message.body[at], byte);
                message.body[at] = byte;
            }
            Fate::Bytes(message.bytes())
        };
        let address = proxy::start(served.address, Box::new(lie));
        let backend = remote().open(&format!("{address}/cpu")).expect("an agent");
        let operator = backend.prepare(&spec("crc32c")).expect("an operator");
        let mut queue = operator.clone().open(NonZeroU32::MIN).expect("a queue");
        queue.submit(&mut [job(&*operator, &*backend, 1, 3)].into());
        let result = home(&mut *queue, 1)[0].result;
        // Refused, or ended before that was read.
        let is_over = matches!(result, Err(JobError::Device(-103 | -104 | -32)));
        assert!(is_over, "byte {at}: {result:?}");
    }
    still_serves(&served);
}

#[test]
fn hostile_clients_do_no_harm() {
    let served = Served::start(service());
    let conversation = recorded(&served);
    let config = ProptestConfig::with_cases(200);
    let flips = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5);
    proptest!(config, |(flips in flips, which in 0..2_usize, noise in prop::collection::vec(any::<u8>(), 0..64))| {
        let mut bytes = conversation[which].clone();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.extend(noise);
        say(&served, &bytes);
    });
    still_serves(&served);
}
