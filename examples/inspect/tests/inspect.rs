//! Captures on every kind of backend: what is found is what other implementations find, and after the first bursts nothing is
//! allocated. The allocations of the whole process count, so the test has a process to itself.

use std::ops::Range;

use dpb_core::conformance::Counting;
use dpb_core::{Buf, View};
use dpb_net::port::capture;
use inspect::{BURST, Found, Inspector};
use sha2::{Digest, Sha256};

mod support;

use support::{Frame, Kind, expected, files, frames, pcap, toeplitz};

#[global_allocator]
static COUNTING: Counting = Counting;

fn memory(bytes: &[u8]) -> View {
    let mut file = Buf::zeroed(bytes.len()).unwrap();
    file.copy_from_slice(bytes);
    file.freeze()
}

const DELAYS: &str = "faulty/delay_polls_max=3,reorder=1";
/// The backends of the steps: the caller's thread, a pool, and a different kind for each step.
const BACKENDS: [[&str; 6]; 3] = [
    ["cpu"; 6],
    // An automaton of rules grows where payloads lead it. Each worker has its own, so that with two of them nobody can say when both
    // have grown up.
    ["pool/2", "pool/2", "pool/2", "pool/1", "pool/2", "pool/2"],
    [
        "cpu/portable",
        "sim/default",
        DELAYS,
        "pool/1",
        "sim/default",
        DELAYS,
    ],
];

/// A capture with what others find in it.
struct Capture {
    file: View,
    packets: Vec<Range<usize>>,
    found: Found,
    payloads: Vec<Vec<u8>>,
    /// Packets of IPv6, whose routes are dpb's own.
    of_v6: u64,
}

impl Capture {
    fn new() -> Self {
        let frames = frames(5 * BURST + 7);
        let bytes = pcap(&frames);
        let packets: Result<Vec<_>, _> = capture::packets(&bytes).unwrap().collect();
        let packets = packets.unwrap();
        assert_eq!(packets.len(), frames.len());
        let is_of_v6 = |frame: &&Frame| match frame.kind {
            Kind::Right { destination, .. } => destination.is_ipv6(),
            Kind::NotIp | Kind::Damaged => false,
        };
        let (found, payloads) = expected(&frames);
        Self {
            file: memory(&bytes),
            packets,
            found,
            payloads,
            of_v6: frames.iter().filter(is_of_v6).count() as u64,
        }
    }

    fn inspect(
        &self,
        inspector: &mut Inspector,
        mut each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> Found {
        let mut found = Found::default();
        for burst in self.packets.chunks(BURST) {
            let each =
                |place, digest: &[u8], stream: &[u8]| each(&self.file[place], digest, stream);
            inspector
                .inspect(&self.file, burst, &mut found, each)
                .unwrap();
        }
        found
    }

    fn assert_found(&self, inspector: &mut Inspector) {
        let mut matched = 0;
        let mut compressed_bytes = 0;
        let mut found = self.inspect(inspector, |payload, digest, stream| {
            assert_eq!(payload, self.payloads[matched]);
            assert_eq!(digest, &Sha256::digest(payload)[..]);
            let plain = miniz_oxide::inflate::decompress_to_vec(stream).unwrap();
            assert_eq!(plain, payload);
            matched += 1;
            compressed_bytes += stream.len() as u64;
        });
        assert_eq!(matched, self.payloads.len());
        assert_eq!(found.bytes, [self.found.bytes[0], compressed_bytes]);
        found.bytes = self.found.bytes;
        let of_v4: u64 = self.found.by_hop.values().sum();
        assert_eq!(found.by_hop.values().sum::<u64>(), of_v4 + self.of_v6);
        for (hop, count) in &self.found.by_hop {
            assert!(found.by_hop[hop] >= *count, "{hop:?}");
        }
        found.by_hop.clone_from(&self.found.by_hop);
        assert_eq!(found, self.found);
    }
}

#[test]
fn what_is_found_is_what_others_find_and_nothing_is_allocated() {
    // The published example of the key.
    let tuple = [
        [66, 9, 149, 187],
        [161, 142, 100, 80],
        [0x0a, 0xea, 0x06, 0xe6],
    ];
    assert_eq!(toeplitz(tuple.as_flattened()), 0x51cc_c178);
    let folder = tempfile::tempdir().unwrap();
    let [routes, rules] = files(folder.path());
    let capture = Capture::new();
    for backends in BACKENDS {
        let mut inspector = Inspector::new(backends, &routes, &rules)
            .unwrap_or_else(|error| panic!("{backends:?}: {error:#}"));
        capture.assert_found(&mut inspector);
        let mut found = Found::default();
        for pass in 0..5 {
            let before = Counting::everywhere();
            for burst in capture.packets.chunks(BURST) {
                let each = |_, _: &[u8], _: &[u8]| {};
                inspector
                    .inspect(&capture.file, burst, &mut found, each)
                    .unwrap();
            }
            let allocated = Counting::everywhere() - before;
            // The lists of counts get their entries in the first pass.
            assert!(
                pass == 0 || allocated == 0,
                "{backends:?}, pass {pass}: {allocated}"
            );
        }
    }
}
