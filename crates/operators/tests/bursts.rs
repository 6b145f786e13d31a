//! Operators behind one another over bursts of packets that lie in buffers of their own: each reads what the one before it has
//! written, where it lies. Nothing is copied, and after the first burst nothing is allocated.

use dpb_core::conformance::Counting;
use dpb_core::random::SplitMix64;
use dpb_core::{Backend, Buf, Buffers, OpSpec, Span, Stage, Workload};
use dpb_operators::cpu::FAMILIES;
use dpb_operators::registry::find;

#[global_allocator]
static COUNTING: Counting = Counting;

const BURST: usize = 64;
/// Room before each packet, as drivers leave it.
const HEADROOM: usize = 128;

/// An operator as a stage, and its oracle.
fn stage(cpu: &dyn Backend, name: &str, slot_bytes: u32) -> (Stage, Box<dyn Workload>) {
    let entry = find(name).expect("an operator");
    let spec: OpSpec = entry.default_spec();
    let operator = cpu.prepare(&spec).expect("a CPU has it");
    let stage = Stage::new(operator, BURST, slot_bytes, |len| cpu.alloc(len));
    let workload = entry.workload(&spec).expect("its own");
    (stage.expect("opens"), workload)
}

/// Packets of 64 to 1500 bytes behind their headroom.
fn packets(cpu: &dyn Backend) -> Vec<Buf> {
    let mut random = SplitMix64::new(7);
    let mut packet = || {
        let len = HEADROOM + 64 + random.below(1437);
        let mut buf = cpu.alloc(len).expect("memory");
        buf[HEADROOM..].fill_with(|| (random.next_u64() % 7) as u8);
        buf
    };
    (0..BURST).map(|_| packet()).collect()
}

#[test]
fn what_operators_write_others_read_without_a_copy_or_an_allocation() {
    // The harness's own thread allocates for some time after it has started this one.
    loop {
        let before = Counting::everywhere();
        std::thread::sleep(std::time::Duration::from_millis(20));
        if Counting::everywhere() == before {
            break;
        }
    }
    for name in ["cpu/portable", "cpu/best", "pool/1", "pool/2"] {
        let cpu = FAMILIES.open(name).expect("a CPU");
        let (mut deflate, _) = stage(&*cpu, "deflate", 2048);
        let (mut inflate, _) = stage(&*cpu, "inflate", 2048);
        let (mut sha256, hashes) = stage(&*cpu, "sha256", 0);
        let (mut crc, sums) = stage(&*cpu, "crc32c", 0);
        let packets = packets(&*cpu);
        let spans: Vec<Span> = packets
            .iter()
            .zip(0..)
            .map(|(packet, buf)| Span {
                buf,
                start: HEADROOM as u32,
                len: (packet.len() - HEADROOM) as u32,
            })
            .collect();
        let addresses: Vec<_> = packets.iter().map(|packet| packet.as_ptr()).collect();
        let mut packets = Buffers::from(packets);
        let mut streams = Vec::new();
        for burst in 0..20 {
            let before = Counting::everywhere();
            let given = deflate.run_over(&mut packets, &spans).expect("carried out");
            let streams_now = given.iter().map(|stream| stream.expect("fits").as_ptr());
            match burst {
                0 => streams.extend(streams_now),
                _ => assert!(streams_now.eq(streams.iter().copied()), "{name}: moved"),
            }
            inflate.run_behind(&mut deflate).expect("carried out");
            sha256.run_behind(&mut inflate).expect("carried out");
            crc.run_behind(&mut sha256).expect("carried out");
            let allocated = Counting::everywhere() - before;
            assert!(burst == 0 || allocated == 0, "{name}: {allocated}");
        }
        let moved = packets.iter().map(|packet| packet.as_ptr());
        assert!(moved.eq(addresses), "{name}: packets moved");
        let last = crc.run_behind(&mut sha256).expect("carried out");
        let right = |workload: &dyn Workload, item: &[u8], bytes| match workload.right(item, bytes)
        {
            dpb_core::Right::Only(output) => output,
            other => panic!("{other:?}"),
        };
        for (span, output) in spans.iter().zip(last.iter()) {
            let packet = &packets[span.buf as usize][HEADROOM..];
            let digest = right(&*hashes, packet, 32);
            assert_eq!(output, Ok(&right(&*sums, &digest, 4)[..]), "{name}");
        }
        // The packets came out of the stream whole.
        let unpacked = inflate.run_behind(&mut deflate).expect("carried out");
        for (span, output) in spans.iter().zip(unpacked.iter()) {
            assert_eq!(output, Ok(&packets[span.buf as usize][HEADROOM..]));
        }
    }
}
