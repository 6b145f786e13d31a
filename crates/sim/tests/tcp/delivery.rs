//! Every byte is delivered once and in order, and every transfer ends, whatever the network does.

use dpb_core::conformance::Counting;
use dpb_core::random::SplitMix64;
use dpb_sim::tcp::{
    Algorithm, Config, Endpoint, Growth, MICROSECOND_PS, MILLISECOND_PS, Reading, SECOND_PS,
    Segment,
};

use crate::network::{CLIENT, Fate, Link, Network, SERVER};

/// How bad a direction is: shares of segments, in thousandths.
#[derive(Clone, Copy, Debug)]
struct Weather {
    lost: usize,
    late: usize,
    repeated: usize,
}

fn link(seed: u64, byte_ps: u64, delay_ps: u64, weather: Weather) -> Link {
    let mut random = SplitMix64::new(seed);
    Link::with_fate(byte_ps, delay_ps, move |_, _| {
        let draw = random.below(1000);
        let later = random.below(3 * delay_ps as usize + 1) as u64;
        if draw < weather.lost {
            Fate::Lost
        } else if draw < weather.lost + weather.late {
            Fate::Late(later)
        } else if draw < weather.lost + weather.late + weather.repeated {
            Fate::Repeated(later)
        } else {
            Fate::Delivered
        }
    })
}

fn config(random: &mut SplitMix64) -> Config {
    let reading = match random.below(4) {
        0 => Reading::Rate {
            bytes_per_second: 200_000 + random.below(10_000_000) as u64,
        },
        _ => Reading::AtOnce,
    };
    Config {
        mss: [536, 1000, 1460, 8960][random.below(4)],
        algorithm: [Algorithm::NewReno, Algorithm::Cubic][random.below(2)],
        growth: [Growth::Bytes, Growth::Acknowledgements][random.below(2)],
        sack: random.below(3) > 0,
        timestamps: random.below(3) > 0,
        hystart: random.below(4) == 0,
        initial_window_segments: [1, 2, 10][random.below(3)],
        slow_start_segments: [1, 2, 1000][random.below(3)],
        ack_every: [1, 2, 4][random.below(3)],
        quick_acks: [0, 16][random.below(2)],
        receive_buffer_bytes: [3000, 20_000, 6 << 20][random.below(3)],
        reading,
        ..Config::default()
    }
}

/// Bytes that arrived at an end, whatever the order.
struct Arrived {
    bytes: Vec<bool>,
    prefix: usize,
}

impl Arrived {
    fn new(len: u64) -> Self {
        Self {
            bytes: vec![false; len as usize],
            prefix: 0,
        }
    }

    fn take(&mut self, segment: &Segment) {
        if segment.payload_len == 0 {
            return;
        }
        let start = segment.stream_offset() as usize;
        self.bytes[start..start + segment.payload_len as usize].fill(true);
        while self.bytes.get(self.prefix) == Some(&true) {
            self.prefix += 1;
        }
    }
}

