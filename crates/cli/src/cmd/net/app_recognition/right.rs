//! The right results: verdicts by the conversations that were sent, outputs of operators by other code.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use dpb_core::measure::Record;
use dpb_core::{Buf, OpSpec, Span, Stage};
use dpb_net::packet::{Frame, protocol};
use dpb_net::programs::app_recognition::{
    Action, Decided, Log, Outputs, Results, Sample, Totals, is_sha256,
};
use dpb_net::recognition::{Evidence, Protocol};
use dpb_net::traffic::application::Application;
use dpb_net::traffic::{Generator, StampKey, Traffic};

use super::Offered;
use super::operators::Compression;
use crate::Globals;

/// One result of an operator in so many is kept to be checked at the end, and so many at most.
pub(in crate::cmd::net) const EVERY: u64 = 61;
pub(in crate::cmd::net) const SAMPLES_MAX: usize = 512;

/// A flow by its ends, in order, and true for TCP.
type Key = ([(u128, u16); 2], bool);

/// The packets of a trial.
pub(super) struct Sent {
    pub(super) offered: Offered,
    /// So many at most.
    pub(super) packets: u64,
    /// The trial's place among those of the test.
    pub(super) at: usize,
}

/// Verdicts held against what was sent, over all trials.
#[derive(Debug, Default)]
pub(super) struct Flows {
    sent: HashMap<Key, Said>,
    right: u64,
    /// Decided without the flow's own bytes, or not at all.
    guessed: u64,
    /// The trial of each wrong verdict, and what is wrong.
    wrong: Vec<(usize, String)>,
    /// Of captures, whose flows nobody knows.
    unknown: u64,
    /// Verdicts for which the log had no room.
    not_kept: u64,
}

/// A flow that was sent.
#[derive(Debug)]
struct Said {
    /// The place of its trial.
    at: usize,
    application: Application,
    /// The digest of the server's name, if it says one.
    name: Option<u64>,
}

/// So many flows, all of which were guessed, are no accident.
const GUESSED_MAX: u64 = 50;

impl Flows {
    /// Compares the verdicts since the last call, behind a trial that sent this. A verdict may be of a flow of a trial before.
    pub(super) fn compare(&mut self, sent: Option<Sent>, log: &Log) {
        if let Some(Sent {
            offered: Offered::Made(generator),
            packets,
            at,
        }) = sent
        {
            self.learn(&generator, packets, at);
        }
        let (decided, not_kept) = log.take();
        self.not_kept += not_kept;
        for flow in decided {
            self.judge_one(&flow);
        }
    }

    /// The flows of a generator's first packets.
    fn learn(&mut self, generator: &Generator, packets: u64, at: usize) {
        let Some(catalogue) = generator.catalogue() else {
            return;
        };
        let (key, mut known) = (StampKey::new(0, 0), HashSet::new());
        let mut frame = Vec::new();
        for i in 0..packets {
            let flow = generator.identity(i).member.flow;
            if !known.insert(flow) {
                continue;
            }
            frame.resize(generator.frame_bytes(i), 0);
            generator.write(i, 0, &key, &mut frame);
            let conversation = catalogue.of(flow);
            let name = conversation.server_name();
            let name = name.map(|name| Log::digest(name.as_bytes()));
            if let Some(key) = key_of(&frame) {
                let application = conversation.application();
                let said = Said {
                    at,
                    application,
                    name,
                };
                self.sent.insert(key, said);
            }
        }
    }

    fn judge_one(&mut self, flow: &Decided) {
        let [a, b] = flow.addresses;
        let [c, d] = flow.ports;
        let mut ends = [(a, c), (b, d)];
        ends.sort_unstable();
        let Some(Said {
            at,
            application,
            name,
        }) = self.sent.get(&(ends, flow.is_tcp))
        else {
            self.unknown += 1;
            return;
        };
        let label = flow.label;
        if !label.evidence.is_inspection() {
            self.guessed += 1;
            return;
        }
        let right = match application {
            Application::Tls12 | Application::Tls13 | Application::Tls13PostQuantum => {
                Protocol::Tls
            }
            Application::QuicV1 | Application::QuicV1PostQuantum | Application::QuicV2 => {
                Protocol::Quic
            }
            Application::Http => Protocol::Http,
            Application::Dns => Protocol::Dns,
            Application::Ssh => Protocol::Ssh,
            Application::Smb => Protocol::Smb,
            Application::Private => Protocol::Unknown,
        };
        let is_private = *application == Application::Private;
        let has_name = is_private || name.is_none_or(|name| name == flow.host);
        let is_right =
            label.protocol == right && has_name && is_private == (label.evidence == Evidence::Rule);
        match is_right {
            true => self.right += 1,
            false => {
                let said = format!("a flow of {} was taken for {label:?}", application.name());
                self.wrong.push((*at, said));
            }
        }
    }

