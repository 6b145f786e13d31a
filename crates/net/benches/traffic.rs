//! How fast one core writes frames into memory, and how exactly it keeps a schedule.
//!
//! Frames are written into buffers that are used again, 256 KiB of them, as a port's ring would be; each has its stamp and right checksums. The
//! goal is 20 million frames of 60 bytes a second.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use dpb_core::{Buf, Clock, WallClock};
use dpb_net::traffic::application::Applications;
use dpb_net::traffic::{
    Flows, Generator, Mix, Mixture, Pacer, Profile, Schedule, Sizes, StampKey, Traffic,
};

const BURST: usize = 256;
const BUFFER_BYTES: usize = 1 << 18;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let base = Profile::new(1);
    let churning = Flows::churning(100_000, Mixture::agh_campus());
    let profiles = [
        ("60 B, 1000 flows", base.clone()),
        (
            "60 B, 1 M flows",
            Profile {
                flows: Flows::endless(1_000_000),
                ..base.clone()
            },
        ),
        (
            "60 B, AGH churn of 100 k",
            Profile {
                flows: churning.clone(),
                ..base.clone()
            },
        ),
        (
            "IMIX (CSIT), AGH churn, TCP and UDP",
            Profile {
                flows: churning.clone(),
                sizes: Sizes::Mix(Mix::csit()).at_least(72),
                tcp_share: 0.54,
                ..base.clone()
            },
        ),
        (
            "1514 B",
            Profile {
                sizes: Sizes::Fixed(1514),
                ..base.clone()
            },
        ),
        (
            "applications",
            Profile {
                flows: churning,
                sizes: Sizes::Mix(Mix::csit()).at_least(72),
                applications: Some(Applications::today()),
                ..base
            },
        ),
    ];
    let mut group = criterion.benchmark_group("traffic");
    group.throughput(Throughput::Elements(BURST as u64));
    for (name, profile) in profiles {
        let generator = Generator::new(&profile).expect("a profile");
        let key = StampKey::new(1, 0);
        let mut buffers = Buffers::new(&generator);
        let mut first = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                buffers.burst(&generator, first, &key);
                first += BURST as u64;
            });
        });
        black_box(&buffers.bufs);
    }
    group.finish();
    criterion.final_summary();
    schedule_errors();
}

/// Buffers that frames are written into in turn.
struct Buffers {
    bufs: Vec<Buf>,
    next: usize,
}

impl Buffers {
    fn new(generator: &Generator) -> Self {
        let len = generator.frame_bytes_max();
        let buf = |_| Buf::zeroed(len).expect("memory");
        Self {
            bufs: (0..BUFFER_BYTES / len).map(buf).collect(),
            next: 0,
        }
    }

    fn burst(&mut self, generator: &Generator, first: u64, key: &StampKey) {
        for i in first..first + BURST as u64 {
            let buf = &mut self.bufs[self.next];
            self.next += 1;
            let len = generator.frame_bytes(i);
            generator.write(i, i, key, &mut buf[..len]);
            if self.next == self.bufs.len() {
                self.next = 0;
            }
        }
    }
}

/// The error of the schedule: how long after their departures packets are offered, when nothing else is done.
fn schedule_errors() {
    let seconds = if std::env::args().any(|arg| arg == "--bench") {
        2
    } else {
        0
    };
    let clock = WallClock::default();
    let generator = Generator::new(&Profile::new(1)).expect("a profile");
    let key = StampKey::new(1, 0);
    let mut buffers = Buffers::new(&generator);
    let ring = buffers.bufs.len();
    for rate in [1e5, 1e6, 5e6, 10e6] {
        let departures = Schedule::constant(rate).departures().expect("a rate");
        let duration_ns = 1_000_000 + seconds * 1_000_000_000;
        let mut pacer = Pacer::new(departures, clock.now_ns() + 100_000, duration_ns, 10_000);
        let mut i = 0;
        // Made before it is due, as a trial does.
        while let Some(due_ns) = pacer.take() {
            generator.write(i, due_ns, &key, &mut buffers.bufs[i as usize % ring]);
            i += 1;
            let now_ns = loop {
                let now_ns = pacer.elapsed_ns(&clock);
                if now_ns >= due_ns {
                    break now_ns;
                }
                std::hint::spin_loop();
            };
            pacer.offered(due_ns, now_ns);
        }
        let errors = pacer.errors();
        println!(
            "schedule of {rate:.0} packets a second: error p50 {} ns, p99 {} ns, p99.9 {} ns, largest {} ns; {} of {i} later than 10 us",
            errors.percentile_ns(0.5),
            errors.percentile_ns(0.99),
            errors.percentile_ns(0.999),
            errors.max_ns(),
            pacer.late(),
        );
    }
}