/// A transfer in both directions; the trace's hash.
fn transfer(seed: u64) -> u64 {
    let mut random = SplitMix64::new(seed);
    let lens = [
        random.below(150_000) as u64,
        [0, 0, 1, 60_000][random.below(4)],
    ];
    let mut ends = [
        Endpoint::connect(config(&mut random)),
        Endpoint::listen(config(&mut random)),
    ];
    for (end, len) in ends.iter_mut().zip(lens) {
        end.offer(len);
        end.close();
    }
    let delay = MICROSECOND_PS * (1 + random.below(30_000) as u64);
    let byte_ps = [80, 800, 80_000][random.below(3)];
    let mut weather = || Weather {
        lost: [0, 5, 50, 200][random.below(4)],
        late: [0, 0, 20, 200][random.below(4)],
        repeated: [0, 0, 20, 200][random.below(4)],
    };
    let weathers = [weather(), weather()];
    let links = [
        link(seed ^ 1, byte_ps, delay, weathers[CLIENT]),
        link(seed ^ 2, byte_ps, delay, weathers[SERVER]),
    ];
    let mut network = Network::new(ends, links);
    let mut arrived = [Arrived::new(lens[SERVER]), Arrived::new(lens[CLIENT])];
    while !(network.ends[CLIENT].is_closed() && network.ends[SERVER].is_closed()) {
        let Some((end, segment)) = network.step() else {
            panic!(
                "seed {seed}: nothing will happen any more: {:?}",
                network.ends
            );
        };
        assert!(
            network.now < 40_000 * SECOND_PS,
            "seed {seed}: {:?}",
            network.ends
        );
        let delivered = network.ends[end].delivered_bytes();
        if let Some(segment) = segment {
            arrived[end].take(&segment);
        }
        let receiver = network.ends[end].receiver().statistics();
        let prefix = arrived[end].prefix as u64;
        assert!(
            delivered <= prefix,
            "seed {seed}: never a byte that did not arrive"
        );
        if receiver.beyond_window_bytes == 0 {
            assert_eq!(delivered, prefix, "seed {seed}: all that is in order");
        }
    }
    check_end(seed, &network, lens);
    network.trace
}

