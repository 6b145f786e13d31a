//! A backend of another machine.

use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::{
    Backend, Buf, Clock, Evidence, Inner, Limits, OpSpec, Operator, Properties, SetupError,
    Unsupported,
};

use super::super::codec::Reader;
use super::super::protocol::{Refusal, TEXT_BYTES_MAX, Tag, VERSION, read_facts, read_limits};
use super::super::spec;
use super::super::wire::{FAREWELL, hang_up};
use super::Far;
use super::join::{Carrier, join};
use super::line::{Described, Line, in_words, unsupported};
use super::operator::RemoteOperator;

/// `remote/HOST:PORT/BACKEND`.
pub(super) struct RemoteBackend {
    name: String,
    address: String,
    inner: String,
    far: Far,
    properties: Properties,
    /// The device of the transport that its queues have, if they have one.
    carrier: Option<Carrier>,
    /// The connection; another one after it is lost.
    line: Mutex<Arc<Line>>,
    /// What the agent has said of specs.
    said: Mutex<Vec<(OpSpec, Said)>>,
}

/// The agent's answer: limits and code, or why not.
type Said = Result<(Limits, Option<String>), Unsupported>;

/// Answers that are kept.
const SAID_MAX: usize = 16;

impl RemoteBackend {
    /// Connects.
    ///
    /// # Errors
    /// Why not, for a person.
    pub(super) fn open(far: Far, address: &str, inner: &str) -> Result<Self, String> {
        let line = Line::connect(&far, address)?;
        let described = line
            .choose(inner)
            .map_err(|refusal| in_words(address, refusal))?;
        let carrier = try_transport(&far, address)?;
        Ok(Self {
            name: format!("{}/{address}/{inner}", far.family()),
            address: address.to_owned(),
            inner: inner.to_owned(),
            properties: properties(described, inner, address, &line.machine, carrier.as_ref()),
            carrier,
            far,
            line: Mutex::new(Arc::new(line)),
            said: Mutex::default(),
        })
    }

    /// The connection, a new one if the last is lost.
    fn line(&self) -> Result<Arc<Line>, Unsupported> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.is_lost() {
            let absent = |reason| Unsupported { reason };
            let again = Line::connect(&self.far, &self.address).map_err(absent)?;
            let chosen = again.choose(&self.inner);
            chosen.map_err(|refusal| unsupported(&self.address, refusal))?;
            *line = Arc::new(again);
            self.said().clear();
        }
        Ok(Arc::clone(&line))
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Vec<(OpSpec, Said)>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits and code of `spec`, as the agent says them.
    fn ask(&self, spec: &OpSpec) -> Said {
        // An answer that is kept is of this agent, not of one before a restart that was noticed.
        self.line()?;
        let known = |(of, said): &(OpSpec, Said)| (of == spec).then(|| said.clone());
        if let Some(said) = self.said().iter().find_map(known) {
            return said;
        }
        let said = match self.ask_of(spec, Tag::Limits, Tag::Limited) {
            Ok((_, body)) => {
                read_said(&body).map_err(|refusal| unsupported(&self.address, refusal))?
            }
            Err(refusal @ Refusal::Setup(_)) => Err(unsupported(&self.address, refusal)),
            // Of the connection, not of the spec: not to be remembered.
            Err(refusal) => return Err(unsupported(&self.address, refusal)),
        };
        let mut all = self.said();
        if all.len() >= SAID_MAX {
            drop(all.remove(0));
        }
        all.push((spec.clone(), said.clone()));
        said
    }

    /// Asks about `spec`; once more over a new connection if the old one is lost, as after a restart of the agent. Says which connection
    /// answered.
    fn ask_of(
        &self,
        spec: &OpSpec,
        tag: Tag,
        answer: Tag,
    ) -> Result<(Arc<Line>, Vec<u8>), Refusal> {
        let mut asked = false;
        loop {
            let line = self.line()?;
            let (security, bytes_max) = (line.security, line.spec_bytes_max);
            let bytes = spec::encode(spec, &*self.far.resolve, security, bytes_max)?;
            match line.ask(tag, &bytes.0, answer) {
                Ok(body) => return Ok((line, body)),
                Err(Refusal::Fatal(_)) if !asked => asked = true,
                Err(refusal) => return Err(refusal),
            }
        }
    }
}

