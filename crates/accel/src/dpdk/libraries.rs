//! DPDK's own libraries as backends, beside its devices: code for the caller's core, which needs neither rights nor a card.
//!
//! | operator | by |
//! |---|---|
//! | `checksum form=plain` | `rte_raw_cksum` |
//! | `crc32`, `crc32c` | `rte_net_crc_calc`, `rte_hash_crc` |
//! | `toeplitz queues=0` | `rte_thash_gfni_bulk`, or `rte_softrss_be` on a CPU without GFNI or without AVX-512 |
//! | `lpm4`, `lpm6` | `dpdk/libraries`: `rte_fib`, `rte_fib6`; `dpdk/lpm`: `rte_lpm`, `rte_lpm6` |
//!
//! `rte_gso` and `rte_ip_frag` work on IPv4 alone (and IPv6 without extension headers), which no operator's items are: as backends
//! they refuse, [`Packets`] calls them on what they take. What DPDK's own call costs without what the operator needs around it, bytes
//! turned round and results in their slots, is [`Routes::bursts_v4`] and [`Hashes::bulk`].

mod flows;
mod routes;

use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::cpu_level::Level;
use dpb_core::{
    Backend, Batch, BatchOut, Buf, ChecksumForm, Clock, FragmentsKept, HashTuple, Inline, IpFamily,
    JobError, Kernel, Limits, Material, OpSpec, Operator, OutputShape, Properties,
    SegmentationMode, SetupError, Unsupported, WallClock, match_spec, spec,
};

use super::raw::{self, Eal, Pieces, Sum, Work};
use super::sys::libraries::SUMMED_MAX;
pub use flows::{Flows, Received};
pub use routes::{PrefixMatch, Routes};

/// Jobs that a queue may hold.
const DEPTH_MAX: NonZeroU32 = NonZeroU32::new(1024).unwrap();

/// DPDK's libraries, compiled for the best instruction sets that this CPU has.
#[derive(Clone, Copy)]
pub struct Libraries(raw::Libraries);

/// A backend: its name after the slash, and a description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    prefix_match: PrefixMatch,
    /// Whether longest prefix match is all that it has.
    is_lookup_only: bool,
}

/// All of them.
pub(super) const INSTANCES: [Instance; 2] = [
    Instance {
        name: "libraries",
        what: "DPDK's own libraries on the caller's core; of lookups its FIB",
        prefix_match: PrefixMatch::Fib,
        is_lookup_only: false,
    },
    Instance {
        name: "lpm",
        what: "DPDK's LPM library on the caller's core; a million routes of IPv4 take it minutes to fill",
        prefix_match: PrefixMatch::Lpm,
        is_lookup_only: true,
    },
];

/// Checksums and CRCs: [`Kernel`] of fixed outputs.
#[derive(Clone, Copy)]
pub struct Sums {
    libraries: Libraries,
    sum: Sum,
}

/// Toeplitz hashes of tuples that lie one behind another: [`Kernel`] of variable outputs, four bytes a tuple, little endian.
pub struct Hashes(raw::Hash);

/// The places of a batch's tuples, as [`Hashes::bulk`] takes them.
pub struct Tuples<'a>(raw::Tuples<'a>);

/// Packets in mbufs, set up for one batch: cut, or put together, again and again. What a program does once is in its making,
/// [`Packets::run`] is what it does for each batch.
pub struct Packets<'a>(Pieces<'a>);

impl Libraries {
    /// Starts EAL, at the first call.
    ///
    /// # Errors
    /// There is no shim, or EAL does not start.
    pub fn load() -> Result<Self, Unsupported> {
        let eal = Eal::start()?;
        let mut levels = (0..).map_while(|nth| raw::Libraries::of(eal, nth));
        levels
            .find(|libraries| is_allowed(&libraries.level()))
            .map(Self)
            .ok_or_else(|| because("the shim has no code for this CPU".to_owned()))
    }

    /// The instruction sets that they are compiled for: `base` (what DPDK itself was built for), `avx2`, `avx512`.
    pub fn level(&self) -> String {
        self.0.level()
    }

    /// `22.11.11`.
    pub fn version(&self) -> String {
        let version = self.0.eal().version();
        version.trim_start_matches("DPDK ").to_owned()
    }

    /// The checksum or CRC that `spec` asks for.
    ///
    /// # Errors
    /// DPDK's libraries do not have the operator.
    pub fn sums(&self, spec: &OpSpec) -> Result<Sums, Unsupported> {
        let sum = match_spec!(spec, {
            spec::Checksum { form: ChecksumForm::Plain } => Sum::Checksum,
            spec::Checksum { form } => {
                return Err(because(format!(
                    "rte_raw_cksum sums bytes and finds no field in them: form=plain, not form={}",
                    form.name()
                )));
            },
            spec::Crc32 => Sum::Crc32,
            spec::Crc32c => Sum::Crc32c,
        } else {
            return Err(none(spec));
        });
        Ok(Sums {
            libraries: *self,
            sum,
        })
    }

