//! The non-drop rate of one system, found twice: trials of real packets, in virtual time, under a whole search.
//!
//! The system forwards a known number of packets a second, has room for a few, and stands still now and then as software does. So one trial says
//! little, and the search has to find the same rate again.

use std::collections::VecDeque;
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::{Buf, Clock, PacketPort, VirtualClock};
use dpb_net::port::pair_of;
use dpb_net::search::{Goal, GoalResult, Settings, search};
use dpb_net::traffic::{Generator, Profile, Schedule};
use dpb_net::trial::{Between, Drops, Plan, Trials};

/// Packets a second that the system forwards while it does not stand still.
const KNEE: f64 = 5_000.0;
/// Packets that it has room for.
const ROOM: usize = 8;
/// The time between two turns of a trial's loop.
const TURN_NS: u64 = 40_000;
/// It stands still for so long, after so long on average.
const PAUSE_NS: u64 = 20_000_000;
const BETWEEN_PAUSES_NS: f64 = 4e9;

/// A system between two ports, driven by the trial's loop.
struct System<P> {
    input: P,
    output: P,
    clock: Arc<VirtualClock>,
    random: SplitMix64,
    /// Packets that it may forward by now, less those that it has.
    credit: f64,
    pause_ns: u64,
    came: Vec<Buf>,
    ready: VecDeque<Buf>,
}

impl<P: PacketPort> System<P> {
    fn turn(&mut self) {
        let now_ns = self.clock.now_ns() + TURN_NS;
        self.clock.advance_to(now_ns);
        if now_ns >= self.pause_ns + PAUSE_NS {
            self.pause_ns = now_ns + self.random.exponential(BETWEEN_PAUSES_NS) as u64;
        }
        if now_ns >= self.pause_ns {
            return;
        }
        self.credit += KNEE * TURN_NS as f64 / 1e9;
        while self.credit >= 1.0 {
            let came = self.input.receive(&mut self.came, 1).expect("memory");
            if came == 0 {
                // An idle system saves nothing up.
                self.credit = 1.0;
                break;
            }
            self.credit -= 1.0;
            self.ready.extend(self.came.drain(..));
        }
        self.output.send(&mut self.ready).expect("memory");
    }
}

fn non_drop_rate(seed: u64) -> GoalResult {
    let clock = Arc::new(VirtualClock::new(true));
    let ([mut from, input], [output, mut to]) = (pair_of(ROOM), pair_of(4096));
    let mut random = SplitMix64::new(seed);
    let mut system = System {
        input,
        output,
        clock: clock.clone(),
        credit: 0.0,
        pause_ns: random.exponential(BETWEEN_PAUSES_NS) as u64,
        random,
        came: Vec::new(),
        ready: VecDeque::new(),
    };
    let generator = Generator::new(&Profile::new(seed)).expect("a profile");
    let plan = Plan {
        // A turn late is in time.
        tolerance_ns: TURN_NS,
        ..Plan::new(Schedule::constant(1.0), 1, seed)
    };
    // What does not arrive was refused: the system drops nothing by itself.
    let drops = || Drops {
        reasons: Vec::new(),
        are_complete: true,
    };
    let mut system = (|| system.turn(), drops);
    let between = Between {
        from: &mut from,
        to: &mut to,
        system: &mut system,
    };
    let mut trials = Trials::new(plan, &generator, &*clock, between);
    let settings = Settings {
        duration_max_s: 60.0,
        ..Settings::between(1000.0, 20_000.0)
    };
    let found = search(&[Goal::NDR], &settings, &mut trials).expect("found");
    assert_eq!(found.invalid, 0);
    found.results[0]
}

#[test]
fn one_system_has_one_non_drop_rate() {
    let rates: Vec<f64> = (0..8)
        .map(|seed| {
            let result = non_drop_rate(seed);
            assert_eq!(result.irregular, None, "{result:?}");
            let (lower, upper) = (
                result.lower.expect("regular"),
                result.upper.expect("regular"),
            );
            // What a trial of a second leaves in the system's room is forwarded behind it.
            let most = KNEE + ROOM as f64 + 1.0;
            assert!(lower <= most && upper >= KNEE, "{result:?}");
            result.throughput.expect("regular")
        })
        .collect();
    for pair in rates.chunks_exact(2) {
        let apart = (pair[0] / pair[1] - 1.0).abs();
        assert!(apart <= Goal::NDR.width, "{} and {}", pair[0], pair[1]);
    }
}
