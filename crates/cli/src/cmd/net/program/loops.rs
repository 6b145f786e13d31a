//! The loops of a program on threads.

use dpb_core::PacketPort;
use dpb_net::pipeline::{Dispatcher, Make, Shard, Station, WhenFull, Work, ring};
use dpb_net::port::Looped;

use super::Program;

/// The rings that join a dispatcher's loops.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// Bursts that a ring to another core holds.
    pub bursts: usize,
    pub when_full: WhenFull,
}

/// The loops of a program over these ports: one shard; or a dispatcher, which receives for the others, and a station for each thread. `crossing` gives the
/// dispatcher's port to itself, by which packets go that another thread has to go on with.
pub fn loops(
    program: &Program,
    mut ports: Vec<Box<dyn PacketPort>>,
    threads: usize,
    rings: Rings,
    crossing: impl FnOnce(Looped) -> Box<dyn PacketPort>,
) -> Vec<(String, Make)> {
    let Rings { bursts, when_full } = rings;
    if threads == 1 {
        let program = program.clone();
        let make: Make = Box::new(move || {
            let (line, burst) = (program.line(0)?, program.burst());
            let shard = Shard::new("shard", ports, line, burst, when_full);
            Ok(Box::new(shard) as Box<dyn Work>)
        });
        return vec![("shard".to_owned(), make)];
    }
    if program.crossing().is_some() {
        // More than all rings hold, so that it is never full.
        let packets = 2 * threads * bursts * program.burst();
        ports.push(crossing(Looped::new(packets)));
    }
    let (mut remotes, mut loops) = (Vec::new(), Vec::new());
    for shard in 0..threads {
        let name = format!("shard {shard}");
        let (remote, ring) = ring(name.clone(), bursts);
        remotes.push(remote);
        let program = program.clone();
        let make: Make = Box::new(move || {
            let station = Station::new(Box::new(program.line(shard)?), vec![ring]);
            Ok(Box::new(station) as Box<dyn Work>)
        });
        loops.push((name, make));
    }
    let program = program.clone();
    let make: Make = Box::new(move || {
        let (spread, burst) = (program.spread()?, program.burst());
        let dispatcher = Dispatcher::new("dispatcher", ports, spread, remotes, burst, when_full);
        Ok(Box::new(dispatcher) as Box<dyn Work>)
    });
    loops.insert(0, ("dispatcher".to_owned(), make));
    loops
}
