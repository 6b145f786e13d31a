//! The client's side of the service `tasks`.

use std::fmt;
use std::net::IpAddr;

use dpb_core::measure::{Reading, Record};
use dpb_core::printable;
use dpb_link::tag::STOP;
use dpb_link::{Connect, ConnectError, Link, LinkError, Refusal};

use super::protocol::{
    Asked, CHECK, CHECKED, CHECKED_AT_ONCE, Checked, DESCRIBE, DESCRIBED, Description, ENDED,
    Ended, NAME, PROGRESS, READY, RECORDS, RECORDS_BYTES_MAX, Ready, SERVER_END, SILENCE_MAX, TAGS,
    TEST, TestOrder, VERSION, decode, encode,
};

/// Characters of a line of progress that are shown.
const PROGRESS_CHARS_MAX: usize = 200;

/// Why an agent did not do what it was asked to.
#[derive(Debug)]
pub enum TasksError {
    /// Nobody is there, or not this service.
    Unavailable(String),
    /// The client is not let in.
    NotAdmitted(String),
    /// Other clients keep it busy.
    Busy(String),
    /// The agent does not do what it is asked, for this reason of its own.
    Refused(String),
    /// The connection broke in the middle.
    Broke(String),
    /// Somebody interrupted this process.
    Interrupted,
}

impl fmt::Display for TasksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable(text)
            | Self::NotAdmitted(text)
            | Self::Busy(text)
            | Self::Refused(text)
            | Self::Broke(text) => text,
            Self::Interrupted => "interrupted",
        })
    }
}

/// A connection to the service of an agent.
#[derive(Debug)]
pub struct Client {
    link: Link,
    address: String,
    stop: fn() -> bool,
}

/// What comes while a test runs.
enum News {
    Progress(String),
    Records(Vec<u8>),
    Ready(Ready),
    Ended(Ended),
}

impl Client {
    /// Connects, and opens the service.
    ///
    /// # Errors
    /// [`TasksError`].
    pub fn connect(connect: &Connect) -> Result<Self, TasksError> {
        let address = connect.address.clone();
        let stop = connect.stop;
        let session = connect
            .session()
            .map_err(|error| not_connected(error, stop))?;
        let agent = &session.agent().dpb_version;
        if !session.services().iter().any(|offer| offer.name == NAME) {
            return Err(TasksError::Unavailable(format!(
                "the agent at {address} (dpb {agent}) runs no tests of clients: start it with `dpb serve --tasks`"
            )));
        }
        let link = session
            .open(NAME, VERSION, TAGS)
            .map_err(|error| of_link(error, &address, stop))?;
        Ok(Self {
            link,
            address,
            stop,
        })
    }

    /// The address by which the agent was reached.
    ///
    /// # Errors
    /// [`TasksError::Broke`].
    pub fn agent_ip(&self) -> Result<IpAddr, TasksError> {
        let peer = self.link.stream().tcp().peer_addr();
        let peer = peer.map_err(|error| self.wrong(LinkError::Io(error)))?;
        Ok(peer.ip().to_canonical())
    }

    /// The agent's description of itself.
    ///
    /// # Errors
    /// [`TasksError`].
    pub fn describe(&mut self) -> Result<Description, TasksError> {
        let asked = self.ask(DESCRIBE, &[], DESCRIBED);
        asked
            .and_then(|body| decode(&body))
            .map_err(|error| self.wrong(error))
    }

    /// Asks of each test whether the agent takes it.
    ///
    /// # Errors
    /// [`TasksError`].
    pub fn check(&mut self, asked: &[Asked]) -> Result<Vec<Checked>, TasksError> {
        let mut all = Vec::with_capacity(asked.len());
        for some in asked.chunks(CHECKED_AT_ONCE) {
            let checked = self.check_some(some).map_err(|error| self.wrong(error))?;
            all.extend(checked);
        }
        Ok(all)
    }

    fn check_some(&mut self, asked: &[Asked]) -> Result<Vec<Checked>, LinkError> {
        let body = self.ask(CHECK, &encode(&asked)?, CHECKED)?;
        let checked: Vec<Checked> = decode(&body)?;
        match checked.len() == asked.len() {
            true => Ok(checked),
            false => Err(LinkError::Disbelieved(format!(
                "{} answers to {} tests",
                checked.len(),
                asked.len()
            ))),
        }
    }

    /// Runs a test there. `say` hears what it does.
    ///
    /// # Errors
    /// [`TasksError`].
    pub fn test(
        &mut self,
        order: &TestOrder,
        say: &mut dyn FnMut(&str),
    ) -> Result<(Vec<Record>, Ended), TasksError> {
        let came = self.run_test(order, say);
        came.map_err(|error| self.wrong(error))
    }

