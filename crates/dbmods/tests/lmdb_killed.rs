//! LMDB in a process that is killed at random moments keeps what it promises: every transaction whole, and none lost that was committed.
//!
//! The promise to a process that dies is the same at each durability; what a crash of the system does is not tried here. `DPB_KILLS` is the
//! number of moments, 20 unless given.

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

/// The number that every key has, or none if there is no key.
fn round_of(index: &Arc<Lmdb>) -> u64 {
    let mut rounds = Vec::new();
    let mut session = index.clone().session().expect("the first");
    let count = session.scan(KeyRange::ALL, usize::MAX, &mut |_, value| {
        rounds.push(u64::from_be_bytes(*value.first_chunk().expect("a number")));
        ControlFlow::Continue(())
    });
    match count.expect("reads") {
        0 => 0,
        count => {
            assert_eq!(count as u64, KEYS, "a transaction is there in part");
            assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
            rounds[0]
        }
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
    for round in round_of(&index) + 1.. {
        // Lengths change, so that pages split and are used again.
        let value = round.to_be_bytes().repeat(1 + round as usize % 40);
        let keys: Vec<_> = (0..KEYS).map(|key| (key << 40).to_be_bytes()).collect();
        let writes: Vec<_> = (keys.iter())
            .map(|key| Write::Put { key, value: &value })
            .collect();
        index.apply(&writes).expect("writes");
        writeln!(out, "committed {round}")
            .and_then(|()| out.flush())
            .expect("is heard");
    }
}

#[test]
fn what_was_committed_survives_its_process() {
    let kills = std::env::var(KILLS).map_or(20, |kills| kills.parse().expect("a number"));
    let mut random = SplitMix64::new(7);
    let folder = tempfile::tempdir().expect("a folder");
    for kill in 0..kills {
        let (word, durability) = ALL[kill % ALL.len()];
        let folder = folder.path().join(word);
        let told = kill_after(
            &folder,
            word,
            Duration::from_micros(random.below(60_000) as u64),
        );
        let index = open(&folder, durability);
        let round = round_of(&index);
        // What was committed last may not have been told.
        assert!(
            round >= told,
            "{word}: {told} was committed, {round} is there"
        );
        // And the index goes on.
        index
            .put(&[0; 8], &(round + 1).to_be_bytes())
            .expect("writes");
        index.put(&[0; 8], &round.to_be_bytes()).expect("writes");
    }
}

/// Starts a process that writes, and kills it a while after its first commit. Gives the last round that it told of.
fn kill_after(folder: &Path, word: &str, wait: Duration) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(DURABILITY, word)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
    let mut told = 0;
    let mut hear = |line: std::io::Result<String>| {
        let line = line.unwrap_or_default();
        // Another test's output may precede it.
        if let Some((_, round)) = line.rsplit_once("committed ") {
            told = round.parse().unwrap_or(told);
        }
    };
    let first = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("committed ")));
    hear(first.expect("it commits"));
    std::thread::sleep(wait);
    child.kill().expect("it still runs");
    child.wait().expect("it ended");
    // A line that was cut off has a shorter number, which is smaller.
    lines.for_each(hear);
    told
}