    /// Verdicts of flows of these trials, which lost no packet, have to be right, and not all of them guessed. What is lost may have been what a verdict
    /// rests on.
    ///
    /// # Errors
    /// The first wrong verdict.
    pub(super) fn judge(&self, lossless: impl Iterator<Item = usize>) -> Result<(), String> {
        let lossless: HashSet<usize> = lossless.collect();
        let mut wrong = (self.wrong.iter()).filter(|(at, _)| lossless.contains(at));
        if let Some((_, said)) = wrong.next() {
            let count = 1 + wrong.count();
            return Err(format!(
                "{count} verdicts of trials without losses are wrong: {said}"
            ));
        }
        match self.right == 0 && self.guessed > GUESSED_MAX && !lossless.is_empty() {
            true => Err(format!(
                "{} flows, none of which was recognised by what it says",
                self.guessed
            )),
            false => Ok(()),
        }
    }

    pub(super) fn note(&self, record: &mut Record) {
        let counts = [
            ("verdicts_right", self.right),
            ("verdicts_guessed", self.guessed),
            ("verdicts_wrong", self.wrong.len() as u64),
            ("verdicts_unchecked", self.unknown),
            ("verdicts_not_kept", self.not_kept),
        ];
        let counts = counts.map(|(name, count)| (name.to_owned(), count));
        record.counts.extend(counts);
    }
}

/// The flow of a frame.
fn key_of(frame: &[u8]) -> Option<Key> {
    let frame = Frame::read(frame).ok()?;
    let wide = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let (addresses, ports) = match (frame.tuple_v4(), frame.tuple_v6()) {
        (Some(tuple), _) => (
            tuple.addresses.map(|it| wide(IpAddr::V4(it.into()))),
            tuple.ports,
        ),
        (None, Some(tuple)) => (tuple.addresses, tuple.ports),
        (None, None) => return None,
    };
    let mut ends = [(addresses[0], ports[0]), (addresses[1], ports[1])];
    ends.sort_unstable();
    Some((ends, frame.protocol() == Some(protocol::TCP)))
}

/// Checks that each packet has an action, and that each action was carried out. `in_flight` packets may lack theirs, as they were on their way when the program ended.
///
/// # Errors
/// The counts that do not add up, as a sentence.
pub(in crate::cmd::net) fn carried_out(
    shards: &[Totals],
    hashed: &Outputs,
    compressed: &Outputs,
    in_flight: u64,
) -> Result<(), String> {
    let sum = |of: fn(&Totals) -> u64| shards.iter().map(of).sum::<u64>();
    let (packets, refused) = (sum(|totals| totals.packets), sum(|totals| totals.refused));
    let acted = sum(|totals| totals.actions.iter().sum());
    let to_hash = sum(|totals| totals.of(Action::Hash));
    let to_compress = sum(|totals| totals.to_compress);
    let lacking = [
        packets.checked_sub(acted + refused),
        to_hash.checked_sub(hashed.items + hashed.failed),
        to_compress.checked_sub(compressed.items + compressed.failed),
    ];
    // Where more was done than was to do, nothing adds up.
    let lacking: Option<u64> = lacking.into_iter().sum();
    if lacking.is_none_or(|lacking| lacking > in_flight) {
        return Err(format!(
            "actions and packets do not add up: of {packets} packets {refused} were refused and {acted} have an action; {} were hashed of {to_hash}, {} compressed of {to_compress}, with {in_flight} packets in flight",
            hashed.items, compressed.items
        ));
    }
    let rule_failed = sum(|totals| totals.rule_failed);
    match hashed.failed + compressed.failed + rule_failed {
        0 => Ok(()),
        _ => Err(format!(
            "operators failed: {} times to hash, {} times to compress, {rule_failed} times to match rules",
            hashed.failed, compressed.failed
        )),
    }
}

