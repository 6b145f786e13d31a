//! The questions of a client, until it opens a queue.

use std::num::NonZeroU32;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};

use dpb_core::{ChangeError, Operator, OutputShape, SetupError, Unsupported};

use super::super::codec::{Malformed, Reader, put_size, put_text};
use super::super::protocol::{
    CHANGES_BYTES_MAX, Facts, LENGTHS, NAME_BYTES_MAX, Number, Refusal, SHORT_BYTES_MAX,
    TEXT_BYTES_MAX, Tag, greeting, put_changed, put_facts, put_limits, put_properties, put_rings,
    read_greeting,
};
use super::super::rings::Rings;
use super::super::spec::{self, SpecError};
use super::super::talk::{Broken, Talk, Until};
use super::super::wire::{FAREWELL, SessionSecurity, Wire, hang_up};
use super::accounts::{Client, Kind, Seat};
use super::jobs::{self, Lane};
use super::{Prepared, Served, Shared, lock};
use crate::bulk::{BodyReader, BodyWriter, Offer};

/// How many times within this side's patience it says that it works: clients may be less patient.
const TELLS_A_PATIENCE: u32 = 12;

/// A client's connection.
struct Requests<'a> {
    shared: &'a Shared,
    client: Arc<Client>,
    security: SessionSecurity,
    served: Option<Arc<Served>>,
    /// The operators that end with the connection.
    mine: Vec<Number>,
    transport: Transport,
}

/// The transport of the queue that the client may open next on this connection.
enum Transport {
    /// The connection itself.
    Wire,
    /// Half open: this end's ring is offered. It counts as a queue from here on.
    Offered(Box<dyn BodyWriter>, Box<dyn Offer>, [Seat; 2]),
    /// A ring at each end.
    Open(Box<dyn BodyWriter>, Box<dyn BodyReader>, [Seat; 2]),
}

/// An answer to a question.
enum Answer {
    Message(Tag, Vec<u8>),
    Nothing,
    /// The connection carries jobs from now on.
    Queue(Box<Lane>),
}

