//! Tables of sessions on a crypto device: each item has the key of its session, as on the CPU, and sessions come, change and go while a
//! queue is open.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::sessions::{SESSIONS_MAX, write_change};
use dpb_core::{
    Backend, ChangeError, Control, Direction, HmacHash, Items, Job, JobError, Material, OpSpec,
    Operator, Queue, spec,
};
use dpb_operators::cpu::{Cpu, Implementation};

/// The outcome of each item.
type Outcomes = Vec<Result<Vec<u8>, JobError>>;

fn gcm(keys: &[&[u8]]) -> OpSpec {
    let of = spec::AesGcm {
        direction: Direction::Encrypt,
        aad_bytes: 0,
        key: Material::secret([0; 16]),
    };
    sessions(of.into(), keys)
}

fn ctr(keys: &[&[u8]]) -> OpSpec {
    let key = Material::secret([0; 16]);
    sessions(spec::AesCtr { key }.into(), keys)
}

fn hmac(keys: &[&[u8]]) -> OpSpec {
    let of = spec::Hmac {
        hash: HmacHash::Sha256,
        key: Material::secret([0; 16]),
    };
    sessions(of.into(), keys)
}

fn sessions(of: OpSpec, keys: &[&[u8]]) -> OpSpec {
    let keys = keys.iter().map(|key| Material::secret(*key)).collect();
    spec::Sessions { of, keys }.into()
}

/// Items of sessions 0 to 3, whose counters run over, and some that are none: of a session that cannot be, and too short.
fn items() -> Vec<Vec<u8>> {
    let mut items = vec![vec![0; 3], u32::MAX.to_le_bytes().to_vec()];
    for i in 0..40_u32 {
        let mut item = (i % 4).to_le_bytes().to_vec();
        item.extend([0xFF; 16]);
        item.extend((0..i * 7 % 90).map(|byte| byte as u8));
        items.push(item);
    }
    // Nothing but the session's number.
    items.push(1_u32.to_le_bytes().to_vec());
    items
}

/// A prepared operator with a queue.
struct PreparedOperator {
    backend: Box<dyn Backend>,
    operator: Arc<dyn Operator>,
    control: Arc<dyn Control>,
    queue: Box<dyn Queue>,
}

impl PreparedOperator {
    fn new(backend: Box<dyn Backend>, spec: &OpSpec) -> Self {
        let operator = backend.prepare(spec).unwrap_or_else(|why| panic!("{why}"));
        let depth = NonZeroU32::new(4).expect("not zero");
        Self {
            control: operator.control().expect("it has a table"),
            queue: operator.clone().open(depth).expect("opens"),
            operator,
            backend,
        }
    }

    fn job(&self, items: &[Vec<u8>]) -> Job {
        let bytes = items.concat();
        let mut src = self.backend.alloc(bytes.len()).expect("memory");
        src.copy_from_slice(&bytes);
        let mut offsets = vec![0];
        offsets.extend(items.iter().scan(0, |end, item| {
            *end += item.len() as u32;
            Some(*end)
        }));
        let longest = items.iter().map(Vec::len).max().expect("items");
        let dst = items.len() * self.operator.dst_len(longest);
        let dst = self.backend.alloc(dst).expect("memory");
        let items = Items::Offsets(offsets.into());
        Job::new(0, src.freeze(), items, dst, self.operator.shape())
    }

    fn submit(&mut self, items: &[Vec<u8>]) {
        let job = self.job(items);
        assert_eq!(self.queue.submit(&mut VecDeque::from([job])), 1);
    }

    fn outcomes(&mut self) -> Outcomes {
        let mut done = Vec::new();
        while self.queue.poll(&mut done) == 0 {}
        assert_eq!(done[0].result, Ok(()));
        let job = &done[0].job;
        let output = |i| Ok(job.output(self.operator.shape(), i)?.to_vec());
        (0..job.items.count()).map(output).collect()
    }

    fn run(&mut self, items: &[Vec<u8>]) -> Outcomes {
        self.submit(items);
        self.outcomes()
    }
}

/// The device gives what the CPU gives, before changes and behind them.
pub(crate) fn follow_the_cpu(device: fn() -> Box<dyn Backend>) {
    let keys: [&[u8]; 3] = [&[1; 16], &[2; 32], &[3; 16]];
    for spec in [gcm(&keys), ctr(&keys), hmac(&keys)] {
        let cpu = Cpu::on(Implementation::Portable);
        let mut sides = [
            PreparedOperator::new(device(), &spec),
            PreparedOperator::new(Box::new(cpu), &spec),
        ];
        let items = items();
        let before = sides.each_mut().map(|side| side.run(&items));
        assert_eq!(before[0], before[1], "{spec}");
        assert!(before[0].iter().filter(|outcome| outcome.is_ok()).count() >= 30);
        // Three sessions there are; the fourth comes, the first has another key, the second ends.
        let mut changes = Vec::new();
        write_change(&mut changes, 3, &[4; 32]);
        write_change(&mut changes, 0, &[5; 32]);
        write_change(&mut changes, 1, &[]);
        // A job that is with the device does not hold the change up, and keeps the keys that it was submitted with.
        sides[0].submit(&items);
        for side in &sides {
            side.control.change(&changes).expect("well formed");
            assert_eq!(side.control.commit(), Ok(1));
        }
        assert_eq!(sides[0].outcomes(), before[0], "{spec}");
        let after = sides.each_mut().map(|side| side.run(&items));
        assert_eq!(after[0], after[1], "{spec}");
        assert_ne!(after[0], before[0]);
        // More sessions than a device has room for at once, were those before not freed.
        for round in 0..600_u32 {
            let mut change = Vec::new();
            write_change(&mut change, round % 5, &round.to_le_bytes().repeat(4));
            for side in &sides {
                side.control.change(&change).expect("well formed");
                side.control.commit().expect("made");
            }
        }
        let last = sides.each_mut().map(|side| side.run(&items));
        assert_eq!(last[0], last[1], "{spec}");
        refuses_what_is_no_change(&sides[0], &spec);
        assert_eq!(sides[0].run(&items), last[0], "a change that was refused");
    }
}

fn refuses_what_is_no_change(side: &PreparedOperator, spec: &OpSpec) {
    let mut good = Vec::new();
    write_change(&mut good, 0, &[9; 16]);
    let whole = good.len();
    for cut in 1..whole {
        let changes = [&good[..], &good[..cut]].concat();
        let malformed = Err(ChangeError::Malformed { at: whole });
        assert_eq!(side.control.change(&changes), malformed, "{spec}: {cut}");
    }
    let mut beyond = good.clone();
    write_change(&mut beyond, SESSIONS_MAX, &[9; 16]);
    assert_eq!(side.control.change(&beyond), Err(ChangeError::Full));
    if !spec.to_string().starts_with("hmac") {
        let mut odd = good;
        write_change(&mut odd, 1, &[9; 17]);
        let malformed = Err(ChangeError::Malformed { at: whole });
        assert_eq!(side.control.change(&odd), malformed);
    }
    // Nothing of what was refused is left for the next commit.
    let version = side.control.commit();
    assert_eq!(side.control.commit(), version);
}
