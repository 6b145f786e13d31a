//! One trial: packets are sent when they are due, whatever came of those before, and what arrives is counted.

use dpb_core::measure::latency::Latencies;
use dpb_core::{Buf, Clock, PacketPort};

use super::error::{TrialError, Validity, check_length, failed};
use super::sender::Sender;
use super::{Account, Balance, FlowOrder, Latency, Order, Pool, Receiver, SystemUnderTest};
use crate::search::{Measurer, TrialInput, TrialOutput};
use crate::traffic::{DEPARTURES_NS, Departures, Pacer, Schedule, StampKey, Traffic};

/// How a trial is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Departures. A [search](Trials) changes the rate.
    pub schedule: Schedule,
    /// For so long packets are due.
    pub duration_ns: u64,
    /// For so long what is under way may still arrive, after the last packet was due and the last one was taken.
    pub settle_ns: u64,
    /// How long after its departure a packet may be offered, or tried again if the port is full. If more packets are later than are due in this time, the
    /// generator was late. CSIT's is 10 µs.
    pub tolerance_ns: u64,
    /// Determines the stamps, with `trial`.
    pub seed: u64,
    /// The number of the trial; trials that follow one another have different ones, so that none counts what another has left under way.
    pub trial: u64,
    /// True if the order within flows is watched as well, which takes some time for each packet.
    pub flow_order: bool,
}

impl Plan {
    /// A trial of this load: CSIT's tolerance, 50 ms for what is under way.
    pub fn new(schedule: Schedule, duration_ns: u64, seed: u64) -> Self {
        Self {
            schedule,
            duration_ns,
            settle_ns: 50_000_000,
            tolerance_ns: 10_000,
            seed,
            trial: 0,
            flow_order: false,
        }
    }
}

/// What a trial found.
#[derive(Debug)]
pub struct Outcome {
    /// All packets.
    pub account: Account,
    /// Their sum, which is right.
    pub balance: Balance,
    /// From intended departure to arrival.
    pub latency: Latency,
    /// Reordering of the whole stream.
    pub order: Order,
    /// Reordering within flows, if it was asked for.
    pub flow_order: Option<FlowOrder>,
    /// How long after their intended departures packets were offered to the port: the error of the schedule.
    pub schedule_errors: Latencies,
    /// What the trial is worth.
    pub validity: Validity,
    /// How long it took, with what was waited for.
    pub took_ns: u64,
}

/// The time from the call of [`run`] to the trial's start, in which its first frames are made.
pub const LEAD_NS: u64 = 200_000;
/// Longest time for which a system is waited for that has packets in its hands when its trial is over.
const DRAIN_NS: u64 = 10_000_000_000;
/// Packets that are received at once.
pub(super) const BURST: usize = 64;

/// What a trial is done with: two ports, and the system between them.
pub struct Between<'a, A: ?Sized, B: ?Sized> {
    /// Where packets are sent. What arrives there is thrown away.
    pub from: &'a mut A,
    /// Where they arrive.
    pub to: &'a mut B,
    /// The system.
    pub system: &'a mut dyn SystemUnderTest,
}

/// Does one trial: sends `traffic` into one port, and counts what comes out of the other. Buffers are taken from `pool`, and given back to it.
///
/// # Errors
/// [`TrialError`]; also if the packets do not add up.
pub fn run<T, A, B>(
    plan: &Plan,
    traffic: &T,
    clock: &dyn Clock,
    pool: &mut Pool,
    between: &mut Between<'_, A, B>,
) -> Result<Outcome, TrialError>
where
    T: Traffic + ?Sized,
    A: PacketPort + ?Sized,
    B: PacketPort + ?Sized,
{
    let Between { from, to, system } = between;
    if plan.duration_ns >= DEPARTURES_NS {
        return Err(TrialError::Duration(plan.duration_ns));
    }
    check_length(traffic, &**from)?;
    let departures = plan.schedule.departures()?;
    let key = StampKey::new(plan.seed, plan.trial);
    let start_ns = clock.now_ns() + LEAD_NS;
    let pacer = Pacer::new(departures, start_ns, plan.duration_ns, plan.tolerance_ns);
    let mut receiver = Receiver::new(traffic, key, start_ns, plan.flow_order);
    let buffers = std::mem::take(pool);
    let mut sender = Sender::new(traffic, key, pacer, buffers, plan.tolerance_ns);
    let mut came = Vec::with_capacity(BURST);
    sender.make(&mut **from)?;
    while clock.now_ns() < start_ns {
        system.turn().map_err(TrialError::System)?;
    }
    let took_ns = loop {
        sender.make(&mut **from)?;
        let now_ns = sender.pacer().elapsed_ns(clock);
        sender.send(&mut **from, &mut receiver, now_ns)?;
        take(&mut **to, &mut came)?;
        if !came.is_empty() {
            let now_ns = clock.now_ns();
            for frame in came.drain(..) {
                receiver.arrive(&frame, now_ns);
                sender.give(frame);
            }
        }
        take(&mut **from, &mut came)?;
        came.drain(..).for_each(|frame| sender.give(frame));
        system.turn().map_err(TrialError::System)?;
        let now_ns = sender.pacer().elapsed_ns(clock);
        let last_ns = plan.duration_ns.max(sender.last_taken_ns());
        if sender.is_done() && now_ns >= last_ns + plan.settle_ns {
            break now_ns;
        }
    };
    // What is under way still is late.
    let over_ns = clock.now_ns().saturating_add(DRAIN_NS);
    while !system.is_idle().map_err(TrialError::System)? && clock.now_ns() < over_ns {
        system.turn().map_err(TrialError::System)?;
        take_late(&mut **to, &mut came, &mut receiver, &mut sender)?;
    }
    while take_late(&mut **to, &mut came, &mut receiver, &mut sender)? > 0 {}
    let (used, schedule_errors, validity) = sender.finish(plan.schedule.packets_per_s());
    *pool = used;
    let (account, latency, order, flow_order) =
        receiver.finish(system.drops().map_err(TrialError::System)?);
    let balance = account.balance()?;
    Ok(Outcome {
        account,
        balance,
        latency,
        order,
        flow_order,
        schedule_errors,
        validity,
        took_ns,
    })
}

