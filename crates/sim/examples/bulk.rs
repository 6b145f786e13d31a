//! The speed of the simulation itself: transfers in bulk over TCP, at 10 Gbit/s with 1 µs a link. Hosts and cards cost no time, so that the wire is what binds.
//!
//! ```sh
//! cargo run --release -p dpb-sim --example bulk -- 1000
//! cargo run --release -p dpb-sim --example bulk -- 100 4
//! ```
//!
//! The first simulates so many milliseconds of two clients that send to a server through a switch. The second simulates so many racks of four hosts and a switch; the switches are joined to
//! the first by links of 40 Gbit/s, and each host sends to its neighbour in the rack and to a host of the next rack.
//!
//! `--cores 0,1` lets the threads keep to these cores. Each runs on one thread and on two, and prints for each what was transferred, the events, and the time that they took on this machine. Both must give the same results.

use std::net::Ipv4Addr;
use std::time::Instant;

use dpb_sim::kernel::{ComponentId, Kernel, MICROSECOND_PS, MILLISECOND_PS, Plan};
use dpb_sim::system::{
    Address, Application, Card, CardModel, Host, HostModel, Listening, Message, Opening, Switch,
    SwitchModel, Wire, WireModel, card, host,
};
use dpb_sim::tcp::Config;

/// More than a client can send in any run.
const ENDLESS_BYTES: u64 = 1 << 60;
const SERVER_PORT: u16 = 5001;
/// The hosts of a rack.
const RACK: usize = 4;

