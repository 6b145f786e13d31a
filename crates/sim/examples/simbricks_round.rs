//! The time of a synchronised round between three simulators in processes of their own: two ends, and a switch between them.
//!
//! ```sh
//! cargo run --release -p dpb-sim --example simbricks_round -- 20000 7
//! ```
//!
//! 20000 rounds, 7 runs of each kind. The links have 500 ns, and so has the interval of SYNCs: in each round of 500 ns of virtual time everybody
//! hears everybody once. One kind of runs sends SYNCs alone, the other a frame of 64 bytes from each end in each round as well.
//! The switch takes the wall time, from the first to the last round.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use dpb_sim::simbricks::{
    Endpoint, LinkParams, Listener, RingShape, Sent, SyncMode, Waiting, connect,
};

/// Latency and interval of SYNCs.
const ROUND_PS: u64 = 500_000;
/// The time that processes have to find each other.
const PATIENCE: Duration = Duration::from_secs(20);
/// The sides' parameters.
const SIDE: LinkParams = LinkParams {
    sync: SyncMode::Required,
    link_latency_ps: ROUND_PS,
    sync_interval_ps: ROUND_PS,
};

type Anything<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["end", path, rounds, frames] => end(path, rounds, frames),
        ["switch", folder, rounds] => switch(Path::new(folder), rounds),
        [] => measure("20000", "7"),
        [rounds, runs] => measure(rounds, runs),
        _ => Err("simbricks_round [ROUNDS RUNS]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simbricks_round: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs everything, and prints a line for each kind of runs.
fn measure(rounds: &str, runs: &str) -> Anything<()> {
    let runs: usize = runs.parse()?;
    let cores = std::thread::available_parallelism()?;
    println!("3 processes on {cores} cores, {rounds} rounds of 500 ns, {runs} runs");
    for (frames, what) in [("0", "SYNCs alone"), ("1", "a frame each way")] {
        let mut round_us = Vec::new();
        for _ in 0..runs {
            round_us.push(run(rounds, frames)?);
        }
        round_us.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (round_us.first(), round_us.last()) else {
            return Err("no runs".into());
        };
        let median = round_us[runs / 2];
        println!("{what}: {median:.2} us a round (median; {least:.2} to {most:.2})");
    }
    Ok(())
}

/// A process, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended by itself is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(words: &[&str]) -> Anything<Running> {
    let mut command = Command::new(env::current_exe()?);
    command.args(words).stdout(Stdio::piped());
    Ok(Running(command.spawn()?))
}

/// One run: microseconds a round.
fn run(rounds: &str, frames: &str) -> Anything<f64> {
    let folder = tempfile::tempdir()?;
    let path = |end: &str| folder.path().join(end).display().to_string();
    let mut switch = start(&["switch", &path(""), rounds])?;
    let mut ends = [
        start(&["end", &path("a"), rounds, frames])?,
        start(&["end", &path("b"), rounds, frames])?,
    ];
    for end in &mut ends {
        if !end.0.wait()?.success() {
            return Err("an end has failed".into());
        }
    }
    let mut said = String::new();
    if let Some(stdout) = &mut switch.0.stdout {
        std::io::Read::read_to_string(stdout, &mut said)?;
    }
    Ok(said.trim().parse()?)
}

/// The process at an end: it checks that each frame of the other end took two latencies.
fn end(path: &str, rounds: &str, frames: &str) -> Anything<()> {
    let (rounds, frames): (u64, u64) = (rounds.parse()?, frames.parse()?);
    let mut link = [connect(path, SIDE, PATIENCE)?];
    let (mut now_ps, mut heard) = (0, 0);
    for round in 0..rounds {
        let frame = [round as u8; 64];
        // A frame is as good as a SYNC, if it is sent first.
        if frames == 1 {
            send(&mut link[0], now_ps, &frame)?;
        }
        promise(&mut link, now_ps)?;
        hear(&mut link, now_ps, |_, timestamp_ps, frame| {
            let is_right = timestamp_ps == (heard + 2) * ROUND_PS && frame[63] == heard as u8;
            heard += 1;
            if is_right {
                Ok(())
            } else {
                Err("a frame at a wrong time".into())
            }
        })?;
        now_ps = next(&link);
    }
    // The frames of the last two rounds are still on their way.
    if frames == 1 && heard + 2 != rounds {
        return Err(format!("{heard} frames in {rounds} rounds").into());
    }
    while link[0].terminate()? == Sent::Full {
        std::thread::yield_now();
    }
    Ok(())
}

/// The process in the middle: whatever comes from one end goes to the other.
fn switch(folder: &Path, rounds: &str) -> Anything<()> {
    let rounds: u64 = rounds.parse()?;
    let listen = |end: &str| Listener::bind(folder.join(end), RingShape::ETHERNET, SIDE);
    let (a, b) = (listen("a")?, listen("b")?);
    let mut links = [a.accept(PATIENCE)?, b.accept(PATIENCE)?];
    let mut now_ps = 0;
    let mut passing: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut first = None;
    let mut elapsed = Duration::ZERO;
    while now_ps < u64::MAX {
        if now_ps == ROUND_PS {
            first = Some(Instant::now());
        } else if let Some(first) = first
            && now_ps == (rounds - 1) * ROUND_PS
        {
            elapsed = first.elapsed();
        }
        promise(&mut links, now_ps)?;
        hear(&mut links, now_ps, |from, _, frame| {
            passing.push((1 - from, frame.to_vec()));
            Ok(())
        })?;
        for (to, frame) in passing.drain(..) {
            send(&mut links[to], now_ps, &frame)?;
        }
        now_ps = next(&links);
    }
    println!("{}", elapsed.as_secs_f64() * 1e6 / (rounds - 2) as f64);
    Ok(())
}

fn send(link: &mut Endpoint, now_ps: u64, frame: &[u8]) -> Anything<()> {
    let mut waiting = Waiting::new(false);
    while link.send(now_ps, frame)? == Sent::Full {
        waiting.pause();
    }
    Ok(())
}

/// The first step of a round.
fn promise(links: &mut [Endpoint], now_ps: u64) -> Anything<()> {
    let mut waiting = Waiting::new(false);
    for link in links {
        while !link.out_sync(now_ps)? {
            waiting.pause();
        }
    }
    Ok(())
}

/// The second step: everything that arrives up to this time goes to `receive`, with its link and its time.
fn hear(
    links: &mut [Endpoint],
    now_ps: u64,
    mut receive: impl FnMut(usize, u64, &[u8]) -> Anything<()>,
) -> Anything<()> {
    let mut waiting = Waiting::new(false);
    for (number, link) in links.iter_mut().enumerate() {
        loop {
            if let Some(received) = link.poll(now_ps)? {
                receive(number, received.timestamp_ps, received.frame)?;
            } else if link.input_timestamp_ps() > now_ps {
                break;
            } else {
                waiting.pause();
            }
        }
    }
    Ok(())
}

/// The third step: the next time.
fn next(links: &[Endpoint]) -> u64 {
    let bounds = links.iter();
    let bounds = bounds.map(|link| link.input_timestamp_ps().min(link.next_sync_ps()));
    bounds.min().unwrap_or(u64::MAX)
}