/// Receives a burst.
fn take<P: PacketPort + ?Sized>(port: &mut P, came: &mut Vec<Buf>) -> Result<(), TrialError> {
    let taken = port.receive(came, BURST);
    taken.map(|_| ()).map_err(|source| failed(port, source))
}

/// Receives a burst of packets that come too late; says how many.
fn take_late<T: Traffic + ?Sized, P: PacketPort + ?Sized>(
    port: &mut P,
    came: &mut Vec<Buf>,
    receiver: &mut Receiver<'_, T>,
    sender: &mut Sender<'_, T, Departures>,
) -> Result<usize, TrialError> {
    take(port, came)?;
    let count = came.len();
    for frame in came.drain(..) {
        receiver.late(&frame);
        sender.give(frame);
    }
    Ok(count)
}

/// Does the trials of a search between two ports: NDR, PDR and whatever else is looked for of what lies between.
pub struct Trials<'t, 'b, T: ?Sized, A: ?Sized, B: ?Sized> {
    plan: Plan,
    traffic: &'t T,
    clock: &'t dyn Clock,
    pool: Pool,
    between: Between<'b, A, B>,
    last: Option<Outcome>,
}

impl<'t, 'b, T, A, B> Trials<'t, 'b, T, A, B>
where
    T: Traffic + ?Sized,
    A: PacketPort + ?Sized,
    B: PacketPort + ?Sized,
{
    /// Trials as `plan` says, but for their load and duration, which the search gives; see [`run`].
    pub fn new(
        plan: Plan,
        traffic: &'t T,
        clock: &'t dyn Clock,
        between: Between<'b, A, B>,
    ) -> Self {
        Self {
            plan,
            traffic,
            clock,
            pool: Pool::default(),
            between,
            last: None,
        }
    }

    /// Does one trial; each has a number of its own.
    ///
    /// # Errors
    /// As [`run`].
    pub fn trial(&mut self, load: f64, duration_s: f64) -> Result<&Outcome, TrialError> {
        let plan = Plan {
            schedule: self.plan.schedule.at(load),
            duration_ns: (duration_s * 1e9) as u64,
            ..self.plan
        };
        self.plan.trial += 1;
        let outcome = run(
            &plan,
            self.traffic,
            self.clock,
            &mut self.pool,
            &mut self.between,
        )?;
        Ok(self.last.insert(outcome))
    }

    /// What the last trial found.
    pub fn last(&self) -> Option<&Outcome> {
        self.last.as_ref()
    }
}

impl<T, A, B> Measurer for Trials<'_, '_, T, A, B>
where
    T: Traffic + ?Sized,
    A: PacketPort + ?Sized,
    B: PacketPort + ?Sized,
{
    type Error = TrialError;

    fn measure(&mut self, input: TrialInput) -> Result<Option<TrialOutput>, TrialError> {
        let outcome = self.trial(input.load, input.duration_s)?;
        // A load below one packet in the whole time says nothing.
        if outcome.validity != Validity::Valid || outcome.balance.offered == 0 {
            return Ok(None);
        }
        Ok(Some(TrialOutput {
            loss_ratio: outcome.balance.loss_ratio(),
            effective_s: outcome.took_ns as f64 / 1e9,
        }))
    }
}