    fn run_test(
        &mut self,
        order: &TestOrder,
        say: &mut dyn FnMut(&str),
    ) -> Result<(Vec<Record>, Ended), LinkError> {
        self.link.send(TEST, &encode(order)?)?;
        let mut lines = Vec::new();
        let ended = loop {
            match self.news()? {
                News::Progress(words) => say(&words),
                News::Records(some) if lines.len() + some.len() > RECORDS_BYTES_MAX => {
                    let text = "more records than a test has".to_owned();
                    return Err(LinkError::Disbelieved(text));
                }
                News::Records(some) => lines.extend(some),
                News::Ended(ended) => break ended,
                News::Ready(_) => return Err(LinkError::OutOfPlace(READY)),
            }
        };
        let reading = Reading::of_bytes(&lines);
        if let Some(damage) = reading.damaged.first() {
            return Err(LinkError::Disbelieved(format!(
                "record {}: {}",
                damage.number, damage.reason
            )));
        }
        let records: Vec<Record> = reading.records.into_iter().map(|r| r.record).collect();
        if records.is_empty() || records.iter().any(|r| r.task != order.test.task) {
            let text = format!("its records are not of the task {}", order.test.task);
            return Err(LinkError::Disbelieved(text));
        }
        Ok((records, ended))
    }

    /// Starts the server's end of a test there.
    ///
    /// # Errors
    /// [`TasksError`].
    pub fn start_server_end(
        &mut self,
        order: &TestOrder,
        say: &mut dyn FnMut(&str),
    ) -> Result<Ready, TasksError> {
        let mut ready = || -> Result<Ready, LinkError> {
            self.link.send(SERVER_END, &encode(order)?)?;
            loop {
                match self.news()? {
                    News::Progress(words) => say(&words),
                    News::Ready(ready) => return Ok(ready),
                    News::Records(_) => return Err(LinkError::OutOfPlace(RECORDS)),
                    News::Ended(_) => return Err(LinkError::OutOfPlace(ENDED)),
                }
            }
        };
        let ready = ready();
        ready.map_err(|error| self.wrong(error))
    }

    /// Ends the server's end.
    ///
    /// # Errors
    /// [`TasksError`].
    pub fn end_server_end(&mut self) -> Result<Ended, TasksError> {
        let mut ended = || -> Result<Ended, LinkError> {
            self.link.send(STOP, &[])?;
            loop {
                match self.news()? {
                    News::Progress(_) => {}
                    News::Ended(ended) => return Ok(ended),
                    News::Records(_) => return Err(LinkError::OutOfPlace(RECORDS)),
                    News::Ready(_) => return Err(LinkError::OutOfPlace(READY)),
                }
            }
        };
        let ended = ended();
        ended.map_err(|error| self.wrong(error))
    }

    /// Whether the agent has gone.
    pub fn agent_gone(&self) -> bool {
        self.link.peer_gone()
    }

    /// A request with one answer.
    fn ask(&mut self, tag: u8, body: &[u8], answer: u8) -> Result<Vec<u8>, LinkError> {
        self.link.send(tag, body)?;
        self.link.set_deadline(Some(SILENCE_MAX));
        let header = self.link.receive_answer_of(answer)?;
        self.link.receive_body(header)
    }

    /// The next frame of a test.
    fn news(&mut self) -> Result<News, LinkError> {
        self.link.set_deadline(Some(SILENCE_MAX));
        let header = self.link.receive_answer()?;
        let body = self.link.receive_body(header)?;
        Ok(match header.tag {
            PROGRESS => News::Progress(printable(
                &String::from_utf8_lossy(&body),
                PROGRESS_CHARS_MAX,
            )),
            RECORDS => News::Records(body),
            READY => News::Ready(decode(&body)?),
            ENDED => News::Ended(decode(&body)?),
            tag => return Err(LinkError::OutOfPlace(tag)),
        })
    }

    fn wrong(&self, error: LinkError) -> TasksError {
        of_link(error, &self.address, self.stop)
    }
}

fn of_link(error: LinkError, address: &str, stop: fn() -> bool) -> TasksError {
    if stop() {
        return TasksError::Interrupted;
    }
    if let LinkError::Refused {
        refusal: Refusal::Usage,
        text,
    } = error
    {
        return TasksError::Refused(text);
    }
    let text = format!("the agent at {address}: {error}");
    match error {
        LinkError::Refused { refusal, .. } => match refusal {
            Refusal::Busy => TasksError::Busy(text),
            Refusal::Token | Refusal::Credentials => TasksError::NotAdmitted(text),
            Refusal::Version => TasksError::Unavailable(text),
            _ => TasksError::Broke(text),
        },
        _ => TasksError::Broke(text),
    }
}

fn not_connected(error: ConnectError, stop: fn() -> bool) -> TasksError {
    if stop() {
        return TasksError::Interrupted;
    }
    match error {
        ConnectError::Unprotected { .. } => TasksError::NotAdmitted(error.to_string()),
        ConnectError::Unreachable { .. } => TasksError::Unavailable(error.to_string()),
        ConnectError::Link { address, source } => match source {
            LinkError::Tls(_) => {
                TasksError::NotAdmitted(format!("the agent at {address}: {source}"))
            }
            LinkError::Version { .. } | LinkError::Foreign => {
                TasksError::Unavailable(format!("the agent at {address}: {source}"))
            }
            source => of_link(source, &address, stop),
        },
    }
}
