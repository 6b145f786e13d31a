//! Tables of routes that change while queues look addresses up: each job answers as one committed version does, and as the newest one
//! if it was submitted after the commit. Right is what the model of each version says.

#[path = "support/story.rs"]
mod story;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dpb_core::random::SplitMix64;
use dpb_core::{Buf, ChangeError, Control, Items, Material, OpSpec, spec};
use dpb_operators::network::lpm::model::Model;
use dpb_operators::network::lpm::{
    Generated, LookupKeys, Prefix, Route, draw, write, write_change,
};
use story::{Progress, Story, ask, tell};

/// Addresses of a job, and of each of its items.
const ADDRESSES: usize = 256;
const PER_ITEM: usize = 64;
/// The number of addresses of which one is sent to a hop of its own by each version, so that no part of two versions' answers is alike.
const MARKED: usize = 16;

/// A table of routes whose changes a model makes too.
struct Routes<A> {
    story: Story,
    model: Model<A>,
}

/// A story of so many commits.
fn routes<A: Generated>(seed: u64, commits: usize) -> Story {
    Routes::<A>::new(seed, commits).story
}

impl<A: Generated> Routes<A> {
    fn new(seed: u64, commits: usize) -> Self {
        let routes = A::routes(seed, 2000, 50);
        let probes = draw(LookupKeys::RouteWeighted, seed, ADDRESSES, &routes);
        let mut bytes = Vec::new();
        probes.iter().for_each(|probe| probe.to_wire(&mut bytes));
        let mut addresses = Buf::zeroed(bytes.len()).expect("memory");
        addresses.copy_from_slice(&bytes);
        let spec = OpSpec::from(spec::Lpm {
            family: A::FAMILY,
            routes: Material::public(write(&routes)),
        });
        let mut story = Self {
            story: Story {
                spec,
                input: addresses.freeze(),
                items: Items::fixed((PER_ITEM * A::BYTES) as u32, (ADDRESSES / PER_ITEM) as u32),
                output_bytes: ADDRESSES * 4,
                scripts: Vec::new(),
                answers: Vec::new(),
            },
            model: Model::new(&routes),
        };
        let mut random = SplitMix64::new(seed);
        story.answer(&probes);
        for commit in 1..=commits {
            let changes = changes(&mut random, &routes, &probes, commit as u32);
            story.change(&changes);
            story.answer(&probes);
        }
        story
    }

    fn change(&mut self, changes: &[(Prefix<A>, Option<u32>)]) {
        let mut script = Vec::new();
        for (prefix, hop) in changes {
            match hop {
                Some(hop) => self.model.insert(*prefix, *hop),
                None => self.model.remove(*prefix),
            };
            write_change(*prefix, *hop, &mut script);
        }
        self.story.scripts.push(script);
    }

    fn answer(&mut self, probes: &[A]) {
        let hops = probes.iter().map(|probe| self.model.lookup(*probe));
        self.story
            .answers
            .push(hops.flat_map(u32::to_le_bytes).collect());
    }
}

/// Random changes to the routes and inside them, and each marked address to the hop of this commit.
fn changes<A: Generated>(
    random: &mut SplitMix64,
    routes: &[Route<A>],
    probes: &[A],
    commit: u32,
) -> Vec<(Prefix<A>, Option<u32>)> {
    let some = (0..random.below(60)).map(|_| {
        let prefix = routes[random.below(routes.len())].prefix;
        let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let inside = (prefix.bits() + random.below(9) as u8).min(A::BITS);
        let hop = random.below(300) as u32;
        match random.below(3) {
            0 => (prefix, None),
            1 => (prefix, Some(hop)),
            _ => (Prefix::of(prefix.fill(bits), inside), Some(hop)),
        }
    });
    let mut changes: Vec<_> = some.collect();
    let marked = probes.iter().step_by(MARKED);
    changes.extend(marked.map(|probe| (Prefix::of(*probe, A::BITS), Some(1000 + commit))));
    changes
}

#[test]
fn each_job_sees_one_version_on_the_callers_core() {
    tell(&routes::<Ipv4Addr>(1, 400), "cpu/best");
    tell(&routes::<Ipv4Addr>(2, 100), "cpu/portable");
    tell(&routes::<Ipv6Addr>(3, 200), "cpu/best");
}

#[test]
fn each_job_sees_one_version_on_a_pool() {
    tell(&routes::<Ipv4Addr>(4, 400), "pool/2");
    tell(&routes::<Ipv6Addr>(5, 100), "pool/2");
}

#[test]
fn malformed_scripts_are_refused_as_a_whole() {
    let story = routes::<Ipv4Addr>(6, 3);
    let operator = story.prepare("cpu/best");
    let control = operator.control().expect("routes can be changed");
    let good = &story.scripts[0];
    let change = 10;
    for (what, at, byte) in [
        ("neither comes nor goes", 0, 2),
        ("33 bits", 1, 33),
        ("bits behind the prefix", 1, 0),
    ] {
        let mut bad = good.clone();
        // The last change sends a marked address somewhere, which has bits set.
        let last = bad.len() - change;
        bad[last + at] = byte;
        let refused = control.change(&bad);
        assert_eq!(refused, Err(ChangeError::Malformed { at: last }), "{what}");
    }
    let short = control.change(&good[..change + 3]);
    assert_eq!(short, Err(ChangeError::Malformed { at: change }));
    assert_eq!(control.change(&[]), Ok(()));
    assert_eq!(control.commit(), Ok(0), "nothing was taken");

    // Another handle is the same one.
    let again = operator.control().expect("as before");
    assert_eq!(control.change(good), Ok(()));
    assert_eq!(again.change(&story.scripts[1]), Ok(()));
    let progress = Progress::done();
    ask(&story, &operator, &progress, 0);
    assert_eq!(again.commit(), Ok(1), "of both");
    progress.begun.store(2, Ordering::Release);
    progress.ended.store(2, Ordering::Release);
    ask(&story, &operator, &progress, 0);
}

#[test]
fn a_control_outlives_its_operator() {
    let story = routes::<Ipv4Addr>(7, 2);
    let control: Arc<dyn Control> = story.prepare("pool/2").control().expect("has one");
    assert_eq!(control.change(&story.scripts[0]), Ok(()));
    assert_eq!(control.commit(), Ok(1));
}
