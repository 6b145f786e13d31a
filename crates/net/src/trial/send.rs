//! Traffic one way: packets are sent when they are due, and what becomes of them behind the port is for others to count.

use dpb_core::measure::latency::Latencies;
use dpb_core::{Clock, PacketPort};

use super::error::{check_length, failed};
use super::run::{BURST, LEAD_NS};
use super::sender::{Sender, Watcher};
use super::{Pool, TrialError, Validity};
use crate::traffic::{DEPARTURES_NS, Pacer, StampKey, Traffic};

/// How packets are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sending {
    /// The mean rate of the departures: it says how many packets may be late.
    pub packets_per_s: f64,
    /// Packets that are due later are not sent.
    pub duration_ns: u64,
    /// See [`Plan::tolerance_ns`](super::Plan::tolerance_ns).
    pub tolerance_ns: u64,
    /// Determines the stamps.
    pub seed: u64,
}

/// What was sent.
#[derive(Debug)]
pub struct Sent {
    /// Packets that were due.
    pub offered: u64,
    /// Of those, packets that the port did not take in time. It took all others.
    pub refused: u64,
    /// How long after their departures packets were offered to the port.
    pub schedule_errors: Latencies,
    /// Packets of which that was longer than the tolerance.
    pub late: u64,
    /// What they are worth.
    pub validity: Validity,
    /// The time from the start to the last packet.
    pub took_ns: u64,
    /// True if packets were due behind the duration, which ended it.
    pub is_cut: bool,
}

#[derive(Default)]
struct Counts {
    offered: u64,
    refused: u64,
}

impl Watcher for Counts {
    fn offered(&mut self) {
        self.offered += 1;
    }

    fn refused(&mut self, _: u64) {
        self.refused += 1;
    }
}

/// Sends `traffic` into a port at these `departures`, in nanoseconds from the start. What arrives at the port is thrown away.
///
/// `step` is called in each turn with the time, by `clock`, at which the next packet is due: who has a virtual clock moves it there. Sending ends when there
/// is nothing more to be sent, or when `step` says false.
///
/// # Errors
/// [`TrialError`].
pub fn send<T, P>(
    plan: &Sending,
    departures: impl Iterator<Item = u64>,
    traffic: &T,
    clock: &dyn Clock,
    port: &mut P,
    step: &mut dyn FnMut(Option<u64>) -> bool,
) -> Result<Sent, TrialError>
where
    T: Traffic + ?Sized,
    P: PacketPort + ?Sized,
{
    check_length(traffic, port)?;
    let start_ns = clock.now_ns() + LEAD_NS;
    let end_ns = plan.duration_ns.min(DEPARTURES_NS);
    let pacer = Pacer::new(departures, start_ns, end_ns, plan.tolerance_ns);
    let key = StampKey::new(plan.seed, 0);
    let mut sender = Sender::new(traffic, key, pacer, Pool::default(), plan.tolerance_ns);
    let mut counts = Counts::default();
    let mut came = Vec::with_capacity(BURST);
    sender.make(port)?;
    while clock.now_ns() < start_ns && step(Some(start_ns)) {}
    let took_ns = loop {
        sender.make(port)?;
        let now_ns = sender.pacer().elapsed_ns(clock);
        sender.send(port, &mut counts, now_ns)?;
        let received = port.receive(&mut came, BURST);
        received.map_err(|source| failed(port, source))?;
        came.drain(..).for_each(|frame| sender.give(frame));
        let due_ns = sender.next_due_ns().map(|due_ns| start_ns + due_ns);
        if sender.is_done() {
            break now_ns;
        }
        if !step(due_ns) {
            sender.refuse_all(&mut counts);
            break now_ns;
        }
    };
    let (late, is_cut) = (sender.pacer().late(), sender.pacer().is_cut());
    let (_, schedule_errors, validity) = sender.finish(plan.packets_per_s);
    Ok(Sent {
        offered: counts.offered,
        refused: counts.refused,
        schedule_errors,
        late,
        validity,
        took_ns,
        is_cut,
    })
}

#[cfg(test)]
mod tests {
    use dpb_core::{Buf, VirtualClock};

    use super::*;
    use crate::port::{End, pair_of};
    use crate::traffic::{Generator, Profile, Read, Replay, Rewrite, Schedule};

    const PLAN: Sending = Sending {
        packets_per_s: 1e6,
        duration_ns: 1_000_000,
        tolerance_ns: 10_000,
        seed: 3,
    };

    /// What came at the other end, and when it was seen.
    struct Seen {
        end: End,
        came: Vec<(u64, Buf)>,
    }

    impl Seen {
        fn look(&mut self, now_ns: u64) {
            let mut came = Vec::new();
            self.end.receive(&mut came, 64).expect("memory");
            self.came
                .extend(came.into_iter().map(|packet| (now_ns, packet)));
        }
    }

