//! Nothing is allocated for a burst once the first ones have gone through: an allocator that counts says so.

#[path = "pipeline_support/mod.rs"]
mod support;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use dpb_core::PacketPort;
use dpb_core::conformance::Counting;
use dpb_core::{Buf, Direction, JobError, VirtualClock, WallClock};
use dpb_net::flow::nat::{Behaviour as NatBehaviour, Nat};
use dpb_net::flow::toeplitz::{SYMMETRIC_KEY, Toeplitz};
use dpb_net::pipeline::{
    Choice, Line, Output, Packet, Part, Pool, Reason, Shard, Stage, Station, WhenFull, Work, each,
    ring,
};
use dpb_net::programs::esp::{Association, Mode, Opening, Tunnel};
use dpb_net::programs::firewall::{Firewall, Policy, Rules};
use dpb_net::programs::forward::{Addresses, bridge};
use dpb_net::programs::nat44::{Nat44, NatSharding, Sides};
use dpb_net::wire::{Plan, Wire};
use support::{Manner, gcm, of_flow, sum};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Sums payloads, and drops packets whose flow is 3.
struct Summed;

impl Part for Summed {
    type Note = ();

    fn item(&mut self, packet: Packet<'_>, (): &mut ()) -> Choice {
        match support::flow_of(packet.frame) {
            (3, _) => Choice::Drop(Reason("flow 3")),
            _ => Choice::Item {
                start: 42,
                len: packet.frame.len() as u32 - 42,
                room: 0,
            },
        }
    }

    fn output(&mut self, packet: Packet<'_>, (): (), output: Result<Output<'_>, JobError>) {
        if let Ok(Output::Beside(bytes)) = output {
            packet.mark.value = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
    }
}

#[test]
fn a_burst_allocates_nothing_once_the_first_have_gone_through() {
    let clock = Arc::new(VirtualClock::new(false));
    let pool = Pool::new(2000, 2048, 128).expect("memory");
    let association = Association {
        spi: 1000,
        salt: [1; 4],
        mode: Mode::Tunnel(Tunnel::V4 {
            source: Ipv4Addr::new(198, 51, 100, 1),
            destination: Ipv4Addr::new(203, 0, 113, 9),
        }),
    };
    let rules = Rules::read("allow udp from 10.0.0.0/8").expect("a rule");
    let firewall =
        Firewall::new(Arc::new(rules), Policy::default(), clock.clone()).expect("memory");
    let toeplitz = Toeplitz::new(SYMMETRIC_KEY);
    let steering = NatSharding::steering(toeplitz, 1).expect("a table");
    let nat = Nat::new(
        NatBehaviour::default(),
        vec![0xc633_6401],
        100,
        steering,
        0,
        7,
    );
    let nat = nat.expect("memory");
    let manner = Manner::default();
    let (encrypts, decrypts) = (
        gcm(Direction::Encrypt, &[7; 16], manner),
        gcm(Direction::Decrypt, &[7; 16], manner),
    );
    let opening = Opening::default();
    let (remote, ring) = ring("engine", 4);
    let sums = sum(manner).stage(Summed, 4).expect("opens");
    let mut station = Station::new(Box::new(sums), vec![ring]);
    let stages: Vec<Box<dyn Stage>> = vec![
        Box::new(firewall),
        Box::new(Nat44::new(
            nat,
            Sides::new(2, 1, false, false),
            clock.clone(),
        )),
        Box::new(remote),
        Box::new(
            association
                .seal(&encrypts, pool.clone(), 1500)
                .expect("opens"),
        ),
        Box::new(each("in between", |packet: Packet<'_>| {
            assert_eq!(packet.frame[23], 50, "ESP");
        })),
        Box::new(
            association
                .open(&decrypts, pool.clone(), opening)
                .expect("opens"),
        ),
        Box::new(bridge(vec![1, 0], Addresses::Swapped)),
    ];
    let line = Line::new("all", stages, 8).timed_by(Arc::new(WallClock::default()));
    let plan = || [Plan::default(), Plan::default()];
    let (_, [mut near, far]) = Wire::new(clock.clone(), plan());
    let (_, [out, mut sink]) = Wire::new(clock, plan());
    let ports: Vec<Box<dyn PacketPort>> = vec![Box::new(far), Box::new(out)];
    let mut shard = Shard::new("shard", ports, line, 32, WhenFull::Hold);

    let mut ready: VecDeque<Buf> = VecDeque::with_capacity(1000);
    let mut came = Vec::with_capacity(1000);
    let mut sent = 0_u32;
    let mut round = || {
        for i in 0..100 {
            // A frame's memory is the pool's; what etherparse writes is not counted.
            ready.extend(pool.copy(&FRAMES.with(|frames| frames[i].clone())));
        }
        let before = Counting::here();
        sent += near.send(&mut ready).expect("short") as u32;
        for _ in 0..20 {
            shard.turn().expect("memory");
            station.turn();
        }
        sink.receive(&mut came, 1000).expect("memory");
        let arrived = came.len();
        came.clear();
        (Counting::here() - before, arrived)
    };
    for _ in 0..50 {
        round();
    }
    for i in 0..200 {
        // Of 100 packets, each tenth is of flow 3.
        assert_eq!(round(), (0, 90), "round {i}");
    }
    let account = shard.account();
    account.check().expect("balanced");
    assert_eq!(account.received.packets, u64::from(sent));
    assert_eq!(account.dropped().total().packets * 9, account.sent.packets);
    assert_eq!(pool.free(), 2000);
}

thread_local! {
    static FRAMES: Vec<Vec<u8>> = (0..100).map(|i| of_flow(i % 10, u32::from(i), 20 + usize::from(i) * 10)).collect();
}
