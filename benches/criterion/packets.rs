//! Headers of packets: dpb's reader of bursts beside the reader of single frames, etherparse, and DPDK's `rte_net_get_ptype`, all on the same
//! bursts in the same memory.
//!
//! Each side has a turn over all frames, in bursts, and the order goes round; what counts is the median of the rounds' ratios of CPU time. Before that, every frame's
//! addresses, ports, protocol and place of the payload are compared. DPDK's side is a file of C beside this one, which is compiled and loaded when this starts, where
//! pkg-config knows DPDK; it needs neither privileges nor huge pages, as it opens no device. Rows with `and keys` make what a
//! table of flows takes, too. No criterion: its sides' figures would be minutes apart.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use dpb_core::Buf;
use dpb_core::random::SplitMix64;
use dpb_net::flow::{Flags, Seen};
use dpb_net::packet::write::{Envelope, Tcp, Udp};
use dpb_net::packet::{Ends, Frame, Headers, protocol};
use rustix::time::{ClockId, clock_gettime};

/// Frames of a burst.
const BURST: usize = 256;

/// What the frames are.
#[derive(Clone, Copy)]
struct Mix {
    name: &'static str,
    /// Of a hundred frames.
    udp_percent: usize,
    ipv6_percent: usize,
    tagged_percent: usize,
    /// Bytes of a frame without its check sequence.
    frame_bytes: usize,
}

const MIXES: [Mix; 5] = [
    Mix {
        name: "UDP over IPv4",
        udp_percent: 100,
        ipv6_percent: 0,
        tagged_percent: 0,
        frame_bytes: 60,
    },
    Mix {
        name: "TCP and UDP over IPv4",
        udp_percent: 50,
        ipv6_percent: 0,
        tagged_percent: 0,
        frame_bytes: 60,
    },
    Mix {
        name: "the same, tagged",
        udp_percent: 50,
        ipv6_percent: 0,
        tagged_percent: 100,
        frame_bytes: 64,
    },
    Mix {
        name: "the same over IPv6",
        udp_percent: 50,
        ipv6_percent: 100,
        tagged_percent: 0,
        frame_bytes: 90,
    },
    Mix {
        name: "everything",
        udp_percent: 40,
        ipv6_percent: 40,
        tagged_percent: 30,
        frame_bytes: 94,
    },
];

fn main() {
    // As criterion does: without `--bench` this is a test, and runs once.
    let is_measuring = std::env::args().any(|arg| arg == "--bench");
    let rounds = if is_measuring { 25 } else { 1 };
    let dpdk = Dpdk::load();
    if let Err(why) = &dpdk {
        println!("skipped: rte_net_get_ptype: {why}");
    }
    let dpdk = dpdk.ok();
    for (memory, frames, turns) in [("in cache", 4096, 32), ("in memory", 1 << 18, 1)] {
        let frames = if is_measuring { frames } else { BURST * 2 };
        for mix in MIXES {
            println!(
                "{}, {frames} frames of {} bytes, {memory}",
                mix.name, mix.frame_bytes
            );
            compare(
                &mix.frames(frames),
                dpdk.as_ref(),
                rounds,
                if is_measuring { turns } else { 1 },
            );
        }
    }
}

/// One turn of a side over all frames.
type Turn<'a> = Box<dyn FnMut() + 'a>;