/// Serves a connection to its end.
pub(super) fn serve(
    shared: &Shared,
    client: Arc<Client>,
    wire: Box<dyn Wire + '_>,
    security: SessionSecurity,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), String> {
    let talk = Talk::new(wire, shared.clock.clone(), shared.patience);
    let mut talk = talk.map_err(|error| error.to_string())?;
    let mut requests = Requests {
        shared,
        client,
        security,
        served: None,
        mine: Vec::new(),
        transport: Transport::Wire,
    };
    let opened = greet(&mut talk, shared).and_then(|()| requests.answer_all(&mut talk, is_stopped));
    let ended = match opened {
        Ok(Some(lane)) => return jobs::serve(talk, *lane, shared, is_stopped),
        Ok(None) => Ok(()),
        Err(Broken::Io(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(()),
        Err(why) => Err(why),
    };
    // Others may have what this client had while it is told.
    drop(requests);
    ended.map_err(|why| {
        // The peer may be gone, or not read.
        if talk.refuse(&Refusal::Fatal(why.to_string())).is_ok() {
            hang_up(&mut *talk.wire, FAREWELL);
        }
        why.to_string()
    })
}

/// Both sides say their version first.
fn greet(talk: &mut Talk<'_>, shared: &Shared) -> Result<(), Broken> {
    let only_hello = |tag| if tag == Tag::Hello { 64 } else { 0 };
    let (tag, body) = talk.receive(only_hello, Until::Patience)?;
    if tag != Tag::Hello {
        return Err(Malformed("no greeting").into());
    }
    let theirs = read_greeting(&body.0).map(|_| ());
    let mut welcome = greeting();
    put_text(&mut welcome, &shared.machine, TEXT_BYTES_MAX);
    put_size(&mut welcome, shared.quotas.spec_bytes_max);
    // A client of another version hears this one's too.
    talk.send(Tag::Welcome, &welcome)?;
    theirs.map_err(Broken::Refused)
}

impl Requests<'_> {
    /// Answers until a queue is opened; `None` if this side was told to stop.
    fn answer_all(
        &mut self,
        talk: &mut Talk<'_>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Box<Lane>>, Broken> {
        let bytes_max = |tag| match tag {
            Tag::Limits | Tag::Prepare => self.shared.quotas.spec_bytes_max,
            Tag::Change => CHANGES_BYTES_MAX + size_of::<Number>(),
            _ => SHORT_BYTES_MAX,
        };
        loop {
            let (tag, body) = match talk.receive(bytes_max, Until::Stopped(is_stopped)) {
                Err(Broken::Stopped) => return Ok(None),
                received => received?,
            };
            match self.answer_and_tell(talk, tag, &body.0)? {
                Ok(Answer::Message(tag, body)) => talk.send(tag, &body)?,
                Ok(Answer::Nothing) => {}
                Ok(Answer::Queue(lane)) => {
                    let mut window = Vec::new();
                    put_size(&mut window, self.shared.quotas.window_bytes());
                    talk.send(Tag::Opened, &window)?;
                    return Ok(Some(lane));
                }
                Err(Refusal::Fatal(why)) => return Err(Broken::Refused(why)),
                Err(refusal) => talk.refuse(&refusal)?,
            }
        }
    }

    /// Answers a question. If that takes long, the client is told meanwhile that this side works: it would take silence for the end.
    fn answer_and_tell(
        &mut self,
        talk: &mut Talk<'_>,
        tag: Tag,
        body: &[u8],
    ) -> Result<Result<Answer, Refusal>, Broken> {
        // The others are about what is there already.
        let may_take_long = matches!(
            tag,
            Tag::Backend | Tag::Limits | Tag::Prepare | Tag::Change | Tag::Commit | Tag::Open
        );
        if !may_take_long {
            return Ok(self.answer(tag, body));
        }
        let pause = self.shared.patience / TELLS_A_PATIENCE;
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel::<()>();
            let tell = move || {
                while is_done.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    talk.send(Tag::Working, &[])?;
                }
                Ok(())
            };
            // Without a thread the answer may still come in time.
            let telling = thread::Builder::new().spawn_scoped(scope, tell).ok();
            let answer = self.answer(tag, body);
            drop(done);
            let told = telling.map_or(Ok(Ok(())), ScopedJoinHandle::join);
            told.expect("it does not panic").map(|()| answer)
        })
    }

    fn answer(&mut self, tag: Tag, body: &[u8]) -> Result<Answer, Refusal> {
        let mut to = Vec::new();
        let answer = match tag {
            Tag::Backend => {
                let mut from = Reader::new(body);
                let name = from.text(NAME_BYTES_MAX)?;
                from.end()?;
                let served = self.shared.backend(&self.client, name)?;
                let properties = served.backend().properties();
                put_properties(&mut to, &properties);
                to.push(properties.is_modelled().into());
                self.served = Some(served);
                Tag::Described
            }
            Tag::Limits => {
                let (served, spec) = (self.served()?, self.spec(body)?);
                let limits = self.shared.bounded(served.backend().limits(&spec)?);
                put_limits(&mut to, &limits);
                let code = served.backend().code(&spec).unwrap_or_default();
                put_text(&mut to, &code, TEXT_BYTES_MAX);
                Tag::Limited
            }
            Tag::Prepare => {
                put_facts(&mut to, &self.prepare(body)?);
                Tag::Prepared
            }
            Tag::AskLengths => {
                let (prepared, mut from) = self.prepared(body)?;
                let first = from.size()?;
                from.end()?;
                // Of items that no job has, there is nothing to say: a bound on them may not be a number.
                let longest = prepared.limits.item_bytes_max;
                for at in 0..LENGTHS {
                    let len = prepared
                        .operator
                        .dst_len(first.saturating_add(at).min(longest));
                    put_size(&mut to, len);
                }
                Tag::Lengths
            }
            Tag::Change | Tag::Commit => {
                let (prepared, from) = self.prepared(body)?;
                let bytes_max = self.shared.quotas.spec_bytes_max;
                put_changed(&mut to, change(&prepared, tag, from, bytes_max)?);
                Tag::Changed
            }
            Tag::Release => {
                let number = Reader::new(body).array()?;
                self.release(|mine| *mine == number);
                return Ok(Answer::Nothing);
            }
            Tag::Ring => {
                self.offer_ring(body, &mut to)?;
                Tag::Rings
            }
            Tag::Join => {
                self.join(body)?;
                Tag::Joined
            }
            Tag::Open => return self.open(body).map(Box::new).map(Answer::Queue),
            _ => return Err(Malformed("no question").into()),
        };
        Ok(Answer::Message(answer, to))
    }

    fn served(&self) -> Result<&Arc<Served>, Refusal> {
        let none = || Malformed("a question about no backend");
        self.served.as_ref().ok_or_else(|| none().into())
    }

    fn spec(&self, body: &[u8]) -> Result<dpb_core::OpSpec, Refusal> {
        let spec = spec::decode(body, &*self.shared.resolve, self.security);
        spec.map_err(|why| match why {
            SpecError::Malformed(why) => why.into(),
            // The client could make it, so the registries differ.
            SpecError::Refused(why) => Unsupported {
                reason: format!("the agent: {why}"),
            }
            .into(),
        })
    }

    fn prepare(&mut self, body: &[u8]) -> Result<Facts, Refusal> {
        let (shared, served, spec) = (self.shared, self.served()?.clone(), self.spec(body)?);
        let seats = shared.accounts.take(&self.client, Kind::Operators)?;
        let inner = served.backend().limits(&spec)?;
        let operator = served.backend().prepare(&spec).map_err(Refusal::Setup)?;
        let shape = operator.shape();
        let output_bytes_max = shared.quotas.output_bytes_max;
        if let OutputShape::Fixed(bytes) = shape
            && bytes > output_bytes_max
        {
            let reason = format!(
                "outputs of {bytes} bytes, and the agent gives {output_bytes_max} to a job"
            );
            return Err(Unsupported { reason }.into());
        }
        let mut number = Number::default();
        getrandom::fill(&mut number).map_err(|error| Unsupported {
            reason: format!("the agent's system gives no random bytes: {error}"),
        })?;
        let prepared = Prepared {
            number,
            control: operator.control(),
            limits: shared.bounded(inner),
            uncommitted_bytes: Mutex::new(0),
            is_synchronous: inner.synchronous,
            operator,
            served,
            _seats: seats,
        };
        let facts = Facts {
            number,
            limits: prepared.limits,
            output_bytes_max,
            shape,
            in_place: prepared.operator.in_place(),
            has_control: prepared.control.is_some(),
        };
        lock(&shared.operators).push(Arc::new(prepared));
        self.mine.push(number);
        Ok(facts)
    }

    /// The operator whose number a body begins with, and the rest.
    fn prepared<'b>(&self, body: &'b [u8]) -> Result<(Arc<Prepared>, Reader<'b>), Refusal> {
        let mut from = Reader::new(body);
        let number = from.array()?;
        let prepared = self.shared.find(&number).map_err(Refusal::Setup)?;
        Ok((prepared, from))
    }

    /// Opens this end of a transport to the client's ring, and offers a ring of this end.
    fn offer_ring(&mut self, words: &[u8], to: &mut Vec<u8>) -> Result<(), Refusal> {
        if !matches!(self.transport, Transport::Wire) {
            return Err(Malformed("a ring where there is one").into());
        }
        let at_agent = |why: &str| Unsupported {
            reason: format!("the agent: {why}"),
        };
        let duplex = self.shared.duplex.as_ref().map_err(|why| at_agent(why))?;
        let seats = self.shared.accounts.take(&self.client, Kind::Queues)?;
        let (answer, writer) = duplex.accept(words).map_err(|why| at_agent(&why))?;
        let (words, offer) = duplex.offer().map_err(|why| at_agent(&why))?;
        put_rings(to, &answer, &words);
        self.transport = Transport::Offered(writer, offer, seats);
        Ok(())
    }

    /// Opens the ring that was offered for whom the client's answer names.
    fn join(&mut self, answer: &[u8]) -> Result<(), Refusal> {
        let offered = std::mem::replace(&mut self.transport, Transport::Wire);
        let Transport::Offered(writer, offer, seats) = offered else {
            return Err(Malformed("an answer to no ring").into());
        };
        let opened = offer.open(answer).map_err(|why| Unsupported {
            reason: format!("the agent: {why}"),
        })?;
        self.transport = Transport::Open(writer, opened.reader, seats);
        Ok(())
    }

    fn open(&mut self, body: &[u8]) -> Result<Lane, Refusal> {
        let (prepared, mut from) = self.prepared(body)?;
        let depth = NonZeroU32::new(from.u32()?).ok_or(Malformed("a queue of no depth"))?;
        from.end()?;
        let (shared, limits) = (self.shared, prepared.limits);
        if depth > limits.depth_max {
            return Err(Refusal::Setup(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: limits.depth_max.get(),
            }));
        }
        let operator: Arc<dyn Operator> = prepared.operator.clone();
        let transport = std::mem::replace(&mut self.transport, Transport::Wire);
        let (rings, seats) = match transport {
            Transport::Open(writer, reader, seats) => {
                let rings = Rings::new(writer, reader, depth.get() as usize);
                (Some(rings), seats)
            }
            Transport::Wire => (None, shared.accounts.take(&self.client, Kind::Queues)?),
            Transport::Offered(..) => return Err(Malformed("a queue before its ring").into()),
        };
        let queue = operator.open(depth).map_err(Refusal::Setup)?;
        Ok(Lane {
            queue,
            prepared,
            depth,
            rings,
            _seats: seats,
        })
    }

    fn release(&mut self, is_over: impl Fn(&Number) -> bool) {
        let mut operators = lock(&self.shared.operators);
        let over = |prepared: &Arc<Prepared>| {
            self.mine.contains(&prepared.number) && is_over(&prepared.number)
        };
        // Dropped once the lock is free: it may wait for a device.
        let gone: Vec<_> = operators
            .extract_if(.., |prepared| over(prepared))
            .collect();
        drop(operators);
        drop(gone);
        self.mine.retain(|number| !is_over(number));
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        self.release(|_| true);
    }
}

/// Changes the table of an operator that has one. Changes that are not committed may have `bytes_max` bytes.
fn change(
    prepared: &Prepared,
    tag: Tag,
    from: Reader<'_>,
    bytes_max: usize,
) -> Result<Result<u64, ChangeError>, Refusal> {
    let none = || Malformed("a change to an operator without a table");
    let control = prepared.control.as_ref().ok_or_else(none)?;
    let mut uncommitted = lock(&prepared.uncommitted_bytes);
    if tag == Tag::Commit {
        from.end()?;
        let committed = control.commit();
        if committed.is_ok() {
            *uncommitted = 0;
        }
        return Ok(committed);
    }
    let changes = from.rest();
    let sum = uncommitted.saturating_add(changes.len());
    if sum > bytes_max {
        return Ok(Err(ChangeError::Full));
    }
    let changed = control.change(changes);
    if changed.is_ok() {
        *uncommitted = sum;
    }
    Ok(changed.map(|()| 0))
}
