//! `cargo run --release -p stages -- --encrypt pool/2`: see the library's page.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use dpb_core::Buf;
use stages::{ByHand, FAMILIES, Packets, Program};

/// The backend whose kernels are called by hand, too.
const CPU: &str = "cpu";

/// Bursts of 64 packets through four operators, each on a backend of its own
///
/// The outputs of the first and the last burst are judged by the operators' oracles. The time between is that of the bursts, beside
/// the kernels of cpu/best called by hand, in turns. Backends as for dpb: cpu, cpu/portable, pool/2, sim/default, faulty/,
/// dpdk/crypto_aesni_mb.
#[derive(Parser)]
struct Args {
    /// Drops damaged packets: checksum-verify on this backend
    #[arg(long, default_value = CPU)]
    verify: String,
    /// Hashes for receive-side scaling: toeplitz on this backend
    #[arg(long, default_value = CPU)]
    hash: String,
    /// Gives next hops: lpm4 on this backend
    #[arg(long, default_value = CPU)]
    route: String,
    /// Encrypts packets in place: aes-gcm on this backend, whose memory they lie in
    #[arg(long, default_value = CPU)]
    encrypt: String,
    /// The number of turns of each side
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// Bursts of a turn
    #[arg(long, default_value_t = 500)]
    bursts: u32,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let names = [&args.verify, &args.hash, &args.route, &args.encrypt];
    let mut backends = Vec::new();
    for name in names {
        backends.push(FAMILIES.open(name)?);
    }
    let backends = <[_; 4]>::try_from(backends).ok().context("four of them")?;
    let mut program = Program::new(&backends)?;
    let mut by_hand = ByHand::new(&program)?;
    let mut packets = Packets::new(1);
    let mut buffers = packets.buffers(&*backends[3])?;

    check(&mut program, &mut by_hand, &mut packets, &mut buffers)?;
    let mut turn = |run: &mut dyn FnMut(&mut Vec<Buf>) -> Result<()>| {
        let mut time = Duration::ZERO;
        for _ in 0..args.bursts {
            packets.receive(&mut buffers);
            let began = Instant::now();
            run(&mut buffers)?;
            time += began.elapsed();
        }
        anyhow::Ok(time.as_secs_f64() * 1e9 / f64::from(args.bursts))
    };
    let mut times = Vec::new();
    for round in 0..args.rounds {
        // Each has each place in turn.
        let mut of_round = [0.0; 3];
        for i in 0..3 {
            let which = (round + i) % 3;
            of_round[which] = match which {
                0 => turn(&mut |buffers| program.run(buffers).map(drop))?,
                _ => turn(&mut |buffers| by_hand.run(buffers).map(drop))?,
            };
        }
        times.push(of_round);
    }
    check(&mut program, &mut by_hand, &mut packets, &mut buffers)?;

    let median = |of: &dyn Fn(&[f64; 3]) -> f64| {
        let mut values: Vec<f64> = times.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().context("no round")
    };
    println!("a burst through the seam: {:8.0} ns", median(&|t| t[0])?);
    println!("the kernels by hand:      {:8.0} ns", median(&|t| t[1])?);
    println!(
        "by hand, with itself:     {:8.3}",
        median(&|t| t[2] / t[1])?
    );
    if names.iter().all(|name| *name == CPU) {
        println!(
            "ratio:                    {:8.3}",
            median(&|t| t[0] / t[1])?
        );
    }
    Ok(())
}

/// One burst through both, every output of the first judged, and compared with the second's.
fn check(
    program: &mut Program,
    by_hand: &mut ByHand,
    packets: &mut Packets,
    buffers: &mut Vec<Buf>,
) -> Result<()> {
    packets.receive(buffers);
    program.check(true);
    let given = program.run(buffers)?;
    let (accepted, undamaged) = (given.accepted.len(), packets.undamaged());
    ensure!(
        accepted == undamaged,
        "{accepted} packets accepted, {undamaged} undamaged"
    );
    let given = [given.hashes.to_vec(), given.hops.to_vec()];
    program.check(false);
    let encrypted: Vec<Vec<u8>> = buffers.iter().map(|buf| buf.to_vec()).collect();
    packets.again();
    packets.receive(buffers);
    let (hashes, hops) = by_hand.run(buffers)?;
    ensure!(given == [hashes, hops], "by hand hashes or hops differ");
    let is_same = encrypted.iter().zip(&*buffers).all(|(a, b)| a[..] == b[..]);
    ensure!(is_same, "by hand packets differ");
    Ok(())
}
