//! Completions as they come in: from any piece of their bytes to the next.

use dpb_core::{JobError, JobParts, OutputShape};

use super::super::codec::Malformed;
use super::super::job::{DONE_HEAD_BYTES, DoneHead, Word, read_outcome};
use super::super::protocol::{HEADER_BYTES, Header, Refusal, SHORT_BYTES_MAX, Tag, read_refusal};
use super::super::rings::Rings;
use super::super::talk::Broken;
use super::super::wire::{Inbox, Wire};
use super::places::Places;

/// The part of a completion that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Receiving {
    /// The front of a message.
    #[default]
    Front,
    /// The outcomes of the job in `place`, of which `rest` bytes follow in all.
    Outcomes {
        place: u32,
        rest: usize,
        /// Bytes that the outputs will have.
        outputs: usize,
        /// True if the code of a device's error is next.
        code_follows: bool,
        is_placed: bool,
    },
    /// The outputs, `filled` bytes of item `item` are there.
    Outputs {
        place: u32,
        item: usize,
        filled: usize,
    },
}

/// The outputs that come in pieces: how far those are that are due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placed {
    item: usize,
    filled: usize,
}

/// What a step gave.
pub(super) struct Step {
    /// Whether bytes came.
    pub(super) came: bool,
    /// A job that is complete. `None` if more bytes must come first.
    pub(super) done: Option<Done>,
}

/// The place of a job that is complete, and its result.
type Done = (u32, Result<(), JobError>);

/// The front of a completion's message.
const FRONT_BYTES: usize = HEADER_BYTES + DONE_HEAD_BYTES;

impl Receiving {
    /// Goes on until a job is complete, or nothing more is there.
    ///
    /// # Errors
    /// If the connection is over, or what came is no completion of a job in flight.
    pub(super) fn advance(
        &mut self,
        wire: &mut dyn Wire,
        inbox: &mut Inbox,
        mut rings: Option<&mut Rings>,
        places: &mut Places,
        shape: OutputShape,
    ) -> Result<Step, Broken> {
        let mut came = false;
        loop {
            let moved = match *self {
                Self::Front => {
                    if Rings::take_credit(rings.as_deref_mut(), inbox)? {
                        true
                    } else if inbox.data().len() < FRONT_BYTES {
                        inbox.fill(wire)?
                    } else {
                        let rings = rings.as_deref_mut();
                        if let Some(done) = self.front(wire, inbox, rings, places, shape)? {
                            let done = Some(done);
                            return Ok(Step { came: true, done });
                        }
                        true
                    }
                }
                Self::Outcomes { .. } => {
                    if inbox.data().len() < 4 {
                        inbox.fill(wire)?
                    } else {
                        self.outcomes(inbox, rings.as_deref_mut(), places)?;
                        true
                    }
                }
                Self::Outputs {
                    place,
                    item,
                    filled,
                } => {
                    let job = places.job(place);
                    let take = |room: &mut [u8]| Ok(inbox.take(wire, room)?);
                    match outputs(take, job, shape, [item, filled])? {
                        Filled::All => {
                            *self = Self::Front;
                            let done = Some((place, Ok(())));
                            return Ok(Step { came: true, done });
                        }
                        Filled::UpTo([item, filled], moved) => {
                            *self = Self::Outputs {
                                place,
                                item,
                                filled,
                            };
                            moved
                        }
                    }
                }
            };
            came |= moved;
            if !moved {
                return Ok(Step { came, done: None });
            }
        }
    }

    /// Reads the front of a completion; gives the job if nothing follows.
    fn front(
        &mut self,
        wire: &mut dyn Wire,
        inbox: &mut Inbox,
        rings: Option<&mut Rings>,
        places: &mut Places,
        shape: OutputShape,
    ) -> Result<Option<Done>, Broken> {
        let (header, head) = inbox.data()[..FRONT_BYTES].split_at(HEADER_BYTES);
        let (header, head) = (header.try_into(), head.try_into());
        let Header { tag, len } = Header::read(header.expect("so many"))?;
        let is_placed = match tag {
            Tag::Done => false,
            Tag::DonePlaced => true,
            _ => return Err(farewell(wire, inbox, tag, len)),
        };
        let DoneHead { id, result, rest } = DoneHead::read(head.expect("so many"), len)?;
        inbox.consume(FRONT_BYTES);
        let place = places.find(id);
        let place = place.ok_or(Malformed("a completion of no job that is in flight"))?;
        places.answered(place);
        if result.is_err() {
            return match is_placed {
                true => Err(Malformed("outputs of a job that failed").into()),
                false => Ok(Some((place, result))),
            };
        }
        *self = match shape {
            OutputShape::Fixed(bytes) => {
                let outputs = bytes * places.job(place).items.count();
                if rest != if is_placed { 0 } else { outputs } {
                    return Err(Malformed("outputs of another length").into());
                }
                Self::outputs_of(place, is_placed.then_some(outputs), rings)?
            }
            OutputShape::Variable => {
                if rest < 4 * places.job(place).items.count() {
                    return Err(Malformed("fewer outcomes than items").into());
                }
                Self::Outcomes {
                    place,
                    rest,
                    outputs: 0,
                    code_follows: false,
                    is_placed,
                }
            }
        };
        Ok(None)
    }

