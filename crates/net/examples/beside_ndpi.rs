//! The recognizer beside nDPI on the same packets in memory: `cargo run --release -p dpb-net --example beside_ndpi -- [--repeat N] FILE|FOLDER …`
//!
//! nDPI is loaded at run time (Debian: `apt-get install libndpi4.2`; its structures are never looked into, so nothing but this version's functions is
//! relied on). It gets whole IP packets of each flow until it has a verdict and wants no more packets for it, or for at most 32 packets with a payload, and
//! then gives up, with a guess. Both sides have the flow's number given. Each runs as often as asked, in turns; rates are medians.
//!
//! Where both have named a flow differently, the pair is counted and printed: neither is the truth.

#![allow(unsafe_code)]

#[path = "../tests/captures/file.rs"]
mod file;
#[path = "../tests/captures/flows.rs"]
mod flows;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::time::Instant;

use dpb_net::recognition::{Applications, Evidence, Mark, Protocol, Recognizer, Settings};
use flows::Numbered;
use libloading::Library;

/// What nDPI says of a flow: a protocol, what runs over it, a category.
#[derive(Clone, Copy, Default, PartialEq)]
#[repr(C)]
struct Verdict {
    master: u16,
    application: u16,
    category: u32,
}

/// nDPI 4.2's functions, and a module of its own.
struct Ndpi {
    module: *mut c_void,
    flow_bytes: usize,
    process: unsafe extern "C" fn(*mut c_void, *mut c_void, *const u8, u16, u64) -> Verdict,
    give_up: unsafe extern "C" fn(*mut c_void, *mut c_void, u8, *mut u8) -> Verdict,
    wants_more: unsafe extern "C" fn(*mut c_void, *mut c_void) -> u8,
    free: unsafe extern "C" fn(*mut c_void),
    name: unsafe extern "C" fn(*mut c_void, u16) -> *const c_char,
    _library: Library,
}

impl Ndpi {
    fn open() -> Result<Self, libloading::Error> {
        // SAFETY: the library's initialisers do nothing unusual; the types are those of nDPI 4.2's ndpi_api.h, whose soname this is.
        unsafe {
            let library = Library::new("libndpi.so.4.2")?;
            let init: unsafe extern "C" fn(u32) -> *mut c_void =
                *library.get(b"ndpi_init_detection_module\0")?;
            let set: unsafe extern "C" fn(*mut c_void, *const u32) =
                *library.get(b"ndpi_set_protocol_detection_bitmask2\0")?;
            let finalize: unsafe extern "C" fn(*mut c_void) =
                *library.get(b"ndpi_finalize_initialization\0")?;
            let size: unsafe extern "C" fn() -> u32 =
                *library.get(b"ndpi_detection_get_sizeof_ndpi_flow_struct\0")?;
            let module = init(0);
            assert!(!module.is_null(), "nDPI has no memory");
            // A bit for each of 512 protocols.
            set(module, [u32::MAX; 16].as_ptr());
            finalize(module);
            Ok(Self {
                module,
                flow_bytes: size() as usize,
                process: *library.get(b"ndpi_detection_process_packet\0")?,
                give_up: *library.get(b"ndpi_detection_giveup\0")?,
                wants_more: *library.get(b"ndpi_extra_dissection_possible\0")?,
                free: *library.get(b"ndpi_free_flow_data\0")?,
                name: *library.get(b"ndpi_get_proto_name\0")?,
                _library: library,
            })
        }
    }

    fn name(&self, number: u16) -> String {
        // SAFETY: the name is text that lives as long as the module.
        let name = unsafe { CStr::from_ptr((self.name)(self.module, number)) };
        name.to_string_lossy().into_owned()
    }

    fn describe(&self, verdict: Verdict) -> String {
        match (verdict.master, verdict.application) {
            (0, application) => self.name(application),
            (master, 0) => self.name(master),
            (master, application) if master == application => self.name(master),
            (master, application) => format!("{}.{}", self.name(master), self.name(application)),
        }
    }

