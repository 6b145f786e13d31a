//! Phases between two ports, over dpb's NAT and firewall in memory. A sender is in time or not as the machine has it, so it is given all the time there is.

use std::cell::Cell;
use std::sync::Arc;

use dpb_core::{Clock, PacketPort, WallClock};

use super::super::*;
use crate::flow::nat::{Behaviour, Nat};
use crate::flow::toeplitz::{SYMMETRIC_KEY, Toeplitz};
use crate::pipeline::{Line, Make, Shard, Stage, WhenFull, Work};
use crate::port::pair_of;
use crate::programs::firewall::{Firewall, Policy, Rules};
use crate::programs::forward::{Addresses, bridge};
use crate::programs::nat44::{Nat44, NatSharding, Sides};
use crate::traffic::{Profile, Sizes};
use crate::trial::{Between, Drops, Hosted, SystemUnderTest};

const MINUTE_NS: u64 = 60_000_000_000;
/// However long the machine is busy with others.
const TIMING: Timing = Timing {
    tolerance_ns: MINUTE_NS,
    patience_ns: MINUTE_NS,
    settle_ns: 1_000_000,
};
const FILL: Fill = Fill {
    connections: 16,
    per_s: 1e6,
    invalid_max: 3,
};

fn nat(sessions: usize, clock: Arc<dyn Clock>) -> Vec<Box<dyn Stage>> {
    let steering = NatSharding::steering(Toeplitz::new(SYMMETRIC_KEY), 1).expect("one shard");
    let behaviour = Behaviour::default();
    let nat = Nat::new(behaviour, vec![0xc633_6401], sessions, steering, 0, 3).expect("a NAT");
    let sides = Sides::new(2, 1, true, false);
    vec![Box::new(Nat44::new(nat, sides, clock))]
}

fn firewall(rules: &str, flows: usize, clock: Arc<dyn Clock>) -> Vec<Box<dyn Stage>> {
    let policy = Policy {
        flows,
        ..Policy::default()
    };
    let rules = Arc::new(Rules::read(rules).expect("rules"));
    let firewall = Firewall::new(rules, policy, clock).expect("a firewall");
    let on = bridge(vec![1, 0], Addresses::Kept);
    vec![Box::new(firewall), Box::new(on)]
}