    /// The hash that `spec` asks for.
    ///
    /// # Errors
    /// DPDK's libraries do not have the operator, or there is no memory.
    pub fn hashes(&self, spec: &OpSpec) -> Result<Hashes, Unsupported> {
        let (form, key) = toeplitz(spec)?;
        let hash = raw::Hash::new(self.0, key, form.bytes());
        hash.map(Hashes)
            .ok_or_else(|| because("no memory for a key".to_owned()))
    }

    /// The pieces that `rte_gso` or `rte_ip_frag` makes of the packets of `batch`, with slots of `slot` bytes.
    ///
    /// # Errors
    /// `spec` is neither segmentation, fragmentation nor reassembly; a packet is not of IPv4 without options, or not to be cut; or there
    /// is no memory.
    pub fn packets<'a>(
        &self,
        spec: &OpSpec,
        batch: Batch<'a>,
        slot: usize,
    ) -> Result<Packets<'a>, Unsupported> {
        let work = match_spec!(spec, {
            &spec::Segmentation { mss, mode } => match mode {
                SegmentationMode::Copy => Work::Segments(mss),
                SegmentationMode::Descriptor => Work::Descriptors(mss),
            },
            &spec::Fragmentation { mtu } => Work::Fragments(mtu),
            spec::Reassembly { keep: FragmentsKept::Item, .. } => Work::Datagrams,
        } else {
            return Err(none(spec));
        });
        Pieces::new(self.0, work, batch, slot).map(Packets)
    }
}

/// Whether [`cpu_level`](dpb_core::cpu_level) leaves what code compiled for `level` needs.
fn is_allowed(level: &str) -> bool {
    match level {
        "avx512" => Level::of(&["avx512f"]).is_allowed(),
        "avx2" => Level::of(&["avx2"]).is_allowed(),
        _ => true,
    }
}

/// The parameters of a spec of `toeplitz`.
fn toeplitz(spec: &OpSpec) -> Result<(HashTuple, &[u8]), Unsupported> {
    let spec::Toeplitz { form, queues, key } = spec.get().ok_or_else(|| none(spec))?;
    match (queues, key.bytes().len()) {
        (0, 40 | 52) => Ok((*form, key.bytes())),
        (0, bytes) => Err(because(format!("a key of {bytes} bytes, not 40 or 52"))),
        _ => Err(because(format!(
            "rte_thash gives hashes, and leaves queues to a card: queues=0, not queues={queues}"
        ))),
    }
}

fn because(reason: String) -> Unsupported {
    Unsupported { reason }
}

/// The reason that there is no kernel for another operator.
fn none(spec: &OpSpec) -> Unsupported {
    let compared = "; `cargo xtask bench --peers` compares it on those";
    let reason = match_spec!(spec, {
        spec::Segmentation { .. } => {
            format!("rte_gso segments TCP over IPv4 alone, items are of IPv6 too{compared}")
        },
        spec::Fragmentation { .. } => format!(
            "rte_ip_frag fragments IPv6 without extension headers alone, items have them too{compared} without options"
        ),
        spec::Reassembly { .. } => format!(
            "rte_ip_frag puts eight fragments together and no more, and knows no IPv6 extension headers; items may have \
             both{compared} that it takes"
        ),
    } else {
        format!("DPDK's libraries have no {}", spec.name())
    });
    because(reason)
}

/// The libraries as a backend.
pub(super) struct LibrariesBackend {
    name: String,
    libraries: Libraries,
    instance: Instance,
    clock: WallClock,
}

impl LibrariesBackend {
    /// See [`Libraries::level`].
    pub(super) fn level(&self) -> String {
        self.libraries.level()
    }

    /// Named `dpdk/libraries`, or as another instance.
    ///
    /// # Errors
    /// See [`Libraries::load`].
    pub(super) fn new(instance: Instance) -> Result<Self, Unsupported> {
        Ok(Self {
            name: format!("dpdk/{}", instance.name),
            libraries: Libraries::load()?,
            instance,
            clock: WallClock::default(),
        })
    }
}

impl Backend for LibrariesBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn properties(&self) -> Properties {
        Properties::of_this_cpu().with_library(format!("DPDK {}", self.libraries.version()))
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        let mut limits = Limits::new(DEPTH_MAX);
        limits.synchronous = true;
        // Offsets and lengths of items are 32 bits.
        limits.input_bytes_max = u32::MAX as usize;
        if spec.is::<spec::Lpm>() {
            routes::check(spec, self.instance.prefix_match)?;
        } else if self.instance.is_lookup_only {
            return Err(because(format!("rte_lpm has no {}", spec.name())));
        } else if spec.is::<spec::Toeplitz>() {
            toeplitz(spec)?;
        } else if self.libraries.sums(spec)?.sum == Sum::Checksum {
            limits.item_bytes_max = SUMMED_MAX;
        }
        Ok(limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let limits = self.limits(spec).map_err(SetupError::Unsupported)?;
        let (libraries, spec) = (&self.libraries, spec.clone());
        let operator: Result<Arc<dyn Operator>, Unsupported> = if spec.is::<spec::Lpm>() {
            libraries
                .routes(&spec, self.instance.prefix_match)
                .map(|kernel| Arc::new(Inline::new(kernel, spec, limits)) as _)
        } else if spec.is::<spec::Toeplitz>() {
            libraries
                .hashes(&spec)
                .map(|kernel| Arc::new(Inline::new(kernel, spec, limits)) as _)
        } else {
            libraries
                .sums(&spec)
                .map(|kernel| Arc::new(Inline::new(kernel, spec, limits)) as _)
        };
        operator.map_err(SetupError::Unsupported)
    }
}