    /// All flows' verdicts, and how many packets were looked at.
    fn run(&self, packets: &[Numbered<'_>], flows: usize) -> (Vec<Verdict>, usize) {
        const PACKETS_MAX: u32 = 32;
        // Memory of flows, aligned, zeroed when their first packet comes.
        let mut memory: Vec<Vec<u64>> = (0..flows).map(|_| Vec::new()).collect();
        let mut verdicts = vec![Verdict::default(); flows];
        let mut counts = vec![0_u32; flows];
        let mut looked_at = 0;
        let finish = |flow: &mut Vec<u64>, verdict: &mut Verdict| {
            let mut guessed = 0;
            // SAFETY: the flow's memory is of the length that the library asked for, and has been given to it before.
            unsafe {
                if verdict.application == 0 && verdict.master == 0 {
                    *verdict =
                        (self.give_up)(self.module, flow.as_mut_ptr().cast(), 1, &mut guessed);
                }
                (self.free)(flow.as_mut_ptr().cast());
            }
        };
        for Numbered {
            flow: number,
            time_ms,
            seen,
            ..
        } in packets
        {
            if counts[*number] > PACKETS_MAX || seen.packet.is_empty() {
                continue;
            }
            let flow = &mut memory[*number];
            if flow.is_empty() {
                flow.resize(self.flow_bytes.div_ceil(8), 0);
            }
            let len = seen.packet.len().min(0xffff) as u16;
            looked_at += 1;
            // SAFETY: as above; the packet is `len` bytes long at least.
            let (verdict, wants_more) = unsafe {
                let at = flow.as_mut_ptr().cast();
                let packet = seen.packet.as_ptr();
                let verdict = (self.process)(self.module, at, packet, len, u64::from(*time_ms));
                let is_known = verdict.application != 0 || verdict.master != 0;
                (
                    verdict,
                    !is_known || (self.wants_more)(self.module, at) != 0,
                )
            };
            verdicts[*number] = verdict;
            counts[*number] += u32::from(!seen.payload.is_empty());
            if !wants_more || counts[*number] > PACKETS_MAX {
                counts[*number] = PACKETS_MAX + 1;
                finish(&mut memory[*number], &mut verdicts[*number]);
            }
        }
        for ((flow, verdict), count) in memory.iter_mut().zip(&mut verdicts).zip(&counts) {
            if !flow.is_empty() && *count <= PACKETS_MAX {
                finish(flow, verdict);
            }
        }
        (verdicts, looked_at)
    }
}

fn main() {
    let (repeat, files) = flows::arguments().unwrap_or_else(|why| {
        eprintln!("beside_ndpi: {why}");
        std::process::exit(2);
    });
    let repeat = repeat.unwrap_or(5);
    let ndpi = match Ndpi::open() {
        Ok(ndpi) => ndpi,
        Err(why) => {
            eprintln!("no nDPI: {why}; apt-get install libndpi4.2");
            std::process::exit(3);
        }
    };
    let (packets, flows) = flows::numbered(&files);
    println!(
        "{} packets of {flows} flows in {} files",
        packets.len(),
        files.len()
    );
    let mut rates = [Vec::new(), Vec::new()];
    let mut labels = Vec::new();
    let mut theirs = Vec::new();
    let mut looked_at_last = 0;
    for _ in 0..repeat {
        // As nDPI's module, which is made once.
        let mut recognizer = Recognizer::new(Settings::default(), Applications::built_in());
        let mut marks = vec![Mark::default(); flows];
        let start = Instant::now();
        recognise(&mut recognizer, &packets, &mut marks);
        rates[0].push(packets.len() as f64 / start.elapsed().as_secs_f64());
        let start = Instant::now();
        let (verdicts, looked_at) = ndpi.run(&packets, flows);
        rates[1].push(packets.len() as f64 / start.elapsed().as_secs_f64());
        (labels, theirs, looked_at_last) = (marks, verdicts, looked_at);
    }
    println!("nDPI looked at {looked_at_last} packets");
    for rates in &mut rates {
        rates.sort_by(f64::total_cmp);
    }
    let [own, other] = rates.map(|rates| rates[rates.len() / 2]);
    println!(
        "dpb {:.3} M packets/s, nDPI {:.3}, ratio {:.1}",
        own / 1e6,
        other / 1e6,
        own / other
    );
    compare(&ndpi, &labels, &theirs);
}

fn recognise(recognizer: &mut Recognizer, packets: &[Numbered<'_>], marks: &mut [Mark]) {
    for one in packets {
        let mark = &mut marks[one.flow];
        // As a program does; DNS goes on, since its answers name addresses.
        let label = mark.label();
        if label.is_some_and(|label| label.protocol != Protocol::Dns) {
            continue;
        }
        let packet = flows::packet(one.seen, one.flow as u64, one.direction);
        recognizer.packet(mark, &packet, one.time_ms);
    }
    for mark in marks {
        recognizer.end(mark, u32::MAX);
    }
}

/// How often each pair of names comes.
fn compare(ndpi: &Ndpi, labels: &[Mark], theirs: &[Verdict]) {
    let list = Applications::built_in();
    let mut pairs: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut inspected = [0, 0];
    for (mark, verdict) in labels.iter().zip(theirs) {
        let label = mark.label();
        let own = label.map_or("-".into(), |label| {
            let application = label
                .application
                .map_or("", |application| list.name(application));
            let guess = match label.evidence {
                Evidence::Port | Evidence::Name => "?",
                _ => "",
            };
            format!("{}{guess} {application}", label.protocol)
        });
        inspected[0] += usize::from(label.is_some_and(|label| label.evidence.is_inspection()));
        inspected[1] += usize::from(*verdict != Verdict::default());
        *pairs.entry((own, ndpi.describe(*verdict))).or_default() += 1;
    }
    println!(
        "flows by inspection here {}, named by nDPI (guesses too) {}",
        inspected[0], inspected[1]
    );
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for ((own, other), count) in pairs {
        println!("{count}\t{own}\t{other}");
    }
}