/// Times each side in turn.
fn compare(frames: &[Buf], dpdk: Option<&Dpdk>, rounds: usize, turns: usize) {
    let peer = dpdk.map(|dpdk| dpdk.side(frames));
    let mut sides: Vec<(&str, Turn<'_>)> = vec![
        ("Headers", Box::new(bursts(frames, |_, _| {}))),
        ("Headers and keys", Box::new(bursts(frames, keys()))),
        ("Frame", Box::new(single(frames))),
        ("etherparse", Box::new(etherparse(frames))),
    ];
    if let Some(peer) = &peer {
        peer.check();
        sides.push(("rte_net_get_ptype and keys", Box::new(peer.turn())));
    }
    let mut times = vec![Vec::new(); sides.len()];
    for round in 0..rounds {
        for i in 0..sides.len() {
            let side = (i + round) % sides.len();
            let start = cpu_ns();
            (0..turns).for_each(|_| sides[side].1());
            let ns = (cpu_ns() - start) / (turns * frames.len()) as f64;
            times[side].push(ns);
        }
    }
    let base = times[1].clone();
    for ((name, _), times) in sides.iter().zip(&times) {
        let ratios = times.iter().zip(&base).map(|(time, base)| time / base);
        println!(
            "  {name:28} {:7.2} ns a frame, {:5.2} of `Headers and keys`",
            median(times.iter().copied()),
            median(ratios)
        );
    }
}

/// The time that this thread has had a core: others' turns do not count.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn bursts(frames: &[Buf], mut then: impl FnMut(&Headers, usize)) -> impl FnMut() {
    let mut headers = Headers::new();
    move || {
        for burst in frames.chunks(BURST) {
            headers.read(burst);
            then(&headers, burst.len());
            black_box(headers.facts());
        }
    }
}

fn keys() -> impl FnMut(&Headers, usize) {
    let (mut v4, mut v6): (Vec<Seen<2>>, Vec<Seen<5>>) = (Vec::new(), Vec::new());
    move |headers, _| {
        v4.clear();
        v6.clear();
        headers.seen_v4(&mut v4);
        headers.seen_v6(&mut v6);
        black_box((&v4, &v6));
    }
}

fn single(frames: &[Buf]) -> impl FnMut() {
    move || {
        for frame in frames {
            black_box(Frame::read(frame).expect("sound"));
        }
    }
}

fn etherparse(frames: &[Buf]) -> impl FnMut() {
    move || {
        for frame in frames {
            black_box(etherparse::SlicedPacket::from_ethernet(frame).expect("sound"));
        }
    }
}

impl Mix {
    /// Frames of this mix, each in memory of its own, by a fixed seed.
    fn frames(&self, count: usize) -> Vec<Buf> {
        let mut random = SplitMix64::new(1);
        (0..count).map(|_| self.frame(&mut random)).collect()
    }

    fn frame(&self, random: &mut SplitMix64) -> Buf {
        let mut below = |percent: usize| random.below(100) < percent;
        let (is_udp, is_v6, is_tagged) = (
            below(self.udp_percent),
            below(self.ipv6_percent),
            below(self.tagged_percent),
        );
        let mut word = || random.next_u64() as u32;
        let ports = [word() as u16 | 0x8000, 443];
        let mut frame = Buf::zeroed(self.frame_bytes).expect("memory");
        let protocol = if is_udp { protocol::UDP } else { protocol::TCP };
        let ends = match is_v6 {
            false => Ends::V4([word(), word()]),
            true => Ends::V6([u128::from(word()) << 64 | 1, u128::from(word()) << 64 | 2]),
        };
        let envelope = Envelope {
            macs: [[2; 6], [4; 6]],
            tag: is_tagged.then_some(5),
            ends,
            protocol,
        };
        let segment = envelope.put(&mut frame).expect("room");
        match is_udp {
            true => Udp::new(ports).put(segment, ends),
            false => Tcp::new(ports, Flags::ACK).put(segment, ends),
        }
        .expect("room");
        frame
    }
}

/// DPDK's side, compiled from the file beside this one.
struct Dpdk {
    library: libloading::Library,
}

/// What it says of a packet, as the file has it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Key {
    _kind: u32,
    payload_at: u16,
    protocol: u8,
    is_v6: u8,
    ports: [u16; 2],
    addresses: [u8; 32],
}

type Open = unsafe extern "C" fn(*const *const u8, *const u32, u32) -> *mut std::ffi::c_void;
type Read = unsafe extern "C" fn(*const std::ffi::c_void, u32, u32, *mut Key);
type Close = unsafe extern "C" fn(*mut std::ffi::c_void);