impl Sums {
    /// The sum of each item, one behind the other; what [`Kernel::run`] does, alone.
    ///
    /// # Panics
    /// If `dst` is too short for them, an item of a checksum is longer than 128 KiB, or the batch is of 4 GiB or more.
    pub fn compute(&self, batch: Batch<'_>, dst: &mut [u8]) {
        self.libraries.0.sum(self.sum, batch, dst);
    }
}

impl Hashes {
    /// The places of the tuples of `batch`.
    pub fn tuples<'a>(&self, batch: Batch<'a>) -> Tuples<'a> {
        Tuples(raw::Tuples::new(batch, self.0.tuple_bytes()))
    }

    /// DPDK's own calls for many tuples: their hashes, in the CPU's byte order. For who compares the cost of these calls.
    ///
    /// # Panics
    /// If there is not one place for each tuple, or they are of another hash.
    pub fn bulk(&self, tuples: &Tuples<'_>, hashes: &mut [u32]) {
        self.0.bulk(&tuples.0, hashes);
    }
}

impl Kernel for Sums {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(self.sum.bytes())
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        self.sum.bytes()
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.fixed(&batch, self.sum.bytes(), |batch, sums| {
            self.compute(*batch, sums)
        });
        Ok(())
    }
}

impl Kernel for Hashes {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len / self.0.tuple_bytes() * 4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        dpb_core::records(batch, out, self.0.tuple_bytes(), |tuples, hashes| {
            self.0.hash_all(tuples, hashes.as_flattened_mut());
        });
        Ok(())
    }
}

impl Packets<'_> {
    /// Does the batch once.
    pub fn run(&mut self) {
        self.0.run();
    }

    /// Overwrites all slots with `byte`.
    pub fn fill(&mut self, byte: u8) {
        self.0.fill(byte);
    }

    /// The outcome of each item in the last run, as the operators write it.
    pub fn outputs(&mut self) -> Vec<&[u8]> {
        self.0.outputs()
    }
}

/// A spec of each operator that the libraries may be asked for, whose limits tell without a key or a route list.
pub(super) fn samples() -> Vec<OpSpec> {
    let key = [0; 40];
    let lookups = |family| {
        OpSpec::from(spec::Lpm {
            family,
            routes: Material::public(""),
        })
    };
    vec![
        OpSpec::from(spec::Checksum {
            form: ChecksumForm::Plain,
        }),
        OpSpec::from(spec::Crc32),
        OpSpec::from(spec::Crc32c),
        OpSpec::from(spec::Toeplitz {
            form: HashTuple::Ipv4Ports,
            queues: 0,
            key: Material::public(key),
        }),
        lookups(IpFamily::V4),
        lookups(IpFamily::V6),
        OpSpec::from(spec::Checksum {
            form: ChecksumForm::Ipv4,
        }),
        OpSpec::from(spec::Segmentation {
            mss: 1460,
            mode: SegmentationMode::Copy,
        }),
        OpSpec::from(spec::Fragmentation { mtu: 1500 }),
        OpSpec::from(spec::Reassembly {
            keep: FragmentsKept::Item,
            datagrams: 64,
            timeout_ms: 60_000,
        }),
    ]
}

#[cfg(test)]
mod tests {
    use dpb_core::conformance;
    use dpb_operators::registry;

    use super::*;

    /// Levels that a CPU with a higher one is otherwise not asked for.
    #[test]
    fn every_level_of_instruction_sets_conforms() {
        let eal = match Eal::start() {
            Ok(eal) => eal,
            Err(why) => return println!("skipped: DPDK's libraries: {why}"),
        };
        let mut levels = Vec::new();
        for libraries in (0..).map_while(|nth| raw::Libraries::of(eal, nth).map(Libraries)) {
            let backend = LibrariesBackend {
                name: format!("dpdk/libraries at {}", libraries.level()),
                libraries,
                instance: INSTANCES[0],
                clock: WallClock::default(),
            };
            for operator in ["checksum", "crc32", "crc32c", "toeplitz", "lpm4", "lpm6"] {
                let entry = registry::find(operator).expect("registered");
                let workload = entry.workload(entry.default_spec()).expect("its own");
                let coverage = conformance::check(&backend, &[&*workload]);
                assert!(coverage.expect("conforms").items > 0);
            }
            levels.push(libraries.level());
        }
        assert_eq!(levels.last().map(String::as_str), Some("base"));
    }
}
