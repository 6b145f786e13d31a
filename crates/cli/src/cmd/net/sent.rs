//! What `generate` and `replay` share: sending into a port when packets are due, and the account of it.

use std::sync::Arc;

use dpb_core::port::PortStats;
use dpb_core::{Clock, PacketPort, VirtualClock, WallClock};
use dpb_net::port::{Capture, Dates};
use dpb_net::traffic::Traffic;
use dpb_net::trial::{Sending, Sent, TrialError, Validity, send};
use serde::Serialize;

use super::ports::PortName;
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, percent, short, short_ns};
use crate::{Globals, interrupt};

/// What was sent, as it is printed.
#[derive(Debug, Serialize)]
struct Account {
    port: String,
    /// Packets that were due.
    offered: u64,
    /// Of those, packets that the port did not take in time.
    refused: u64,
    /// Packets that it took, and their bytes without check sequence.
    taken: u64,
    taken_bytes: u64,
    /// Of those, packets that were handed on: to the kernel, the device, the file.
    sent: u64,
    /// And those that were lost in the port.
    lost: u64,
    /// The time for which packets were due, which is that of the schedule: longer than until the last of them, unless that was late.
    seconds: f64,
    /// Packets taken in that time.
    packets_per_s: f64,
    /// How long after their departures packets were offered to the port. Nothing where time is not the host's.
    schedule_error_ns_p50: Option<u64>,
    schedule_error_ns_p99: Option<u64>,
    schedule_error_ns_max: Option<u64>,
    /// Packets that were offered later than the tolerance.
    late: u64,
    /// True if no more packets were late than may be, none was refused or lost, and no interrupt came before the end.
    is_as_asked: bool,
}

/// A port that packets are sent into, and the clock by which they are due.
pub(super) struct Outlet {
    name: PortName,
    sink: Sink,
    clock: Arc<dyn Clock>,
}

#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
enum Sink {
    /// Nothing but this program moves the clock: packets go into a file with the dates of their departures, as fast as they can be written.
    File(Capture, Arc<VirtualClock>),
    Port(Box<dyn PacketPort>),
}

impl Outlet {
    /// Opens the port.
    ///
    /// # Errors
    /// Exit 2 for a file that is read; exit 3 with the port's reason.
    pub(super) fn open(name: &PortName) -> Result<Self, Failure> {
        let PortName::Capture { read, write } = name else {
            let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
            return Ok(Self {
                name: name.clone(),
                sink: Sink::Port(name.open(&clock)?),
                clock,
            });
        };
        let (None, Some(path)) = (read, write) else {
            return Err(Failure::usage(format!(
                "--port {name}: packets are sent into a file with capture:,FILE"
            )));
        };
        let moved = Arc::new(VirtualClock::new(true));
        let clock: Arc<dyn Clock> = moved.clone();
        let dates = Dates {
            clock: Arc::clone(&clock),
            start_ns: 0,
        };
        let capture = Capture::open(None, Some((path, dates)))
            .map_err(|why| Failure::unavailable(format!("port {name}: {why}")))?;
        Ok(Self {
            name: name.clone(),
            sink: Sink::File(capture, moved),
            clock,
        })
    }

    /// Sends, and prints the account.
    ///
    /// # Errors
    /// If the port fails; exit 1 if the generator was late, or the port refused or lost packets; exit 130 after an interrupt.
    pub(super) fn send<T: Traffic + ?Sized>(
        mut self,
        traffic: &T,
        departures: impl Iterator<Item = u64>,
        plan: &Sending,
        globals: &Globals,
    ) -> Result<(), Failure> {
        interrupt::flag();
        let (port, moved): (&mut dyn PacketPort, _) = match &mut self.sink {
            Sink::File(capture, clock) => (capture, Some(Arc::clone(clock))),
            Sink::Port(port) => (&mut **port, None),
        };
        let mut turns = 0u64;
        let mut step = |due_ns: Option<u64>| {
            if let (Some(clock), Some(due_ns)) = (&moved, due_ns) {
                clock.advance_to(due_ns);
            }
            turns += 1;
            // The flag is another core's; now and then is often enough.
            !turns.is_multiple_of(64) || !interrupt::is_set()
        };
        let sent = send(plan, departures, traffic, &*self.clock, port, &mut step);
        let sent = sent.map_err(|why| match why {
            TrialError::TooLong { .. } => Failure::usage(format!("--port {}: {why}", self.name)),
            why => Failure::from(anyhow::Error::from(why)),
        })?;
        let account = self.account(&sent, plan)?;
        account.print(globals)?;
        account.judge(&sent)
    }

