//! What `generate` and `replay` share: sending into a port when packets are due, and the account of it.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use dpb_core::{Clock, PacketPort, VirtualClock, WallClock};
use dpb_net::traffic::Traffic;
use dpb_net::trial::{Sending, Sent, Validity, send};
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
    /// Seconds from the first departure on.
    seconds: f64,
    packets_per_s: f64,
    /// How long after their departures packets were offered to the port. Nothing where time is not the host's.
    schedule_error_ns_p50: Option<u64>,
    schedule_error_ns_p99: Option<u64>,
    schedule_error_ns_max: Option<u64>,
    /// Packets that were offered too late.
    late: u64,
    /// True if no more packets were late than may be, and none was refused or lost.
    is_as_asked: bool,
}

/// A port that packets are sent into, and the clock by which they are due.
pub(super) struct Outlet {
    name: PortName,
    port: Box<dyn PacketPort>,
    clock: Arc<dyn Clock>,
    /// The same clock, where nothing but this program moves it: into a file packets go with the dates of their departures, as fast as they can be written.
    unreal: Option<Arc<VirtualClock>>,
}

impl Outlet {
    /// Opens the port.
    ///
    /// # Errors
    /// Exit 2 for a file that is read; exit 3 with the port's reason.
    pub(super) fn open(name: &PortName) -> Result<Self, Failure> {
        let unreal = match name {
            PortName::Capture { read: Some(_), .. } | PortName::Capture { write: None, .. } => {
                return Err(Failure::usage(format!(
                    "--port {name}: packets are sent into a file with capture:,FILE"
                )));
            }
            PortName::Capture { .. } => Some(Arc::new(VirtualClock::new(true))),
            _ => None,
        };
        let clock: Arc<dyn Clock> = match &unreal {
            Some(clock) => Arc::clone(clock) as Arc<dyn Clock>,
            None => Arc::new(WallClock::default()),
        };
        Ok(Self {
            name: name.clone(),
            port: name.open(&clock)?,
            clock,
            unreal,
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
        let (clock, unreal) = (Arc::clone(&self.clock), self.unreal.clone());
        let turns = Cell::new(0u64);
        let mut step = |due_ns: Option<u64>| {
            if let (Some(clock), Some(due_ns)) = (&unreal, due_ns) {
                clock.advance_to(due_ns);
            }
            turns.set(turns.get() + 1);
            // The flag is another core's; now and then is often enough.
            turns.get() % 64 != 0 || !interrupt::is_set()
        };
        let sent = send(
            plan,
            departures,
            traffic,
            &*clock,
            &mut *self.port,
            &mut step,
        );
        let sent = sent.map_err(|why| match anyhow::Error::from(why) {
            why if why.is::<std::io::Error>() => Failure::unavailable(format!("{why:#}")),
            why => Failure::from(why),
        })?;
        self.settle();
        let account = self.account(&sent);
        self.close()?;
        account.print(globals)?;
        account.judge(&sent)
    }

    /// What a port holds still goes on its way while it is asked for.
    fn settle(&mut self) {
        const PATIENCE_NS: u64 = 200_000_000;
        let start_ns = self.clock.now_ns();
        let mut came = Vec::new();
        while self.unreal.is_none()
            && self.port.stats().in_flight() > 0
            && self.clock.now_ns() - start_ns < PATIENCE_NS
        {
            // Ports move what they hold when they are looked at; an error of what comes is nothing to a sender.
            let _ = self.port.receive(&mut came, 64);
            came.clear();
        }
    }

    fn account(&mut self, sent: &Sent) -> Account {
        let stats = self.port.stats();
        let errors = &sent.schedule_errors;
        let is_real = self.unreal.is_none();
        let error = |share: f64| is_real.then(|| errors.percentile_ns(share));
        let seconds = sent.took_ns as f64 / 1e9;
        let late = match sent.validity {
            Validity::Late { packets, .. } => packets,
            Validity::Valid => 0,
        };
        let lost = stats.send_lost.total();
        Account {
            port: self.name.to_string(),
            offered: sent.offered,
            refused: sent.refused,
            taken: stats.taken.packets,
            taken_bytes: stats.taken.bytes,
            sent: stats.sent.packets,
            lost,
            seconds,
            packets_per_s: match sent.took_ns {
                0 => 0.0,
                _ => stats.taken.packets as f64 / seconds,
            },
            schedule_error_ns_p50: error(0.5),
            schedule_error_ns_p99: error(0.99),
            schedule_error_ns_max: is_real.then(|| errors.max_ns()),
            late,
            is_as_asked: late == 0 && sent.refused == 0 && lost == 0,
        }
    }

    /// Files are whole when a port is gone.
    fn close(self) -> Result<(), Failure> {
        let Self { name, port, .. } = self;
        drop(port);
        let PortName::Capture {
            write: Some(path), ..
        } = name
        else {
            return Ok(());
        };
        let is_there = file_is_there(&path);
        is_there
            .then_some(())
            .ok_or_else(|| Failure::check(format!("{} was not written", path.display())))
    }
}

fn file_is_there(path: &PathBuf) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
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
