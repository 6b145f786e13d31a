//! Captures that are played.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use dpb_net::port::capture::Reader;
use dpb_net::traffic::{Replay, Rewrite};

use crate::exit::Failure;
use crate::output;

/// The packets of the file that `--capture` names. Those that were cut are left out, and that is said: nobody knows what was sent there.
///
/// # Errors
/// Exit 2, with the reason: the file cannot be read, or has no whole packet.
pub(in crate::cmd::net) fn captured(path: &Path, rewrite: Rewrite) -> Result<Replay, Failure> {
    let failed = |why: &dyn Display| Failure::usage(format!("--capture {}: {why}", path.display()));
    let file = File::open(path).map_err(|why| failed(&why))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(|why| failed(&why))?;
    let (mut packets, mut cut) = (Vec::new(), 0u64);
    while let Some(record) = reader.read().map_err(|why| failed(&why))? {
        match record.bytes.len() < record.original_len as usize {
            true => cut += 1,
            false => packets.push((record.time_ns, record.bytes)),
        }
    }
    if cut > 0 {
        output::note(&format!(
            "{}: {cut} packets were cut when they were captured, and are left out; capture without a snap length (tcpdump -s 0)",
            path.display()
        ));
    }
    Replay::new(packets, rewrite).map_err(|why| failed(&why))
}