    /// Packets are numbered, stamped, and seen when they were due, by a clock that moves from one departure to the next.
    #[test]
    fn packets_leave_when_they_are_due() {
        let generator = Generator::new(&Profile::new(1)).expect("a profile");
        let clock = VirtualClock::new(true);
        let [mut port, end] = pair_of(64);
        let mut seen = Seen {
            end,
            came: Vec::new(),
        };
        let departures = Schedule::constant(1e6).departures().expect("a schedule");
        let mut step = |due_ns: Option<u64>| {
            seen.look(clock.now_ns());
            due_ns.inspect(|due_ns| clock.advance_to(*due_ns));
            true
        };
        let sent = send(&PLAN, departures, &generator, &clock, &mut port, &mut step);
        let sent = sent.expect("room");
        seen.look(clock.now_ns());
        assert_eq!((sent.offered, sent.refused), (1000, 0));
        assert_eq!((sent.validity, sent.took_ns), (Validity::Valid, 999_000));
        assert_eq!((sent.late, sent.is_cut), (0, true));
        assert_eq!(seen.came.len(), 1000);
        let key = StampKey::new(PLAN.seed, 0);
        for (i, (at_ns, packet)) in (0..).zip(&seen.came) {
            let Read::Stamp(stamp) = key.read(packet) else {
                panic!("packet {i} has no stamp");
            };
            assert_eq!((stamp.number, stamp.departure_ns), (i, i * 1000));
            assert_eq!(*at_ns, LEAD_NS + i * 1000);
        }
    }

    #[test]
    fn what_finds_no_room_in_time_is_refused() {
        let generator = Generator::new(&Profile::new(1)).expect("a profile");
        let clock = VirtualClock::new(true);
        let [mut port, _end] = pair_of(100);
        let departures = Schedule::constant(1e6).departures().expect("a schedule");
        let mut step = |_| {
            clock.advance_to(clock.now_ns() + 1000);
            true
        };
        let sent = send(&PLAN, departures, &generator, &clock, &mut port, &mut step);
        let sent = sent.expect("a port");
        assert_eq!((sent.offered, sent.refused), (1000, 900));
        // Tried for 10 us, which is in time.
        assert_eq!(sent.validity, Validity::Valid);
        assert_eq!(port.stats().taken.packets, 100);
    }

    #[test]
    fn a_sender_that_stands_still_is_late_and_one_that_is_told_to_ends() {
        let generator = Generator::new(&Profile::new(1)).expect("a profile");
        let clock = VirtualClock::new(true);
        let [mut port, _end] = pair_of(4096);
        let departures = || Schedule::constant(1e6).departures().expect("a schedule");
        let mut step = |_| {
            clock.advance_to(clock.now_ns() + 50_000);
            true
        };
        let sent = send(
            &PLAN,
            departures(),
            &generator,
            &clock,
            &mut port,
            &mut step,
        );
        let sent = sent.expect("room");
        assert!(
            matches!(sent.validity, Validity::Late { packets, allowed: 10 } if packets > 500 && packets == sent.late),
            "{sent:?}"
        );
        // A few packets may be late, and are counted as such.
        let mut turns = 0;
        let mut step = |due_ns: Option<u64>| {
            turns += 1;
            match turns {
                200 => clock.advance_to(clock.now_ns() + 15_000),
                _ => {
                    due_ns.inspect(|due_ns| clock.advance_to(*due_ns));
                }
            }
            true
        };
        let few = departures().take(900);
        let sent = send(&PLAN, few, &generator, &clock, &mut port, &mut step).expect("room");
        assert_eq!((sent.validity, sent.is_cut), (Validity::Valid, false));
        assert!((1..=10).contains(&sent.late), "{sent:?}");
        let mut turns = 0;
        let mut step = |due_ns: Option<u64>| {
            due_ns.inspect(|due_ns| clock.advance_to(*due_ns));
            turns += 1;
            turns < 101
        };
        let sent = send(
            &PLAN,
            departures(),
            &generator,
            &clock,
            &mut port,
            &mut step,
        );
        let offered = sent.expect("room").offered;
        assert!((99..=101).contains(&offered), "{offered}");
    }

    /// Without stamps a capture arrives byte by byte, at its own times.
    #[test]
    fn a_capture_arrives_as_it_was() {
        let captured: Vec<(u64, Vec<u8>)> = (0..20u8)
            .map(|i| {
                (
                    u64::from(i) * u64::from(i) * 1000,
                    vec![i; 14 + usize::from(i)],
                )
            })
            .collect();
        let replay = Replay::new(captured.clone(), Rewrite::Nothing).expect("packets");
        let replay = replay.without_stamps();
        let clock = VirtualClock::new(true);
        let [mut port, end] = pair_of(64);
        let mut seen = Seen {
            end,
            came: Vec::new(),
        };
        let mut step = |due_ns: Option<u64>| {
            seen.look(clock.now_ns());
            due_ns.inspect(|due_ns| clock.advance_to(*due_ns));
            true
        };
        let departures = (0..20).map(|i| replay.departure_ns(i, 1.0));
        let sent = send(&PLAN, departures, &replay, &clock, &mut port, &mut step);
        assert_eq!(sent.expect("room").offered, 20);
        seen.look(clock.now_ns());
        let came = seen
            .came
            .iter()
            .map(|(at_ns, packet)| (at_ns - LEAD_NS, packet.to_vec()));
        assert!(came.eq(captured));
    }
}