/// Calls `test` with a tester around these stages, on this thread, whose connections are over when their clock is put forward.
fn with<T>(
    profile: &Profile,
    stages: impl FnOnce(Arc<dyn Clock>) -> Vec<Box<dyn Stage>> + Send + 'static,
    test: impl FnOnce(&mut Tester<'_>) -> T,
) -> T {
    let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
    let ahead = Arc::new(AheadClock::new(Arc::clone(&clock)));
    let ([mut from, input], [output, mut to]) = (pair_of(1024), pair_of(1024));
    let of_program = Arc::clone(&ahead) as Arc<dyn Clock>;
    let make: Make = Box::new(move || {
        let line = Line::new("stages", stages(of_program), 4);
        let ports = [input, output].map(|port| Box::new(port) as Box<dyn PacketPort>);
        let shard = Shard::new("shard", ports.into(), line, 32, WhenFull::Hold);
        Ok(Box::new(shard) as Box<dyn Work>)
    });
    let mut system = Hosted::inline(vec![("shard".to_owned(), make)]).expect("a shard");
    let between = Between {
        from: &mut from as &mut dyn PacketPort,
        to: &mut to as &mut dyn PacketPort,
        system: &mut system,
    };
    let forgetting = Forgetting {
        call: Box::new(move || {
            ahead.put_forward(10 * MINUTE_NS);
            Ok(())
        }),
        answers: 64,
    };
    let tester = Tester::new(profile, 1 << 12, TIMING, &*clock, between, forgetting);
    test(&mut tester.expect("a profile"))
}

/// What is found is what the table was made for, to the last connection, whatever a NAT makes of addresses.
#[test]
fn capacity_is_that_of_the_table() {
    let found = Capacity {
        lower: 300,
        upper: Some(301),
    };
    let over_v6 = Profile {
        ipv6_share: 1.0,
        sizes: Sizes::Fixed(90),
        ..Profile::new(2)
    };
    let from_clients = |clock| {
        let rules = "allow udp from 2001:2:0:1::/64\ndefault deny\n";
        firewall(rules, 300, clock)
    };
    let search = |tester: &mut Tester<'_>| capacity(tester, FILL, 1 << 12, 1e-6).expect("found");
    assert_eq!(
        with(&Profile::new(1), |clock| nat(300, clock), search),
        found
    );
    assert_eq!(with(&over_v6, from_clients, search), found);
}

#[test]
fn all_connections_are_torn_down_and_made_again() {
    let plan = Fill {
        connections: 1000,
        ..FILL
    };
    with(
        &Profile::new(1),
        |clock| nat(1000, clock),
        |tester| {
            for _ in 0..3 {
                let rate = tear_down_rate(tester, plan).expect("all are forgotten");
                assert!(rate > 0.0 && rate.is_finite(), "{rate}");
                // Answers on what is over were dropped by the NAT, for a reason that it counts.
                let last = tester.last().expect("answers");
                assert_eq!((last.account.offered, last.account.delivered), (1000, 0));
                assert_eq!(last.account.drops.packets(), 1000);
            }
            // A trial over connections that there are begins none.
            fill_all(tester, plan).expect("room");
            let input = TrialInput {
                load: 1e6,
                duration_s: 0.003,
            };
            let output = tester.trial(0..1000, input).expect("a trial");
            assert_eq!(output.expect("in time").loss_ratio, 0.0);
            let known = tester.answer(0..1000, 1e6).expect("answers");
            assert_eq!(known, Some(1000));
        },
    );
}

/// A system that lets the responder begin connections would be taken for one that knows them all.
#[test]
fn a_system_without_a_table_has_no_figures() {
    let anybody = |clock| firewall("default allow\n", 1000, clock);
    let found = with(&Profile::new(1), anybody, |tester| {
        tear_down_rate(tester, FILL)
    });
    assert!(
        matches!(
            found,
            Err(StatefulError::System(TesterError::LetThrough(16)))
        ),
        "{found:?}"
    );
    let no_table = |_| vec![Box::new(bridge(vec![1, 0], Addresses::Kept)) as Box<dyn Stage>];
    let found = with(&Profile::new(1), no_table, |tester| {
        capacity(tester, FILL, 1 << 12, 0.1)
    });
    assert!(
        matches!(
            found,
            Err(StatefulError::System(TesterError::LetThrough(16)))
        ),
        "{found:?}"
    );
}

/// A system elsewhere, which is told to forget: no answer has to wake it up.
#[test]
fn a_system_elsewhere_is_told_to_forget() {
    let clock = WallClock::default();
    let ([mut from, mut input], [mut output, mut to]) = (pair_of(1024), pair_of(1024));
    let told = Cell::new(0);
    let mut held = (Vec::new(), std::collections::VecDeque::new());
    // Packets go both ways, and none is dropped.
    let step = || {
        let (there, back) = (&mut input, &mut output);
        there.receive(&mut held.0, 64).expect("memory");
        held.1.extend(held.0.drain(..));
        back.send(&mut held.1).expect("memory");
        back.receive(&mut held.0, 64).expect("memory");
        held.1.extend(held.0.drain(..));
        there.send(&mut held.1).expect("memory");
    };
    let mut system = (step, || Drops::default());
    let between = Between {
        from: &mut from as &mut dyn PacketPort,
        to: &mut to as &mut dyn PacketPort,
        system: &mut system as &mut dyn SystemUnderTest,
    };
    let forgetting = Forgetting {
        call: Box::new(|| {
            told.set(told.get() + 1);
            match told.get() {
                9 => Err(std::io::Error::other("no more")),
                _ => Ok(()),
            }
        }),
        answers: 0,
    };
    let tester = Tester::new(&Profile::new(1), 32, TIMING, &clock, between, forgetting);
    let mut tester = tester.expect("a profile");
    let found = tear_down_rate(&mut tester, FILL);
    assert!(
        matches!(found, Err(StatefulError::NotForgotten(16))),
        "{found:?}"
    );
    assert_eq!(told.get(), 2);
    let found = capacity(&mut tester, FILL, 64, 0.1);
    assert!(
        matches!(
            found,
            Err(StatefulError::System(TesterError::Connections {
                wanted: 64,
                count: 32
            }))
        ),
        "{found:?}"
    );
    told.set(8);
    let error = tester.tear_down().expect_err("no more");
    assert!(matches!(error, TesterError::Forget(_)), "{error:?}");
}
