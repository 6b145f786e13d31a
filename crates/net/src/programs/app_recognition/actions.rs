//! The actions with an operator behind them: [`hash`], [`compress`].

use std::sync::Arc;

use dpb_core::{JobError, SetupError};

use super::note::Note;
use super::{Action, Results};
use crate::pipeline::{Choice, OffloadStage, Output, Packet, Part};
use crate::programs::Engine;

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