fn main() -> Result<(), String> {
    let mut given: Vec<String> = std::env::args().skip(1).collect();
    let mut cores = Vec::new();
    if let Some(at) = given.iter().position(|it| it == "--cores") {
        let list = given.drain(at..).nth(1).unwrap_or_default();
        let list: Result<Vec<u64>, String> = list.split(',').map(number).collect();
        cores = list?.into_iter().map(|it| it as usize).collect();
    }
    let given: Result<Vec<u64>, String> = given.iter().map(|it| number(it)).collect();
    let (milliseconds, layout) = match given?[..] {
        [] => (1000, Layout::clients()),
        [milliseconds] => (milliseconds, Layout::clients()),
        [milliseconds, racks @ 1..=60] => (milliseconds, Layout::racks(racks as usize)),
        _ => return Err("give the milliseconds, and a number of racks up to 60".to_owned()),
    };
    let end_ps = milliseconds * MILLISECOND_PS;
    let outcomes = [1, 2].map(|threads| run(&layout, threads, end_ps, &cores));
    let [alone, together] = outcomes;
    if alone? != together? {
        return Err("two threads gave another result than one".to_owned());
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, String> {
    let number = text.parse();
    number.map_err(|_| format!("`{text}` is not a number"))
}

/// Hosts, switches and transfers.
struct Layout {
    /// The switch of each host.
    switch_of: Vec<usize>,
    switches: usize,
    /// The hosts that each transfer leads from and to.
    transfers: Vec<(usize, usize)>,
}

impl Layout {
    /// Two clients and a server.
    fn clients() -> Self {
        Self {
            switch_of: vec![0; 3],
            switches: 1,
            transfers: vec![(1, 0), (2, 0)],
        }
    }

    fn racks(racks: usize) -> Self {
        let hosts = racks * RACK;
        let transfers =
            (0..hosts).flat_map(|host| [(host, host ^ 1), (host, (host + RACK) % hosts)]);
        Self {
            switch_of: (0..hosts).map(|host| host / RACK).collect(),
            switches: racks,
            transfers: transfers.filter(|(from, to)| from != to).collect(),
        }
    }

    fn hosts(&self) -> usize {
        self.switch_of.len()
    }

    /// The number of transfers that a host sends or receives: its share of the work. A frame is about five events at the host, five at its card, and at the switch one, of which
    /// each end counts a half.
    fn weight(&self, host: usize) -> u64 {
        let own = self.transfers.iter();
        own.filter(|&&(from, to)| from == host || to == host)
            .count() as u64
    }
}

/// The results of a run, by connection: the bytes that arrived and the segments that were sent again; and the events.
type Outcome = (Vec<u64>, Vec<u64>, u64);

fn run(layout: &Layout, threads: usize, end_ps: u64, cores: &[usize]) -> Result<Outcome, String> {
    let (mut kernel, hosts) = system(layout, threads).map_err(|wrong| wrong.to_string())?;
    kernel.keep_to(cores);
    let begin = Instant::now();
    kernel
        .run_until(end_ps)
        .map_err(|wrong| wrong.to_string())?;
    let seconds = begin.elapsed().as_secs_f64();
    let flows = |id| kernel.component::<Host>(id).map_or(&[][..], Host::flows);
    let all = || hosts.iter().flat_map(|&id| flows(id));
    let delivered: Vec<u64> = all().map(|it| it.endpoint.delivered_bytes()).collect();
    let again = all().map(|it| it.endpoint.sender().statistics().retransmissions);
    let again: Vec<u64> = again.collect();
    let bytes: u64 = delivered.iter().sum();
    let events = kernel.events();
    println!(
        "threads {}: {bytes} bytes ({:.3} Gbit/s simulated), sent again {}, {events} events, {seconds:.3} s, {:.0} events/s",
        kernel.threads(),
        bytes as f64 * 8000.0 / end_ps as f64,
        again.iter().sum::<u64>(),
        events as f64 / seconds,
    );
    Ok((delivered, again, events))
}

/// The system, and its hosts; each has a card without stages.
fn system(
    layout: &Layout,
    threads: usize,
) -> Result<(Kernel<Message>, Vec<ComponentId>), dpb_sim::kernel::WiringError> {
    let mut plan = Plan::new();
    let model = SwitchModel {
        forward_ps: 0,
        ..SwitchModel::default()
    };
    let between = WireModel {
        rate_bps: 40_000_000_000,
        ..WireModel::default()
    };
    let mut switches = Vec::new();
    for number in 0..layout.switches {
        let own = layout.switch_of.iter().enumerate();
        let own = own.filter(|&(_, &switch)| switch == number);
        let own: Vec<usize> = own.map(|(host, _)| host).collect();
        let others = match number {
            0 => layout.switches - 1,
            _ => 1,
        };
        let wires = own.iter().map(|_| WireModel::default());
        let wires = wires.chain(std::iter::repeat_n(between.clone(), others));
        let wires = wires
            .enumerate()
            .map(|(port, model)| Wire::new(model, port as u64));
        let switch = Switch::new(model, wires.collect());
        let weight = own.iter().map(|&host| layout.weight(host)).sum::<u64>();
        let id = plan.add(&format!("switch {number}"), weight, switch);
        switches.push((id, own));
    }
    for number in 1..layout.switches {
        let (first, own) = &switches[0];
        let (other, others) = &switches[number];
        let ends = ((*first, own.len() + number - 1), (*other, others.len()));
        plan.join(ends.0, ends.1, MICROSECOND_PS)?;
    }
    let mut hosts = Vec::new();
    for number in 0..layout.hosts() {
        let weight = layout.weight(number);
        let host = plan.add(&format!("host {number}"), 5 * weight, host(layout, number));
        let card = plan.add(&format!("card {number}"), 5 * weight, card(number));
        let (switch, own) = &switches[layout.switch_of[number]];
        let port = own.iter().position(|&it| it == number).unwrap_or(0);
        plan.join((host, host::CARD), (card, card::HOST), 0)?;
        plan.join((card, card::WIRE), (*switch, port), MICROSECOND_PS)?;
        hosts.push(host);
    }
    Ok((plan.build(threads), hosts))
}

fn address(host: usize) -> Address {
    Address {
        mac: [2, 0, 0, 0, 0, host as u8 + 1],
        ip: Ipv4Addr::new(10, 0, 0, host as u8 + 1),
        port: SERVER_PORT,
    }
}

fn host(layout: &Layout, number: usize) -> Host {
    let model = HostModel {
        send_ps: 0,
        receive_ps: 0,
        byte_ps: 0,
        interrupt_ps: 0,
        ..HostModel::default()
    };
    let sent = layout.transfers.iter().filter(|it| it.0 == number);
    let openings = sent.enumerate().map(|(count, &(_, to))| Opening {
        at_ps: number as u64 * MICROSECOND_PS,
        port: 40_000 + count as u16,
        to: address(to),
        application: Application::Send {
            bytes: ENDLESS_BYTES,
        },
        config: Config::default(),
    });
    let openings = openings.collect();
    let listening = Listening {
        port: SERVER_PORT,
        application: Application::Receive,
        config: Config::default(),
    };
    Host::new(model, address(number), openings, vec![listening], None)
}

fn card(number: usize) -> Card {
    let model = CardModel {
        dma_ps: 0,
        dma_byte_ps: 0,
        interrupt_gap_ps: 0,
        ..CardModel::default()
    };
    // The card's queue never drops: the host's ring bounds it.
    let wire = WireModel {
        queue_bytes: u64::MAX,
        ..WireModel::default()
    };
    Card::new(model, Wire::new(wire, number as u64), Vec::new(), None)
}