/// Opens the transport that queues are to have beside their connections, and closes it again: what is missing is known before there is an
/// operator. `None` if they are to have none.
fn try_transport(far: &Far, address: &str) -> Result<Option<Carrier>, String> {
    let Some(beside) = &far.beside else {
        return Ok(None);
    };
    let line = Line::connect(far, address)?;
    let joined = join(&line, &*beside.duplex, 0);
    let carrier = joined.map(|(_, carrier)| carrier);
    // It counted as a queue there: who opens one now finds it given back.
    hang_up(&mut *line.into_talk().wire, FAREWELL);
    let carrier = carrier.map_err(|refusal| in_words(address, refusal));
    carrier.map(Some)
}

fn read_said(body: &[u8]) -> Result<Said, Refusal> {
    let mut from = Reader::new(body);
    let limits = read_limits(&mut from)?;
    let code = from.words(TEXT_BYTES_MAX)?;
    from.end()?;
    let code = (!code.is_empty()).then_some(code);
    Ok(Ok((limits, code)))
}

/// Those of the agent's backend, and of the way there. A model's results come over a real wire in the host's time: what is timed is the
/// software that stands in for the model's device, and the wire.
fn properties(
    described: Described,
    inner: &str,
    address: &str,
    machine: &str,
    carrier: Option<&Carrier>,
) -> Properties {
    let Described {
        properties: there,
        is_model,
    } = described;
    let stand_in = carrier.and_then(|carrier| carrier.emulated_by.clone());
    let by = carrier.map_or(String::new(), |carrier| format!(", by {}", carrier.name));
    let here = Properties::of_device(stand_in.clone())
        .with_library(format!(
            "dpb-link {}, operators {VERSION}",
            env!("CARGO_PKG_VERSION")
        ))
        .with_device(match machine {
            "" => format!("{address}{by}"),
            machine => format!("{address}, {machine}{by}"),
        });
    let evidence = match (&here.evidence, there.evidence) {
        (_, Evidence::Simulated { model }) => Evidence::Emulated {
            by: format!(
                "{inner} at the other end, in the host's time and not the model's: {model}"
            ),
        },
        // This end is emulated, so whatever it times is.
        (emulated @ Evidence::Emulated { .. }, Evidence::Measured) => emulated.clone(),
        (_, _) if is_model => Evidence::Emulated {
            by: format!("{inner} at the other end, in the host's time and not the model's"),
        },
        (_, evidence) => evidence,
    };
    // Of two things that are emulated a record names both.
    let evidence = match (evidence, stand_in) {
        (Evidence::Emulated { by }, Some(stand_in)) if !by.contains(&stand_in) => {
            Evidence::Emulated {
                by: format!("{by}; jobs by {stand_in}"),
            }
        }
        (evidence, _) => evidence,
    };
    let mut properties = here.with_evidence(evidence);
    properties.made_of.inner = Some(Box::new(Inner {
        name: inner.to_owned(),
        made_of: there.made_of,
    }));
    properties
}

impl Backend for RemoteBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &*self.far.clock
    }

    fn properties(&self) -> Properties {
        self.properties.clone()
    }

    fn code(&self, spec: &OpSpec) -> Option<String> {
        self.ask(spec).ok()?.1
    }

    /// Any memory will do: a job's bytes are copied to the wire and from it.
    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        self.ask(spec).map(|(limits, _)| limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        self.limits(spec)?;
        let failed = |refusal| match refusal {
            Refusal::Setup(why) => why,
            fatal => SetupError::Unsupported(unsupported(&self.address, fatal)),
        };
        let prepared = self.ask_of(spec, Tag::Prepare, Tag::Prepared);
        let (line, body) = prepared.map_err(failed)?;
        let facts = read_facts(&body).map_err(|why| failed(why.into()))?;
        let (far, address) = (self.far.clone(), self.address.clone());
        let operator = RemoteOperator::new(
            spec.clone(),
            facts,
            line,
            far,
            address,
            self.carrier.clone(),
        );
        Ok(Arc::new(operator))
    }
}
