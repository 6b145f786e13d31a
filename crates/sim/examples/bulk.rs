//! The speed of the simulation itself: two clients send to a server in bulk over TCP, through a switch, at 10 Gbit/s with 1 µs a link. Hosts and cards cost no
//! time, so that the wire is what binds.
//!
//! ```sh
//! cargo run --release -p dpb-sim --example bulk -- 1000
//! ```
//!
//! simulates so many milliseconds on one thread and on two, and prints for each what was transferred, the events, and the time that they took on this machine.
//! Both must give the same results.

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
const HOSTS: usize = 3;

fn main() -> Result<(), String> {
    let given = std::env::args().nth(1);
    let milliseconds: u64 = match &given {
        None => 1000,
        Some(text) => text
            .parse()
            .map_err(|_| format!("`{text}` is not a number of milliseconds"))?,
    };
    let end_ps = milliseconds * MILLISECOND_PS;
    let outcomes = [1, 2].map(|threads| run(threads, end_ps));
    let [alone, together] = outcomes;
    if alone? != together? {
        return Err("two threads gave another result than one".to_owned());
    }
    Ok(())
}

/// What a run gave: the bytes of each connection at the server, the segments that clients sent again, and the events.
type Outcome = (Vec<u64>, Vec<u64>, u64);

fn run(threads: usize, end_ps: u64) -> Result<Outcome, String> {
    let (mut kernel, hosts) = system(threads).map_err(|wrong| wrong.to_string())?;
    let begin = Instant::now();
    kernel
        .run_until(end_ps)
        .map_err(|wrong| wrong.to_string())?;
    let seconds = begin.elapsed().as_secs_f64();
    let flows = |id| kernel.component::<Host>(id).map_or(&[][..], Host::flows);
    let delivered: Vec<u64> = flows(hosts[0])
        .iter()
        .map(|it| it.endpoint.delivered_bytes())
        .collect();
    let clients = hosts[1..].iter().flat_map(|&id| flows(id));
    let again = clients.map(|it| it.endpoint.sender().statistics().retransmissions);
    let again: Vec<u64> = again.collect();
    let bytes: u64 = delivered.iter().sum();
    let events = kernel.events();
    println!(
        "threads {}: {bytes} bytes ({:.3} Gbit/s simulated), sent again {again:?}, {events} events, {seconds:.3} s, {:.0} events/s",
        kernel.threads(),
        bytes as f64 * 8000.0 / end_ps as f64,
        events as f64 / seconds,
    );
    Ok((delivered, again, events))
}

/// The hosts, of which the first is the server, each behind a card without stages.
fn system(
    threads: usize,
) -> Result<(Kernel<Message>, Vec<ComponentId>), dpb_sim::kernel::WiringError> {
    let mut plan = Plan::new();
    let wires = (0..HOSTS as u64).map(|seed| Wire::new(WireModel::default(), seed));
    let model = SwitchModel {
        forward_ps: 0,
        ..SwitchModel::default()
    };
    let switch = plan.add("switch", 1, Switch::new(model, wires.collect()));
    let mut hosts = Vec::new();
    for number in 0..HOSTS {
        let host = plan.add(&format!("host {number}"), 1, host(number));
        let card = plan.add(&format!("card {number}"), 1, card(number));
        plan.join((host, host::CARD), (card, card::HOST), 0)?;
        plan.join((card, card::WIRE), (switch, number), MICROSECOND_PS)?;
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

fn host(number: usize) -> Host {
    let model = HostModel {
        send_ps: 0,
        receive_ps: 0,
        byte_ps: 0,
        interrupt_ps: 0,
        ..HostModel::default()
    };
    let opening = Opening {
        at_ps: number as u64 * MICROSECOND_PS,
        port: 40_000,
        to: address(0),
        application: Application::Send {
            bytes: ENDLESS_BYTES,
        },
        config: Config::default(),
    };
    let listening = Listening {
        port: SERVER_PORT,
        application: Application::Receive,
        config: Config::default(),
    };
    let (openings, listenings) = match number {
        0 => (vec![], vec![listening]),
        _ => (vec![opening], vec![]),
    };
    Host::new(model, address(number), openings, listenings, None)
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