    /// What follows where the outputs of the job in `place` are next, or so many bytes of them come in pieces.
    fn outputs_of(
        place: u32,
        placed_bytes: Option<usize>,
        rings: Option<&mut Rings>,
    ) -> Result<Self, Malformed> {
        if let Some(bytes) = placed_bytes {
            Rings::expect(rings, place, bytes)?;
            return Ok(Self::Front);
        }
        Ok(Self::Outputs {
            place,
            item: 0,
            filled: 0,
        })
    }

    /// Reads as many outcomes as are there.
    fn outcomes(
        &mut self,
        inbox: &mut Inbox,
        rings: Option<&mut Rings>,
        places: &mut Places,
    ) -> Result<(), Broken> {
        let Self::Outcomes {
            place,
            rest,
            outputs,
            code_follows,
            is_placed,
        } = self
        else {
            return Ok(());
        };
        let job = places.job(*place);
        let (count, mut read) = (job.items.count(), 0);
        for word in inbox.data().as_chunks::<4>().0 {
            read += 4;
            *rest = rest
                .checked_sub(4)
                .ok_or(Malformed("fewer outcomes than items"))?;
            let outcome = match *code_follows {
                true => Word::Outcome(Err(JobError::Device(i32::from_le_bytes(*word)))),
                false => read_outcome(u32::from_le_bytes(*word))?,
            };
            *code_follows = outcome == Word::CodeFollows;
            if let Word::Outcome(outcome) = outcome {
                *outputs += admitted(job, outcome)?;
                job.outcomes.push(outcome);
            }
            if job.outcomes.len() == count {
                break;
            }
            if *rest == 0 {
                return Err(Malformed("fewer outcomes than items").into());
            }
        }
        inbox.consume(read);
        if job.outcomes.len() == count {
            if *rest != if *is_placed { 0 } else { *outputs } {
                return Err(Malformed("outputs of another length than said").into());
            }
            *self = Self::outputs_of(*place, is_placed.then_some(*outputs), rings)?;
        }
        Ok(())
    }
}

impl Placed {
    /// Takes what has arrived in pieces, until a job is complete.
    ///
    /// # Errors
    /// If the transport is broken.
    pub(super) fn advance(
        &mut self,
        rings: &mut Rings,
        places: &mut Places,
        shape: OutputShape,
    ) -> Result<Step, Broken> {
        let Some((place, _)) = rings.due() else {
            let (came, done) = (false, None);
            return Ok(Step { came, done });
        };
        let job = places.job(place);
        let at = [self.item, self.filled];
        Ok(match outputs(|room| rings.take(room), job, shape, at)? {
            Filled::All => {
                *self = Self::default();
                rings.end();
                let done = Some((place, Ok(())));
                Step { came: true, done }
            }
            Filled::UpTo([item, filled], came) => {
                *self = Self { item, filled };
                Step { came, done: None }
            }
        })
    }
}

/// Bytes that the next item's output has, if they fit its slot.
fn admitted(job: &JobParts, outcome: Result<u32, JobError>) -> Result<usize, Malformed> {
    let Ok(len) = outcome else { return Ok(0) };
    let slot = job.slots.place(job.outcomes.len(), &job.dst);
    match len as usize <= slot.len {
        true => Ok(len as usize),
        false => Err(Malformed("an output longer than its slot")),
    }
}

/// How far outputs have come.
enum Filled {
    All,
    /// The item and its bytes, and whether any came.
    UpTo([usize; 2], bool),
}

/// Fills slots with what `take` has.
fn outputs(
    mut take: impl FnMut(&mut [u8]) -> Result<usize, Broken>,
    job: &mut JobParts,
    shape: OutputShape,
    [mut item, mut filled]: [usize; 2],
) -> Result<Filled, Broken> {
    let count = job.items.count();
    let mut moved = false;
    while item < count {
        let len = match shape {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => job.outcomes[item].map_or(0, |len| len as usize),
        };
        if filled < len {
            let slot = job.slots.place(item, &job.dst);
            let room = &mut job.dst[slot.buf][slot.start..][filled..len];
            let took = take(room)?;
            if took == 0 {
                return Ok(Filled::UpTo([item, filled], moved));
            }
            moved = true;
            filled += took;
        }
        if filled == len {
            (item, filled) = (item + 1, 0);
        }
    }
    Ok(Filled::All)
}

/// The reason why the agent ends the connection, if it says one.
fn farewell(wire: &mut dyn Wire, inbox: &mut Inbox, tag: Tag, len: usize) -> Broken {
    if tag != Tag::Refused || len > SHORT_BYTES_MAX {
        return Malformed("no completion").into();
    }
    // The rest of a short text is there or follows at once; an agent that stops in the middle of it is not waited for.
    while inbox.data().len() < HEADER_BYTES + len {
        if !matches!(inbox.fill(wire), Ok(true)) {
            return Broken::Refused("the agent refused to go on".to_owned());
        }
    }
    match read_refusal(&inbox.data()[HEADER_BYTES..][..len]) {
        Ok(Refusal::Fatal(why)) => Broken::Refused(why),
        Ok(Refusal::Setup(why)) => Broken::Refused(why.to_string()),
        Err(why) => why.into(),
    }
}