impl Dpdk {
    fn load() -> Result<Self, String> {
        let said = |what: &str| {
            let output = Command::new("pkg-config").args([what, "libdpdk"]).output();
            let output = output.map_err(|error| format!("no pkg-config: {error}"))?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
                false => Err("no DPDK; apt-get install libdpdk-dev".to_owned()),
            }
        };
        let (flags, links) = (said("--cflags")?, said("--libs-only-L")?);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("criterion/packets/rte_net.c");
        // A folder of our own: in the one that all share, others could put their library there.
        let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let built = folder.path().join("rte_net.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O3", "-march=native"]);
        compiler
            .args(flags.split_whitespace())
            .arg(&source)
            .arg("-o")
            .arg(&built);
        let output = compiler
            .args(links.split_whitespace())
            .args(["-lrte_net", "-lrte_mbuf"])
            .output();
        let output = output.map_err(|error| format!("no C compiler: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        // SAFETY: it was just built from the file beside this one, whose libraries do nothing when they are loaded but announce themselves.
        let library = unsafe { libloading::Library::new(&built) };
        library
            .map(|library| Self { library })
            .map_err(|error| error.to_string())
    }

    fn side<'a>(&'a self, frames: &'a [Buf]) -> Side<'a> {
        let data: Vec<*const u8> = frames.iter().map(|frame| frame.as_ptr()).collect();
        let lens: Vec<u32> = frames.iter().map(|frame| frame.len() as u32).collect();
        // SAFETY: the three functions as the file declares them; the lists have as many elements as is said, and are copied.
        unsafe {
            let open = self.library.get::<Open>(b"side_open").expect("there");
            Side {
                read: *self.library.get::<Read>(b"side_read").expect("there"),
                close: *self.library.get::<Close>(b"side_close").expect("there"),
                side: open(data.as_ptr(), lens.as_ptr(), frames.len() as u32),
                frames,
                _library: &self.library,
            }
        }
    }
}

/// Mbufs over the frames.
struct Side<'a> {
    read: Read,
    close: Close,
    side: *mut std::ffi::c_void,
    frames: &'a [Buf],
    _library: &'a libloading::Library,
}

impl Side<'_> {
    fn turn(&self) -> impl FnMut() {
        let mut keys = vec![Key::default(); BURST];
        move || {
            for first in (0..self.frames.len()).step_by(BURST) {
                let count = BURST.min(self.frames.len() - first);
                // SAFETY: so many packets there are, and `keys` has the room.
                unsafe { (self.read)(self.side, first as u32, count as u32, keys.as_mut_ptr()) };
                black_box(&keys);
            }
        }
    }

    /// Compares what both say of each frame.
    fn check(&self) {
        let mut headers = Headers::new();
        headers.read(self.frames);
        let mut keys = vec![Key::default(); self.frames.len()];
        // SAFETY: as in `turn`.
        unsafe { (self.read)(self.side, 0, self.frames.len() as u32, keys.as_mut_ptr()) };
        for (row, key) in keys.iter().enumerate() {
            let (facts, places) = (headers.facts()[row], headers.places()[row]);
            assert_eq!(
                (facts.protocol, places.payload),
                (key.protocol, key.payload_at)
            );
            let (ports, addresses) = match key.is_v6 {
                0 => {
                    let tuple = headers.tuple_v4(row).expect("IPv4");
                    (
                        tuple.ports,
                        tuple
                            .addresses
                            .map(u32::to_be_bytes)
                            .as_flattened()
                            .to_vec(),
                    )
                }
                _ => {
                    let tuple = headers.tuple_v6(row).expect("IPv6");
                    (
                        tuple.ports,
                        tuple
                            .addresses
                            .map(u128::to_be_bytes)
                            .as_flattened()
                            .to_vec(),
                    )
                }
            };
            assert_eq!(ports, key.ports.map(u16::from_be));
            assert_eq!(addresses[..], key.addresses[..addresses.len()]);
        }
    }
}

impl Drop for Side<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by `side_open`, and closed once.
        unsafe { (self.close)(self.side) };
    }
}
