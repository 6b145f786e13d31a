//! Jobs as they come in: from any piece of their bytes to the next.

use dpb_core::{Backend, OutputShape};

use super::super::codec::Malformed;
use super::super::job::{JOB_HEAD_BYTES, JobHead, slots_end};
use super::super::protocol::{HEADER_BYTES, Header, Tag};
use super::super::quotas::{Quotas, cost};
use super::super::rings::Rings;
use super::super::talk::Broken;
use super::super::wire::{Inbox, Wire};
use super::places::Places;

/// The job that is coming in.
#[derive(Default)]
pub(super) struct Receiving {
    part: Part,
    /// The bytes of its lists.
    lists: Vec<u8>,
    /// Bytes that are there of the items that come in pieces and are due.
    placed: usize,
}

/// The part of a job that comes next.
#[derive(Clone, Copy, Debug, Default)]
enum Part {
    /// The front of a message.
    #[default]
    Front,
    /// The lists, of which `filled` bytes are there.
    Lists {
        head: JobHead,
        filled: usize,
        is_placed: bool,
    },
    /// The items, of which `filled` bytes are there.
    Input {
        place: u32,
        filled: usize,
        bytes: usize,
    },
}

/// What jobs must keep to.
pub(super) struct Rules<'a> {
    pub(super) shape: OutputShape,
    pub(super) quotas: &'a Quotas,
    pub(super) input_bytes_max: usize,
    pub(super) items_max: usize,
    pub(super) backend: &'a dyn Backend,
}

/// The front of a job's message.
const FRONT_BYTES: usize = HEADER_BYTES + JOB_HEAD_BYTES;

impl Receiving {
    /// Goes on until a job is complete or nothing more is there: whether bytes came, and the place of the job.
    ///
    /// # Errors
    /// If the connection is over, what came is no job, or the job is beyond what was agreed.
    pub(super) fn advance(
        &mut self,
        wire: &mut dyn Wire,
        inbox: &mut Inbox,
        mut rings: Option<&mut Rings>,
        places: &mut Places,
        rules: &Rules<'_>,
    ) -> Result<(bool, Option<u32>), Broken> {
        let mut came = false;
        loop {
            let moved = match self.part {
                Part::Front if Rings::take_credit(rings.as_deref_mut(), inbox)? => true,
                Part::Front if inbox.data().len() < FRONT_BYTES => inbox.fill(wire)?,
                Part::Front => {
                    self.front(inbox, rules)?;
                    true
                }
                Part::Lists {
                    head,
                    filled,
                    is_placed,
                } if filled == self.lists.len() => {
                    let (place, bytes) = admit(&head, &self.lists, places, rules)?;
                    self.part = match is_placed {
                        true => {
                            Rings::expect(rings.as_deref_mut(), place, bytes)?;
                            Part::Front
                        }
                        false => Part::Input {
                            place,
                            filled: 0,
                            bytes,
                        },
                    };
                    true
                }
                Part::Lists { ref mut filled, .. } => {
                    let took = inbox.take(wire, &mut self.lists[*filled..])?;
                    *filled += took;
                    took > 0
                }
                Part::Input {
                    place,
                    filled,
                    bytes,
                } if filled == bytes => {
                    self.part = Part::Front;
                    return Ok((true, Some(place)));
                }
                Part::Input {
                    place,
                    ref mut filled,
                    bytes,
                } => {
                    let room = &mut places.input(place)[*filled..bytes];
                    let took = inbox.take(wire, room)?;
                    *filled += took;
                    took > 0
                }
            };
            came |= moved;
            if !moved {
                return Ok((came, None));
            }
        }
    }

    /// Takes items that have arrived in pieces, until a job is complete: whether any came, and its place.
    ///
    /// # Errors
    /// If the transport is broken.
    pub(super) fn take_pieces(
        &mut self,
        rings: &mut Rings,
        places: &mut Places,
    ) -> Result<(bool, Option<u32>), Broken> {
        let mut came = false;
        while let Some((place, bytes)) = rings.due() {
            let room = &mut places.input(place)[self.placed..bytes];
            let took = rings.take(room)?;
            self.placed += took;
            came |= took > 0;
            if self.placed == bytes {
                self.placed = 0;
                rings.end();
                return Ok((true, Some(place)));
            }
            if took == 0 {
                break;
            }
        }
        Ok((came, None))
    }

    /// True in the middle of a job.
    pub(super) fn is_in_a_job(&self) -> bool {
        !matches!(self.part, Part::Front)
    }

    fn front(&mut self, inbox: &mut Inbox, rules: &Rules<'_>) -> Result<(), Broken> {
        let (header, head) = inbox.data()[..FRONT_BYTES].split_at(HEADER_BYTES);
        let (header, head) = (header.try_into(), head.try_into());
        let Header { tag, len } = Header::read(header.expect("so many"))?;
        let is_placed = match tag {
            Tag::Job => false,
            Tag::JobPlaced => true,
            _ => return Err(Malformed("no job").into()),
        };
        let head = JobHead::read(head.expect("so many"), len, is_placed)?;
        inbox.consume(FRONT_BYTES);
        let is_within = (1..=rules.items_max).contains(&(head.count as usize))
            && head.input_bytes as usize <= rules.input_bytes_max;
        if !is_within {
            return Err(Malformed("a job beyond the limits").into());
        }
        // Bounded, as the number of items is.
        self.lists.resize(head.list_bytes() as usize, 0);
        self.part = Part::Lists {
            head,
            filled: 0,
            is_placed,
        };
        Ok(())
    }
}

/// Finds a place for the job, and memory; says which place, and how many bytes its items have.
fn admit(
    head: &JobHead,
    lists: &[u8],
    places: &mut Places,
    rules: &Rules<'_>,
) -> Result<(u32, usize), Broken> {
    let place = places.take(head.id);
    let place = place.ok_or(Malformed("more jobs than the queue is deep"))?;
    let (items, slots) = places.lists(place).read(head, lists)?;
    if let (OutputShape::Fixed(bytes), dpb_core::Items::Strided(stride)) = (rules.shape, &slots)
        && stride.len as usize == bytes
    {
        // As outputs are.
    } else if rules.shape != OutputShape::Variable {
        return Err(Malformed("slots of another length than outputs").into());
    }
    let slot_bytes = usize::try_from(slots_end(&slots)).unwrap_or(usize::MAX);
    if slot_bytes > rules.quotas.output_bytes_max {
        return Err(Malformed("slots beyond the limits").into());
    }
    let input_bytes = head.input_bytes as usize;
    if !places.count(place, cost(input_bytes, slot_bytes, items.count())) {
        return Err(Malformed("more bytes in flight than were granted").into());
    }
    let bytes = [input_bytes, slot_bytes];
    let prepared = places.prepare(place, bytes, (items, slots), rules.shape, rules.backend);
    prepared.map_err(|why| Broken::Refused(why.to_string()))?;
    Ok((place, input_bytes))
}