/// Checks the outputs that were kept; says how many.
///
/// # Errors
/// The first that is wrong, or a decoder that is not there.
pub(in crate::cmd::net) fn samples(
    hashed: &Results,
    compressed: &Results,
    compression: Compression,
    globals: &Globals,
) -> Result<usize, String> {
    let hashed = hashed.take();
    if let Some(wrong) = hashed.iter().find(|sample| !is_sha256(sample)) {
        return Err(format!(
            "a frame of {} bytes has another SHA-256",
            wrong.input.len()
        ));
    }
    let compressed = compressed.take();
    let decoder = match compression {
        Compression::Deflate => "inflate",
        Compression::Lz4 => "unlz4",
    };
    let said = |why: &dyn std::fmt::Display| format!("cpu/portable, {decoder}: {why}");
    let entry = globals
        .operators
        .find(decoder)
        .ok_or_else(|| said(&"no such operator"))?;
    let spec = entry.spec("").map_err(|why| said(&why))?;
    for sample in &compressed {
        let decoded = decoded(sample, &spec, globals).map_err(|why| said(&why))?;
        if decoded != sample.input {
            return Err(format!(
                "a payload of {} bytes is another one when it is decompressed",
                sample.input.len()
            ));
        }
    }
    Ok(hashed.len() + compressed.len())
}

fn decoded(sample: &Sample, spec: &OpSpec, globals: &Globals) -> Result<Vec<u8>, String> {
    let backend = globals
        .families
        .open("cpu/portable")
        .map_err(|why| why.to_string())?;
    let operator = backend.prepare(spec).map_err(|why| why.to_string())?;
    let slot = sample.input.len().max(64) as u32;
    let stage = Stage::new(operator, 1, slot, |len| backend.alloc(len));
    let mut stage = stage.map_err(|why| why.to_string())?;
    let mut memory = Buf::zeroed(sample.output.len().max(1)).ok_or("no memory")?;
    memory[..sample.output.len()].copy_from_slice(&sample.output);
    let item = Span {
        buf: 0,
        start: 0,
        len: sample.output.len() as u32,
    };
    let memory = memory.freeze();
    let outputs = stage.run(&memory, &[item]).map_err(|why| why.to_string())?;
    outputs
        .get(0)
        .map(<[u8]>::to_vec)
        .map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two shards with ten packets each, of which one is refused: three to hash, four to compress, one of these without a payload.
    fn shards() -> [Totals; 2] {
        let mut totals = Totals {
            packets: 10,
            refused: 1,
            to_compress: 3,
            ..Totals::default()
        };
        totals.actions[Action::Hash as usize] = 3;
        totals.actions[Action::Compress as usize] = 4;
        totals.actions[Action::Pass as usize] = 2;
        [totals; 2]
    }

    fn items(items: u64) -> Outputs {
        Outputs {
            items,
            ..Outputs::default()
        }
    }

    #[test]
    fn each_action_is_carried_out() {
        let said = |hashed: &Outputs, compressed: &Outputs, in_flight| {
            carried_out(&shards(), hashed, compressed, in_flight)
        };
        assert_eq!(said(&items(6), &items(6), 0), Ok(()));
        for (hashed, compressed) in [(5, 6), (6, 5), (7, 6), (6, 7)] {
            let why = said(&items(hashed), &items(compressed), 0).expect_err("one is wrong");
            assert!(why.contains("do not add up"), "{why}");
        }
        // What is on its way may lack its action, and nobody may have done too much.
        assert_eq!(said(&items(5), &items(5), 2), Ok(()));
        assert!(said(&items(5), &items(5), 1).is_err());
        assert!(said(&items(7), &items(5), 2).is_err());
        let failed = Outputs {
            failed: 1,
            ..items(5)
        };
        let why = said(&failed, &items(6), 0).expect_err("a job failed");
        assert!(why.contains("1 times to hash"), "{why}");
        let mut lost = shards();
        lost[1].packets += 1;
        assert!(carried_out(&lost, &items(6), &items(6), 0).is_err());
        assert_eq!(carried_out(&lost, &items(6), &items(6), 1), Ok(()));
    }
}
