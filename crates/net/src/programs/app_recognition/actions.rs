//! What is done with packets: [`hash`] and [`compress`], which have an operator behind them, and [`send_back`].

use std::sync::Arc;

use dpb_core::{JobError, SetupError};

use super::note::Note;
use super::{Action, Results};
use crate::pipeline::{Choice, OffloadStage, Output, Packet, Part, Stage, each};
use crate::programs::Engine;
use crate::programs::forward::swap_addresses;

/// Frames that are hashed. See [`hash`].
#[derive(Debug)]
pub struct Hash(Arc<Results>);

/// Payloads that are compressed. See [`compress`].
#[derive(Debug)]
pub struct Compress(Arc<Results>);

/// A stage that has `engine`, an operator such as `sha256`, hash the whole frame of each packet whose action is [`Action::Hash`].
///
/// # Errors
/// As [`Engine::stage`].
pub fn hash(engine: &Engine, results: Arc<Results>) -> Result<OffloadStage<Hash>, SetupError> {
    engine.stage(Hash(results), 0)
}

/// A stage that has `engine`, an operator such as `deflate` or `lz4`, compress the payload of each packet whose action is [`Action::Compress`]; none is longer than
/// `payload_bytes_max`. Packets without a payload pass by.
///
/// # Errors
/// As [`Engine::stage`].
pub fn compress(
    engine: &Engine,
    results: Arc<Results>,
    payload_bytes_max: usize,
) -> Result<OffloadStage<Compress>, SetupError> {
    let output_bytes = engine.operator.dst_len(payload_bytes_max);
    let output_bytes = u32::try_from(output_bytes).unwrap_or(u32::MAX);
    engine.stage(Compress(results), output_bytes)
}

/// A stage that sends each packet whose action is [`Action::Back`] out by the port that it came by, with its Ethernet addresses exchanged and all else as it was. It has to stand in front of
/// stages that leave numbers of their own in marks; a [`bridge`](fn@crate::programs::forward::bridge) and a router behind it leave such packets their way.
pub fn send_back() -> impl Stage {
    each("send back", |packet: Packet<'_>| {
        if Note::of(packet.mark).action == Action::Back {
            packet.mark.egress = packet.mark.ingress;
            swap_addresses(packet.frame);
        }
    })
}

/// Counts an output, which lies beside its packet.
fn finish(results: &Results, input: &[u8], output: Result<Output<'_>, JobError>) {
    match output {
        Ok(Output::Beside(output)) => results.count(input, output),
        Ok(Output::Within(_)) | Err(_) => results.failed(),
    }
}

impl Part for Hash {
    type Note = ();

    fn item(&mut self, packet: Packet<'_>, (): &mut ()) -> Choice {
        match Note::of(packet.mark).action {
            Action::Hash => Choice::Item {
                start: 0,
                len: packet.frame.len() as u32,
                room: 0,
            },
            _ => Choice::None,
        }
    }

    fn output(&mut self, packet: Packet<'_>, (): (), output: Result<Output<'_>, JobError>) {
        finish(&self.0, packet.frame, output);
    }
}

impl Part for Compress {
    type Note = ();

    fn item(&mut self, packet: Packet<'_>, (): &mut ()) -> Choice {
        let note = Note::of(packet.mark);
        match note.action {
            Action::Compress if note.payload_bytes > 0 => Choice::Item {
                start: note.payload,
                len: note.payload_bytes,
                room: 0,
            },
            _ => Choice::None,
        }
    }

    fn output(&mut self, packet: Packet<'_>, (): (), output: Result<Output<'_>, JobError>) {
        let note = Note::of(packet.mark);
        let (start, len) = (note.payload as usize, note.payload_bytes as usize);
        finish(&self.0, &packet.frame[start..start + len], output);
    }
}
