//! The client's part of opening a transport beside a connection: a ring here for outputs, and one at the agent for items.

use dpb_core::Unsupported;

use super::super::protocol::{Refusal, Tag, read_rings};
use super::super::rings::Rings;
use super::line::Line;
use crate::bulk::{Connected, Duplex};

/// The device of a transport, as records have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carrier {
    /// `rdma/mlx5_0`.
    pub(super) name: String,
    /// The stand-in for hardware on either side, if there is one.
    pub(super) emulated_by: Option<String>,
}

/// Opens a transport beside the connection of `line`, for a queue of at most `depth` jobs.
///
/// # Errors
/// What is missing, and at which end.
pub(super) fn join(
    line: &Line,
    duplex: &dyn Duplex,
    depth: usize,
) -> Result<(Rings, Carrier), Refusal> {
    let here = |why: String| Unsupported {
        reason: format!("this end: {why}"),
    };
    let (words, offer) = duplex.offer().map_err(here)?;
    let body = line.ask(Tag::Ring, &words, Tag::Rings)?;
    let [answer, words] = read_rings(&body)?;
    let Connected {
        reader,
        name,
        emulated_by,
    } = offer.open(answer).map_err(here)?;
    let (answer, writer) = duplex.accept(words).map_err(here)?;
    line.ask(Tag::Join, &answer, Tag::Joined)?;
    let carrier = Carrier { name, emulated_by };
    Ok((Rings::new(writer, reader, depth), carrier))
}
