//! Queues with room and without, ports that fail, and times of arrival.

use dpb_core::VirtualClock;

use super::*;
use crate::pipeline::Sharding;
use crate::port::{Dated, End, pair_of};
use crate::traffic::{Generator, Profile, StampKey, Traffic};

fn spread(shards: usize, room: usize, when_full: WhenFull) -> (MultiQueue, Vec<End>) {
    let pairs = (0..shards).map(|_| pair_of(room));
    let (near, far): (Vec<_>, Vec<_>) = pairs.map(|[near, far]| (near, far)).unzip();
    let near = near
        .into_iter()
        .map(|end| Box::new(end) as Box<dyn PacketPort>);
    (MultiQueue::new(near.collect(), when_full), far)
}

fn frames(generator: &Generator, count: u64, port: &mut dyn PacketPort) -> VecDeque<Buf> {
    let key = StampKey::new(1, 0);
    let frame = |i| {
        let mut frame = port.alloc(generator.frame_bytes(i)).expect("memory");
        generator.write(i, 0, &key, &mut frame);
        frame
    };
    (0..count).map(frame).collect()
}

#[test]
fn a_flow_goes_to_one_queue_and_all_queues_have_flows() {
    let generator = Generator::new(&Profile::new(3)).expect("a profile");
    let (mut near, mut far) = spread(3, 4096, WhenFull::Drop);
    let mut ready = frames(&generator, 3000, &mut near);
    assert_eq!(near.send(&mut ready).expect("room"), 3000);
    let mut of_flow = std::collections::HashMap::new();
    let mut total = 0;
    for (queue, end) in far.iter_mut().enumerate() {
        let mut came = Vec::new();
        total += end.receive(&mut came, 4096).expect("works");
        assert!(came.len() > 500, "{} of 3000 in queue {queue}", came.len());
        for frame in came {
            // Addresses and ports of UDP over IPv4.
            let flow = frame[26..38].to_vec();
            assert_eq!(*of_flow.entry(flow).or_insert(queue), queue);
        }
    }
    assert_eq!((total, of_flow.len()), (3000, 1000));
    let stats = near.stats();
    assert_eq!((stats.taken.packets, stats.in_flight()), (3000, 0));
}

#[test]
fn what_a_queue_has_no_room_for_is_dropped_and_counted() {
    let generator = Generator::new(&Profile::new(3)).expect("a profile");
    let (mut near, mut far) = spread(2, 16, WhenFull::Drop);
    let dropped = near.dropped();
    let mut ready = frames(&generator, 100, &mut near);
    let bytes: usize = ready.iter().map(Buf::len).sum();
    assert_eq!(near.send(&mut ready).expect("works"), 100);
    assert!(ready.is_empty());
    let stats = near.stats();
    assert_eq!((stats.sent.packets, stats.send_lost.queue_full), (32, 68));
    assert_eq!((stats.taken.packets, stats.in_flight()), (100, 0));
    assert_eq!(
        (stats.taken.bytes, stats.refused.total()),
        (bytes as u64, 0)
    );
    assert_eq!(dropped.load(Ordering::Relaxed), 68);
    let mut came = Vec::new();
    let each: Vec<usize> = far
        .iter_mut()
        .map(|end| end.receive(&mut came, 99).expect("works"))
        .collect();
    assert_eq!(each, [16, 16]);
    // What comes is received from all, none of which is always first.
    for end in &mut far {
        let mut back: VecDeque<Buf> = (0..5).map(|_| end.alloc(60).expect("memory")).collect();
        end.send(&mut back).expect("room");
    }
    came.clear();
    let turns: Vec<usize> = (0..4)
        .map(|_| near.receive(&mut came, 3).expect("works"))
        .collect();
    assert_eq!((turns.iter().sum::<usize>(), came.len()), (10, 10));
    let too_long = near.packet_bytes_max() + 1;
    let mut ready = VecDeque::from([
        Buf::zeroed(60).expect("memory"),
        Buf::zeroed(too_long).expect("memory"),
    ]);
    assert_eq!(near.send(&mut ready).expect("the first"), 1);
    assert!(near.send(&mut ready).is_err());
    assert_eq!((ready.len(), near.stats().refused.too_long), (1, 1));
}

/// A port that sends no frame shorter than a header, or none at all.
struct Odd {
    end: End,
    is_broken: bool,
}

impl PacketPort for Odd {
    fn name(&self) -> &str {
        "odd"
    }

    fn packet_bytes_max(&self) -> usize {
        self.end.packet_bytes_max()
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.end.alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        self.end.receive(packets, max)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        if self.is_broken {
            return Err(io::Error::other("out of order"));
        }
        let mut taken = 0;
        while let Some(packet) = packets.pop_front() {
            if packet.len() < 14 {
                packets.push_front(packet);
                break;
            }
            taken += self.end.send(&mut VecDeque::from([packet]))?;
        }
        match taken {
            0 if !packets.is_empty() => Err(io::ErrorKind::InvalidInput.into()),
            _ => Ok(taken),
        }
    }

    fn stats(&mut self) -> PortStats {
        self.end.stats()
    }
}

