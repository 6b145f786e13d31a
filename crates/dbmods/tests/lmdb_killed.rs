//! LMDB in a process that is killed at random moments keeps what it promises: every transaction whole, and none lost that was committed.
//!
//! The promise to a process that dies is the same at each durability; what a crash of the system does is not tried here. Moments lie anywhere from the
//! start of the process on: while it opens the index, before its first transaction, within one. `DPB_KILLS` is the number of moments, 100 unless given. A
//! process that writes a round in two transactions is found out.

use std::io::{BufRead, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use dpb_core::random::SplitMix64;
use dpb_dbmods::index::{Durability, Index, KeyRange, Lmdb, LmdbOptions, Write};

/// The folder for the process that will be killed, and its durability.
const FOLDER: &str = "DPB_LMDB_KILLED_FOLDER";
const DURABILITY: &str = "DPB_LMDB_KILLED_DURABILITY";
/// Set for a process that writes each round in two transactions.
const IN_TWO: &str = "DPB_LMDB_KILLED_IN_TWO";
/// How many moments are tried.
const KILLS: &str = "DPB_KILLS";

/// Keys that every transaction writes.
const KEYS: u64 = 50;

const ALL: [(&str, Durability); 3] = [
    ("none", Durability::None),
    ("commit", Durability::Commit),
    ("sync", Durability::Sync),
];

fn open(folder: &Path, durability: Durability) -> Arc<Lmdb> {
    let opened = Lmdb::open(&LmdbOptions {
        durability,
        ..LmdbOptions::new(folder, 16 << 20)
    });
    Arc::new(opened.expect("an index"))
}

/// The number that every key has, or zero if there is no key.
fn round_of(index: &Arc<Lmdb>) -> Result<u64, String> {
    let mut rounds = Vec::new();
    let mut session = index.clone().session().expect("the first");
    let count = session.scan(KeyRange::ALL, usize::MAX, &mut |_, value| {
        rounds.push(u64::from_be_bytes(*value.first_chunk().expect("a number")));
        ControlFlow::Continue(())
    });
    let first = rounds.first().copied().unwrap_or(0);
    match count.expect("reads") as u64 {
        0 => Ok(0),
        KEYS if rounds.iter().all(|round| *round == first) => Ok(first),
        count => Err(format!(
            "a transaction is there in part: {count} keys of {rounds:?}"
        )),
    }
}

/// Not a test of its own: it writes until it is killed, and says what was committed.
#[test]
fn writes_until_it_is_killed() {
    let (Some(folder), Ok(word)) = (std::env::var_os(FOLDER), std::env::var(DURABILITY)) else {
        return;
    };
    let durability = ALL.iter().find(|(name, _)| *name == word);
    let (_, durability) = durability.expect("one of the words");
    let index = open(Path::new(&folder), *durability);
    let mut out = std::io::stdout().lock();
    for round in round_of(&index).unwrap_or(0) + 1.. {
        // Lengths change, so that pages split and are used again.
        let value = round.to_be_bytes().repeat(1 + round as usize % 40);
        let keys: Vec<_> = (0..KEYS).map(|key| (key << 40).to_be_bytes()).collect();
        let writes: Vec<_> = (keys.iter())
            .map(|key| Write::Put { key, value: &value })
            .collect();
        let at = if std::env::var_os(IN_TWO).is_some() {
            writes.len() / 2
        } else {
            0
        };
        for writes in [&writes[..at], &writes[at..]] {
            index.apply(writes).expect("writes");
        }
        writeln!(out, "committed {round}")
            .and_then(|()| out.flush())
            .expect("is heard");
    }
}

#[test]
fn what_was_committed_survives_its_process() {
    let kills = std::env::var(KILLS).map_or(100, |kills| kills.parse().expect("a number"));
    let mut random = SplitMix64::new(7);
    let folder = tempfile::tempdir().expect("a folder");
    let mut rounds = [0; ALL.len()];
    for kill in 0..kills {
        let (word, durability) = ALL[kill % ALL.len()];
        let folder = folder.path().join(word);
        let told = kill_after(&folder, word, false, wait(&mut random));
        let index = open(&folder, durability);
        let round = round_of(&index).unwrap_or_else(|why| panic!("{word}: {why}"));
        // What was committed last may not have been told.
        assert!(
            round >= told,
            "{word}: {told} was committed, {round} is there"
        );
        assert!(
            round >= rounds[kill % ALL.len()],
            "{word} went back to {round}"
        );
        rounds[kill % ALL.len()] = round;
        if round > 0 {
            // And the index goes on.
            index
                .put(&[0; 8], &(round + 1).to_be_bytes())
                .expect("writes");
            index.put(&[0; 8], &round.to_be_bytes()).expect("writes");
        }
    }
    assert!(
        rounds.iter().all(|round| *round > 0) || kills < 30,
        "{rounds:?}"
    );
}

#[test]
fn finds_a_round_that_is_two_transactions() {
    let mut random = SplitMix64::new(8);
    let folder = tempfile::tempdir().expect("a folder");
    // Where it waits for the disk between the two.
    let (word, durability) = ALL[2];
    let is_found = (0..200).any(|_| {
        kill_after(folder.path(), word, true, wait(&mut random));
        round_of(&open(folder.path(), durability)).is_err()
    });
    assert!(is_found, "no process was killed between two transactions");
}

/// Most often within the first transactions, and at times before.
fn wait(random: &mut SplitMix64) -> Duration {
    Duration::from_micros(match random.below(4) {
        0 => random.below(5_000),
        _ => 5_000 + random.below(40_000),
    } as u64)
}

/// Starts a process that writes, and kills it a while after. Gives the last round that it told of.
fn kill_after(folder: &Path, word: &str, in_two: bool, wait: Duration) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command
        .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(DURABILITY, word)
        .stdout(Stdio::piped());
    if in_two {
        command.env(IN_TWO, "");
    }
    let mut child = command.spawn().expect("this program runs");
    std::thread::sleep(wait);
    child.kill().expect("it still runs");
    child.wait().expect("it ended");
    let mut told = 0;
    // A line that was cut off has a shorter number, which is smaller.
    for line in BufReader::new(child.stdout.take().expect("is piped")).lines() {
        let line = line.unwrap_or_default();
        // Another test's output may precede it.
        if let Some((_, round)) = line.rsplit_once("committed ") {
            told = round.parse().unwrap_or(told);
        }
    }
    told
}
