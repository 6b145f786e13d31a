//! The stages on every kind of backend: what they give is right, no packet moves, and after the first burst nothing is allocated.

use dpb_core::conformance::Counting;
use stages::{BURST, FAMILIES, Packets, Program};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs 20 bursts on these backends, in the order of the stages. The first and the last are judged.
fn run(names: [&str; 4]) {
    let backends = names.map(|name| FAMILIES.open(name).expect("a backend"));
    let mut program = Program::new(&backends).expect("they have the operators");
    let mut packets = Packets::new(7);
    let mut buffers = packets.buffers(&*backends[3]).expect("memory");
    let places: Vec<_> = buffers.iter().map(|buf| buf.as_ptr()).collect();
    for burst in 0..20 {
        packets.receive(&mut buffers);
        let is_checked = burst == 0 || burst == 19;
        program.check(is_checked);
        let before = Counting::everywhere();
        let given = program
            .run(&mut buffers)
            .expect("every stage does its work");
        let allocated = Counting::everywhere() - before;
        // The oracles allocate, and so does a stage's first burst.
        assert!(
            is_checked || allocated == 0,
            "{names:?}: {allocated} allocations"
        );
        let accepted = packets.undamaged();
        assert_eq!(given.accepted.len(), accepted);
        assert_eq!([given.hashes.len(), given.hops.len()], [4 * accepted; 2]);
        let moved = buffers.iter().map(|buf| buf.as_ptr());
        assert!(moved.eq(places.iter().copied()), "{names:?}: packets moved");
    }
    assert_eq!(buffers.len(), BURST);
}

/// One test: whatever else ran beside it would be counted.
#[test]
fn stages_move_between_backends() {
    for one in [
        "cpu",
        "cpu/portable",
        "pool/1",
        "pool/2",
        "sim/default",
        "faulty/",
    ] {
        run([one; 4]);
    }
    run(["cpu", "pool/2", "sim/default", "faulty/"]);
    run(["sim/default", "faulty/", "cpu", "pool/1"]);
    for (names, device) in [
        (["cpu", "dpdk/libraries", "dpdk/libraries", "cpu"], 1),
        (["cpu", "cpu", "cpu", "dpdk/crypto_aesni_mb"], 3),
    ] {
        let backends = names.map(|name| FAMILIES.open(name).expect("a known name"));
        match Program::new(&backends) {
            Ok(_) => run(names),
            Err(why) => println!("skipped: {}: {why:#}", names[device]),
        }
    }
}