#[test]
fn a_port_that_fails_loses_its_own_packets_alone() {
    let generator = Generator::new(&Profile::new(3)).expect("a profile");
    let ([end, _far], [near, mut far]) = (pair_of(128), pair_of(128));
    let broken = Odd {
        end,
        is_broken: true,
    };
    let mut spread = MultiQueue::new(vec![Box::new(broken), Box::new(near)], WhenFull::Drop);
    let dropped = spread.dropped();
    let mut ready = frames(&generator, 100, &mut spread);
    let bytes: usize = ready.iter().map(Buf::len).sum();
    let error = spread.send(&mut ready).expect_err("one is out of order");
    assert_eq!(
        (error.to_string(), ready.len()),
        ("out of order".to_owned(), 0)
    );
    let mut came = Vec::new();
    let sent = far.receive(&mut came, 128).expect("works") as u64;
    assert!((1..100).contains(&sent), "{sent} of 100");
    let stats = spread.stats();
    assert_eq!(
        (stats.sent.packets, stats.send_lost.kernel),
        (sent, 100 - sent)
    );
    assert_eq!(
        (stats.taken.packets, stats.taken.bytes),
        (100, bytes as u64)
    );
    assert_eq!(dropped.load(Ordering::Relaxed), 100 - sent);
}

#[test]
fn what_is_no_frame_to_its_port_is_dropped_alone() {
    let [end, mut far] = pair_of(128);
    let particular = Odd {
        end,
        is_broken: false,
    };
    let mut spread = MultiQueue::new(vec![Box::new(particular)], WhenFull::Drop);
    let lens = [60, 9, 70, 80];
    let frame = |len| Buf::zeroed(len).expect("memory");
    let mut ready: VecDeque<Buf> = lens.into_iter().map(frame).collect();
    assert_eq!(spread.send(&mut ready).expect("works"), 4);
    let mut came = Vec::new();
    far.receive(&mut came, 128).expect("works");
    assert!(came.iter().map(Buf::len).eq([60, 70, 80]));
    let stats = spread.stats();
    assert_eq!((stats.send_lost.malformed, stats.send_lost.total()), (1, 1));
    assert_eq!((stats.taken.packets, stats.in_flight()), (4, 0));
}

#[test]
fn times_of_arrival_are_those_of_the_ports() {
    let clock = Arc::new(VirtualClock::new(false));
    let pairs = [(); 3].map(|()| pair_of(8));
    let [mut far_0, mut far_1, mut far_2] = [(); 3].map(|()| None);
    let mut ports: Vec<Box<dyn PacketPort>> = Vec::new();
    for ([near, far], kept) in pairs.into_iter().zip([&mut far_0, &mut far_1, &mut far_2]) {
        *kept = Some(far);
        match ports.len() {
            2 => ports.push(Box::new(near)),
            _ => ports.push(Box::new(Dated::new(near, clock.clone()))),
        }
    }
    let mut spread = MultiQueue::new(ports, WhenFull::Hold);
    let send = |far: &mut Option<End>, count: usize| {
        let frames = (0..count).map(|_| Buf::zeroed(60).expect("memory"));
        let far = far.as_mut().expect("kept");
        far.send(&mut frames.collect()).expect("room");
    };
    let mut came = Vec::new();
    clock.advance_to(5);
    send(&mut far_0, 1);
    send(&mut far_1, 2);
    assert_eq!(spread.receive(&mut came, 9).expect("works"), 3);
    assert_eq!(spread.arrivals().by, Dating::Clock);
    assert_eq!(spread.arrivals().times_ns, [5; 3]);
    // The third port has no times, so the packets of one call have none.
    send(&mut far_1, 1);
    send(&mut far_2, 1);
    assert_eq!(spread.receive(&mut came, 9).expect("works"), 2);
    assert_eq!(spread.arrivals(), Arrivals::default());
    assert_eq!(spread.receive(&mut came, 9).expect("works"), 0);
    assert_eq!(spread.arrivals(), Arrivals::default());
}

#[test]
fn packets_of_a_flow_go_one_way_and_none_is_lost_where_they_wait() {
    let generator = Generator::new(&Profile::new(3)).expect("a profile");
    let key = StampKey::new(3, 0);
    let sharding = Sharding::new(Toeplitz::new(SYMMETRIC_KEY), 3);
    let (mut spread, mut far) = spread(3, 64, WhenFull::Hold);
    let mut ready = VecDeque::new();
    for i in 0..2000 {
        let mut frame = spread.alloc(generator.frame_bytes(i)).expect("memory");
        generator.write(i, 0, &key, &mut frame);
        ready.push_back(frame);
    }
    let (mut sent, mut came, mut shards) = (0, Vec::new(), Vec::new());
    while sent < 2000 {
        sent += spread.send(&mut ready).expect("no error");
        assert_eq!(sent + ready.len(), 2000);
        for (shard, port) in far.iter_mut().enumerate() {
            let before = came.len();
            port.receive(&mut came, 64).expect("no error");
            assert!(came.len() - before <= 64);
            shards.extend((before..came.len()).map(|_| shard));
        }
    }
    assert_eq!(came.len(), 2000);
    for (frame, shard) in came.iter().zip(&shards) {
        assert_eq!(usize::from(sharding.of_one(frame)), *shard);
    }
    let per_shard = |shard| shards.iter().filter(|of| **of == shard).count();
    assert!(
        (0..3).all(|shard| per_shard(shard) > 400),
        "{:?}",
        [0, 1, 2].map(per_shard)
    );
    // And back.
    for (frame, shard) in came.into_iter().zip(shards) {
        far[shard]
            .send(&mut VecDeque::from([frame]))
            .expect("no error");
        let mut back = Vec::new();
        assert_eq!(spread.receive(&mut back, 9).expect("no error"), 1);
    }
    let stats = spread.stats();
    assert_eq!((stats.taken.packets, stats.delivered.packets), (2000, 2000));
}
