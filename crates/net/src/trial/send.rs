//! Traffic one way: packets are sent when they are due, and what becomes of them behind the port is for others to count.

use dpb_core::measure::latency::Latencies;
use dpb_core::{Clock, PacketPort};

use super::run::{BURST, LEAD_NS, check_length, failed};
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
    /// What they are worth.
    pub validity: Validity,
    /// How long it took.
    pub took_ns: u64,
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
    let (_, schedule_errors, validity) = sender.finish(plan.packets_per_s);
    Ok(Sent {
        offered: counts.offered,
        refused: counts.refused,
        schedule_errors,
        validity,
        took_ns,
    })
}