fn check_end(seed: u64, network: &Network, lens: [u64; 2]) {
    for end in [CLIENT, SERVER] {
        let this = &network.ends[end];
        assert_eq!(this.delivered_bytes(), lens[1 - end], "seed {seed}");
        assert_eq!(this.sender().acknowledged_bytes(), lens[end], "seed {seed}");
        let (sender, receiver) = (this.sender().statistics(), this.receiver().statistics());
        assert_eq!(receiver.delivered_bytes, lens[1 - end], "seed {seed}");
        assert_eq!(
            sender.bytes - sender.retransmitted_bytes,
            lens[end],
            "seed {seed}"
        );
        assert_eq!(
            receiver.beyond_window_bytes, 0,
            "seed {seed}: no peer of ours goes beyond"
        );
        if network.links.iter().all(|link| link.lost == 0) && sender.timeouts == 0 {
            assert!(
                receiver.duplicate_bytes <= receiver.delivered_bytes * 4 + 40_000,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn every_byte_arrives_once_and_in_order_and_every_transfer_ends() {
    for seed in 0..20_000 {
        transfer(seed);
    }
}

#[test]
fn a_seed_gives_one_trace() {
    let traces: Vec<u64> = (0..50).map(transfer).collect();
    let again: Vec<u64> = (0..50).map(transfer).collect();
    assert_eq!(traces, again);
    let whole = traces
        .iter()
        .fold(0u64, |hash, trace| hash.rotate_left(1) ^ trace);
    // The hash of the traces on x86-64. A machine that computes anything else has other arithmetic; a change of behaviour changes it too.
    assert_eq!(whole, TRACES, "{whole:#x}");
}

/// The hash of fifty traces.
const TRACES: u64 = 0x96c5_d2f9_7f95_49ca;

#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    for sack in [false, true] {
        let config = Config {
            sack,
            ..Config::default()
        };
        let mut client = Endpoint::connect(config);
        client.offer(50_000_000);
        client.close();
        let mut server = Endpoint::listen(config);
        server.close();
        // 10 Gbit/s, 1 µs, no end to the queue.
        let links = [
            Link::new(800, MICROSECOND_PS),
            Link::new(800, MICROSECOND_PS),
        ];
        let mut network = Network::new([client, server], links);
        network.run_until(SECOND_PS);
        assert!(network.ends[CLIENT].is_closed());
        assert_eq!(network.ends[SERVER].delivered_bytes(), 50_000_000);
        let statistics = network.ends[CLIENT].sender().statistics();
        assert_eq!((statistics.retransmissions, statistics.timeouts), (0, 0));
    }
}

#[test]
fn a_full_queue_keeps_the_link_busy() {
    // 100 Mbit/s, 2 ms there and back, and a queue of one such product: CUBIC and NewReno fill it.
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let config = Config {
            algorithm,
            ..Config::default()
        };
        let mut client = Endpoint::connect(config);
        client.offer_unlimited();
        let mut forth = Link::new(80_000, MILLISECOND_PS);
        forth.wait_ps_max = 2 * MILLISECOND_PS;
        let links = [forth, Link::new(80_000, MILLISECOND_PS)];
        let mut network = Network::new([client, Endpoint::listen(config)], links);
        network.run_until(2 * SECOND_PS);
        let start = network.ends[SERVER].delivered_bytes();
        // Slow start overflows the queue by half a window, and may lose retransmissions too: only a timeout repairs these.
        let early = network.ends[CLIENT].sender().statistics().timeouts;
        network.run_until(12 * SECOND_PS);
        let bytes = network.ends[SERVER].delivered_bytes() - start;
        // 1448 of each 1538 bytes on the wire are payload.
        let share = bytes as f64 / (10.0 * 12.5e6 * 1448.0 / 1538.0);
        assert!(share > 0.97 && share <= 1.0001, "{algorithm:?}: {share}");
        assert!(network.links[CLIENT].lost > 0, "the queue overflowed");
        let timeouts = network.ends[CLIENT].sender().statistics().timeouts;
        assert_eq!(timeouts, early, "{algorithm:?}");
    }
}

#[test]
fn requests_and_answers_take_a_round_trip_each() {
    let config = Config::default();
    let links = [
        Link::new(800, 5 * MICROSECOND_PS),
        Link::new(800, 5 * MICROSECOND_PS),
    ];
    let ends = [Endpoint::connect(config), Endpoint::listen(config)];
    let mut network = Network::new(ends, links);
    network.run_until(MILLISECOND_PS);
    let start = network.now;
    for turn in 1..=1000u64 {
        network.ends[CLIENT].offer(1);
        network.poll(CLIENT);
        while network.ends[CLIENT].delivered_bytes() < turn {
            let before = network.ends[SERVER].delivered_bytes();
            network.step().expect("the answer comes");
            if network.ends[SERVER].delivered_bytes() > before {
                network.ends[SERVER].offer(1);
                network.poll(SERVER);
            }
        }
    }
    // 1 byte, 52 of headers and 38 of Ethernet on 10 Gbit/s, both ways, and 10 µs. Acknowledgements alone may be in front of a few.
    let ideal = 2 * (91 * 800 + 5 * MICROSECOND_PS);
    let mean = (network.now - start) / 1000;
    assert!(
        mean >= ideal && mean < ideal + ideal / 100,
        "{mean} and {ideal}"
    );
    let acks = network.ends[SERVER].receiver().statistics().acks;
    assert!(acks < 1030, "answers carry acknowledgements: {acks}");
}

#[test]
fn nothing_is_allocated_once_a_connection_is_warm() {
    for sack in [false, true] {
        let config = Config {
            sack,
            ..Config::default()
        };
        let mut client = Endpoint::connect(config);
        client.offer_unlimited();
        let bad = Weather {
            lost: 10,
            late: 0,
            repeated: 10,
        };
        let mut forth = link(3, 80_000, MILLISECOND_PS, bad);
        forth.wait_ps_max = 2 * MILLISECOND_PS;
        let links = [forth, Link::new(80_000, MILLISECOND_PS)];
        let mut network = Network::new([client, Endpoint::listen(config)], links);
        network.run_until(60 * SECOND_PS);
        let before = Counting::here();
        network.run_until(80 * SECOND_PS);
        assert_eq!(Counting::here() - before, 0);
        let sender = network.ends[CLIENT].sender().statistics();
        assert!(sender.retransmissions > 100, "there was work: {sender:?}");
    }
}
