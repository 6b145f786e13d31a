//! The connection on which an agent is asked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dpb_core::{Properties, Unsupported};

use super::super::codec::{Malformed, Reader, put_text};
use super::super::protocol::{
    NAME_BYTES_MAX, Number, Refusal, SHORT_BYTES_MAX, TEXT_BYTES_MAX, Tag, greeting, read_greeting,
    read_properties, read_refusal,
};
use super::super::talk::{Broken, Talk, Until};
use super::super::wire::SessionSecurity;
use super::Far;

/// A connection on which one question at a time is asked.
pub(super) struct Line {
    state: Mutex<State>,
    pub(super) security: SessionSecurity,
    pub(super) spec_bytes_max: usize,
    /// The machine at the other end.
    pub(super) machine: String,
}

struct State {
    talk: Talk<'static>,
    /// Why it is over.
    lost: Option<String>,
}

/// A backend, as its agent describes it.
pub(super) struct Described {
    pub(super) properties: Properties,
    pub(super) is_model: bool,
}

impl Line {
    /// Connects and greets.
    pub(super) fn connect(far: &Far, address: &str) -> Result<Self, String> {
        let dialled = far.dial.dial(address)?;
        let talk = Talk::new(dialled.wire, far.clock.clone(), far.patience);
        let mut talk = talk.map_err(|error| format!("{address}: {error}"))?;
        let body = ask(&mut talk, Tag::Hello, &greeting(), Tag::Welcome);
        let body = body.map_err(|why| in_words(address, why))?;
        let mut from = read_greeting(&body).map_err(|why| format!("{address}: {why}"))?;
        let wrong = |why: Malformed| format!("{address}: {why}");
        let machine = from.words(TEXT_BYTES_MAX).map_err(wrong)?;
        let spec_bytes_max = from.size().map_err(wrong)?;
        from.end().map_err(wrong)?;
        Ok(Self {
            state: Mutex::new(State { talk, lost: None }),
            security: dialled.security,
            spec_bytes_max,
            machine,
        })
    }

    /// Chooses the agent's backend that further questions are about.
    pub(super) fn choose(&self, backend: &str) -> Result<Described, Refusal> {
        let mut name = Vec::new();
        put_text(&mut name, backend, NAME_BYTES_MAX);
        let body = self.ask(Tag::Backend, &name, Tag::Described)?;
        let mut from = Reader::new(&body);
        let properties = read_properties(&mut from)?;
        let is_model = from.bool()?;
        from.end()?;
        Ok(Described {
            properties,
            is_model,
        })
    }

    /// Asks and waits for the answer. After a fatal refusal the line is lost.
    pub(super) fn ask(&self, tag: Tag, body: &[u8], answer: Tag) -> Result<Vec<u8>, Refusal> {
        let mut state = self.state();
        if let Some(why) = &state.lost {
            return Err(Refusal::Fatal(why.clone()));
        }
        let answered = ask(&mut state.talk, tag, body, answer);
        if let Err(Refusal::Fatal(why)) = &answered {
            state.lost = Some(why.clone());
        }
        answered
    }

    /// Says that an operator is no longer needed. There is no answer.
    pub(super) fn release(&self, number: &Number) {
        let mut state = self.state();
        if state.lost.is_some() {
            return;
        }
        if let Err(why) = state.talk.send(Tag::Release, number) {
            state.lost = Some(why.to_string());
        }
    }

    /// True if nothing can be asked any more.
    pub(super) fn is_lost(&self) -> bool {
        self.state().lost.is_some()
    }

    /// The conversation itself, which goes on as a queue.
    pub(super) fn into_talk(self) -> Talk<'static> {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).talk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Who panicked while it asked leaves a line on which the next answer is refused as one of another kind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest time for which an agent may say that it works on an answer: so many times the patience.
const WORKS_PATIENCES_MAX: u32 = 10;

/// One question and its answer, for which it waits as long as the agent says now and then that it works, up to [`WORKS_PATIENCES_MAX`].
fn ask(talk: &mut Talk<'_>, tag: Tag, body: &[u8], answer: Tag) -> Result<Vec<u8>, Refusal> {
    let fatal = |why: Broken| Refusal::Fatal(why.to_string());
    // An agent that refuses may do so before it has read everything, so its reason is looked for first.
    let sent = talk.send(tag, body);
    let bytes_max = |tag| match tag {
        _ if tag == answer || tag == Tag::Refused => SHORT_BYTES_MAX,
        _ => 0,
    };
    let asked_ns = talk.now_ns();
    let answered = loop {
        match (&sent, talk.receive(bytes_max, Until::Patience)) {
            // Patience begins anew.
            (_, Ok((Tag::Working, _))) => {
                let limit = talk.patience().saturating_mul(WORKS_PATIENCES_MAX);
                if Duration::from_nanos(talk.now_ns().saturating_sub(asked_ns)) > limit {
                    let why = format!("the agent has worked on an answer for {limit:?}");
                    return Err(Refusal::Fatal(why));
                }
            }
            (_, Ok(answered)) => break answered,
            (Ok(()), Err(why)) => return Err(fatal(why)),
            (Err(why), Err(_)) => return Err(Refusal::Fatal(why.to_string())),
        }
    };
    match answered {
        (Tag::Refused, body) => Err(read_refusal(&body.0)?),
        (tag, mut body) if tag == answer => Ok(std::mem::take(&mut body.0)),
        _ => Err(Malformed("an answer of another kind").into()),
    }
}

/// The refusal of the agent at `address` for a person.
pub(super) fn in_words(address: &str, refusal: Refusal) -> String {
    match refusal {
        Refusal::Fatal(why) => format!("{address}: {why}"),
        Refusal::Setup(why) => why.to_string(),
    }
}

/// The refusal as one of a backend.
pub(super) fn unsupported(address: &str, refusal: Refusal) -> Unsupported {
    match refusal {
        Refusal::Setup(dpb_core::SetupError::Unsupported(why)) => why,
        other => Unsupported {
            reason: in_words(address, other),
        },
    }
}