    /// The counts, when what the port holds has gone on its way.
    fn account(&mut self, sent: &Sent, plan: &Sending) -> Result<Account, Failure> {
        let is_real = matches!(self.sink, Sink::Port(_));
        let stats = match &mut self.sink {
            Sink::File(capture, _) => {
                let flushed = capture.flush();
                flushed.map_err(|why| Failure::check(format!("port {}: {why}", self.name)))?;
                capture.stats()
            }
            Sink::Port(port) => settled(&mut **port, &*self.clock),
        };
        let errors = &sent.schedule_errors;
        let error = |share: f64| is_real.then(|| errors.percentile_ns(share));
        let is_interrupted = interrupt::is_set();
        let seconds = seconds(sent, plan, is_interrupted);
        let lost = stats.send_lost.total();
        Ok(Account {
            port: self.name.to_string(),
            offered: sent.offered,
            refused: sent.refused,
            taken: stats.taken.packets,
            taken_bytes: stats.taken.bytes,
            sent: stats.sent.packets,
            lost,
            seconds,
            packets_per_s: match seconds > 0.0 {
                true => stats.taken.packets as f64 / seconds,
                false => 0.0,
            },
            schedule_error_ns_p50: error(0.5),
            schedule_error_ns_p99: error(0.99),
            schedule_error_ns_max: is_real.then(|| errors.max_ns()),
            late: sent.late,
            is_as_asked: sent.validity == Validity::Valid
                && sent.refused == 0
                && lost == 0
                && !is_interrupted,
        })
    }
}

/// The seconds for which the packets that were offered were due. A packet's time ends with the next one's departure, the last one's too: so many packets take so many gaps of the mean
/// rate, or what is left of the duration that cut them off.
fn seconds(sent: &Sent, plan: &Sending, is_interrupted: bool) -> f64 {
    let took = sent.took_ns as f64 / 1e9;
    if is_interrupted {
        return took;
    }
    let due = match sent.is_cut {
        true => plan.duration_ns as f64 / 1e9,
        false if plan.packets_per_s > 0.0 => sent.offered as f64 / plan.packets_per_s,
        false => 0.0,
    };
    took.max(due)
}

/// What a port has counted when nothing is in flight any more, or after a while.
fn settled(port: &mut dyn PacketPort, clock: &dyn Clock) -> PortStats {
    const PATIENCE_NS: u64 = 200_000_000;
    let start_ns = clock.now_ns();
    let mut came = Vec::new();
    loop {
        let stats = port.stats();
        if stats.in_flight() == 0 || clock.now_ns() - start_ns > PATIENCE_NS {
            return stats;
        }
        // Ports move what they hold when they are looked at; an error of what comes is nothing to a sender.
        let _ = port.receive(&mut came, 64);
        came.clear();
    }
}

impl Account {
    fn print(&self, globals: &Globals) -> Result<(), Failure> {
        match globals.format() {
            Format::Json => output::print_json(self),
            Format::Table => output::print(&self.table().to_text()),
            Format::Markdown => output::print(&self.table().to_markdown()),
            Format::Csv => output::print(&self.table().to_csv()),
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::left("port"),
            Column::right("offered"),
            Column::right("refused"),
            Column::right("sent"),
            Column::right("lost"),
            Column::right("time"),
            Column::right("packets/s"),
            Column::right("late by p99"),
            Column::right("late"),
        ]);
        let late = self.late as f64 / self.offered.max(1) as f64;
        table.row([
            self.port.clone(),
            self.offered.to_string(),
            self.refused.to_string(),
            self.sent.to_string(),
            self.lost.to_string(),
            short_ns(self.seconds * 1e9),
            short(self.packets_per_s),
            self.schedule_error_ns_p99
                .map_or("-".to_owned(), |ns| short_ns(ns as f64)),
            percent(late),
        ]);
        table
    }

    fn judge(&self, sent: &Sent) -> Result<(), Failure> {
        if interrupt::is_set() {
            return Err(Failure::interrupted(format!(
                "interrupted after {} packets",
                self.offered
            )));
        }
        if let Validity::Late { packets, allowed } = sent.validity {
            return Err(Failure::check(format!(
                "the generator was late: {packets} of {} packets were offered after their time, and {allowed} may be; lower the rate, or give it a core \
                 of its own",
                self.offered
            )));
        }
        match self.is_as_asked {
            true => Ok(()),
            false => Err(Failure::check(format!(
                "port {} refused {} packets and lost {}: it cannot send as fast",
                self.port, self.refused, self.lost
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::measure::latency::Latencies;

    use super::*;

    fn sent(offered: u64, took_ns: u64, is_cut: bool) -> Sent {
        Sent {
            offered,
            refused: 0,
            schedule_errors: Latencies::default(),
            late: 0,
            validity: Validity::Valid,
            took_ns,
            is_cut,
        }
    }

    #[test]
    fn a_rate_is_that_of_the_time_for_which_packets_were_due() {
        let plan = Sending {
            packets_per_s: 1000.0,
            duration_ns: 2_000_000_000,
            tolerance_ns: 10_000,
            seed: 1,
        };
        // A burst of 32 is a thirty-second part of a second's packets, however fast it left.
        assert_eq!(seconds(&sent(32, 5000, false), &plan, false), 0.032);
        // The duration ended it, whatever its last burst was.
        assert_eq!(seconds(&sent(1990, 1_900_000_000, true), &plan, false), 2.0);
        // It was late.
        assert_eq!(seconds(&sent(32, 90_000_000, false), &plan, false), 0.09);
        // It was ended before.
        assert_eq!(seconds(&sent(500, 500_000_000, false), &plan, true), 0.5);
        let alone = Sending {
            packets_per_s: 0.0,
            ..plan
        };
        assert_eq!(seconds(&sent(1, 0, false), &alone, false), 0.0);
    }
}
