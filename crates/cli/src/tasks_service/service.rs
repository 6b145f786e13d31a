//! The agent's side of the service `tasks`.

mod server_end;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dpb_core::Timer;
use dpb_core::measure::{Provenance, Record};
use dpb_link::budget::{Budget, Reserved};
use dpb_link::tag::STOP;
use dpb_link::{ClientInfo, Link, LinkError, Refusal, Service, Tags, cut};
use serde_json::json;

use super::protocol::{
    Asked, CHECK, CHECKED, CHECKED_AT_ONCE, Checked, DESCRIBE, DESCRIBED, Description, ENDED,
    Ended, NAME, PROGRESS, PROGRESS_BYTES_MAX, RECORD_BYTES_MAX, RECORDS, RECORDS_BYTES,
    SERVER_END, STILL_RUNS, TAGS, TEST, TaskDescription, TestOrder, VERSION, decode, encode,
};
use super::quotas::Quotas;
use super::refusals;
use crate::Globals;
use crate::boxes::{Changes, MeasurementBox, Test};
use crate::contained::{OutputSoFar, Watch};
use crate::executor::{Done, Executor, Surroundings, TestEnd};
use crate::exit::Failure;
use crate::plugin::Plugins;
use crate::room::Room;
use crate::task::{Cost, Parameter};

/// The time that a client may take to send what it has announced.
const BODY_PATIENCE: Duration = Duration::from_secs(60);
/// Most lines of progress of a test.
const LINES_MAX: u32 = 1000;
/// Least time between two lines of progress.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// Most bytes of the reason for a refusal.
const REASON_BYTES_MAX: usize = 4 << 10;
/// Most bytes of a test's last words.
const WORDS_BYTES_MAX: usize = 16 << 10;

/// What an agent's tests may do, and with which plug-ins.
#[derive(Debug)]
pub struct TasksOptions {
    /// The folder that data is kept in.
    pub data_dir: PathBuf,
    /// The plug-ins that clients may run.
    pub plugins: Plugins,
    /// What a test may take.
    pub quotas: Quotas,
    /// True if tests may empty caches that others use.
    pub may_clear: bool,
    /// How long a client may be idle between requests; `None` for as long as it likes.
    pub idle_patience: Option<Duration>,
    /// The program's tasks, operators and backends.
    pub globals: Globals,
}

/// The service. Only clients with a token or credentials should reach it: they run programs.
pub struct TasksService {
    options: TasksOptions,
    is_ending: AtomicBool,
    /// The right to run a test.
    turn: Budget,
    executor: Mutex<Executor>,
}

impl TasksService {
    /// The service, whose waits go by `clock`.
    pub fn new(options: TasksOptions, clock: &Arc<dyn Timer>) -> Self {
        let executor = Executor::new(
            options.data_dir.clone(),
            Surroundings::Clean,
            options.quotas.time(),
        );
        Self {
            options,
            is_ending: AtomicBool::new(false),
            turn: Budget::new(1, &Arc::default(), clock)
                .saying("another client's test runs; try again later"),
            executor: Mutex::new(executor),
        }
    }

    /// The description that a client is given.
    fn description(&self) -> Result<Description, Failure> {
        let mut tasks = BTreeMap::new();
        for task in self.options.globals.tasks.iter() {
            let has_server_end = task.server_end.is_some();
            let described = described(task.summary, &task.parameters(), has_server_end);
            tasks.insert(task.name.to_owned(), described);
        }
        let names: Vec<String> = self.options.plugins.names().map(str::to_owned).collect();
        for name in names {
            if let Some(plugin) = self.options.plugins.find(&name)? {
                let described = described(&plugin.summary, &plugin.parameters, false);
                tasks.insert(name, described);
            }
        }
        Ok(Description {
            machine: Provenance {
                command: Vec::new(),
                run: String::new(),
                ..Provenance::here(0)
            },
            tasks,
            quotas: self.options.quotas,
        })
    }

    /// The test that a client asks for, and what it takes, if the agent takes it.
    fn admitted(&self, asked: &Asked, runs: u64) -> Result<(Test, Cost), String> {
        let options = &self.options;
        let globals = &options.globals;
        let known = self.parameters(&asked.task)?;
        refusals::check(asked, &known, globals.operators, options.may_clear)?;
        let text = json!({ "tasks": [asked] }).to_string();
        let boxed = MeasurementBox::read(
            "the test",
            &text,
            &options.plugins,
            &Changes::default(),
            globals,
        );
        let mut tests = boxed.map_err(|failure| failure.message)?.tests;
        let (Some(test), true) = (tests.pop(), tests.is_empty()) else {
            return Err("its parameters make another number of tests than one".to_owned());
        };
        let cost = self.cost(&test);
        options.quotas.check(&cost, runs)?;
        let short_of = Room::of(&test, &options.data_dir).shortage(&test, &cost);
        short_of.map_or(Ok((test, cost)), Err)
    }

    fn parameters(&self, task: &str) -> Result<Vec<Parameter>, String> {
        let options = &self.options;
        if let Some(task) = options.globals.tasks.find(task) {
            return Ok(task.parameters());
        }
        if let Some(plugin) = options.plugins.find(task).map_err(|why| why.message)? {
            return Ok(plugin.parameters.clone());
        }
        Err(format!(
            "the agent has no task or plug-in `{task}`; `dpb serve --plugins FOLDER` gives it plug-ins"
        ))
    }

    /// What the test takes where the agent keeps its data.
    fn cost(&self, test: &Test) -> Cost {
        test.cost(&self.options.data_dir)
    }

    /// Waits for the turn of a client's test.
    fn turn(&self, link: &mut Link) -> Result<Reserved<'_>, LinkError> {
        if let Some(turn) = self.turn.reserve_now(1) {
            return Ok(turn);
        }
        link.send(PROGRESS, b"waiting for the test of another client")?;
        let gone = || link.peer_gone() || self.is_ending.load(Ordering::Relaxed);
        self.turn.reserve(1, &gone, |_| 1)
    }

    /// Does something with the executor; whoever does has the turn.
    fn with_executor<T>(&self, work: impl FnOnce(&mut Executor) -> T) -> T {
        let mut executor = self
            .executor
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        work(&mut executor)
    }

    /// The answers to the body of a question whether tests can run.
    pub(crate) fn check(&self, body: &[u8]) -> Result<Vec<Checked>, LinkError> {
        let asked: Vec<Asked> = decode(body)?;
        if asked.len() > CHECKED_AT_ONCE {
            let text = format!("{} tests; at most {CHECKED_AT_ONCE} at once", asked.len());
            return Err(LinkError::refused(Refusal::Usage, text));
        }
        let checked = asked.iter().map(|asked| match self.admitted(asked, 1) {
            Ok((_, cost)) => Checked::Takes(cost.into()),
            Err(why) => Checked::Refused(cut(&why, REASON_BYTES_MAX).to_owned()),
        });
        Ok(checked.collect())
    }

    /// Runs a test, and sends what comes of it.
    fn test(&self, link: &mut Link, order: &TestOrder) -> Result<(), LinkError> {
        let (test, cost) = self.ordered(order)?;
        let _turn = self.turn(link)?;
        let order = order.of(&test, cost);
        let mut onlooker = ProgressSender::new(link, &self.is_ending);
        let came = self.with_executor(|executor| executor.test(&order, &mut onlooker));
        let came = came.map_err(|failure| LinkError::refused(Refusal::Internal, failure.message));
        match came? {
            TestEnd::Ended => Err(self.why_ended(link)),
            TestEnd::Done(done) => send_done(link, &done),
        }
    }

    /// The test of an order, if the agent takes it.
    pub(crate) fn ordered(&self, order: &TestOrder) -> Result<(Test, Cost), LinkError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
        let run = &order.run;
        if run.is_empty() || run.len() > 64 || !run.chars().all(is_plain) {
            let text = "the name of a run is of letters, digits, dots and hyphens";
            return Err(LinkError::refused(Refusal::Usage, text));
        }
        self.admitted(&order.test, order.repeats)
            .map_err(|why| LinkError::refused(Refusal::Usage, cut(&why, REASON_BYTES_MAX)))
    }

    /// Why a test was ended before its end.
    fn why_ended(&self, link: &Link) -> LinkError {
        match link.peer_gone() {
            true => LinkError::Closed,
            false => LinkError::refused(Refusal::Unavailable, "the agent ends, and its tests"),
        }
    }
}

impl Service for TasksService {
    fn name(&self) -> &str {
        NAME
    }

    fn version(&self) -> u16 {
        VERSION
    }

    fn tags(&self) -> Tags {
        TAGS
    }

    fn serve(&self, link: &mut Link, _: &ClientInfo) -> Result<(), LinkError> {
        loop {
            link.set_deadline(self.options.idle_patience);
            let Some(header) = link.receive_header()? else {
                return Ok(());
            };
            link.set_deadline(Some(BODY_PATIENCE));
            let body = link.receive_body(header)?;
            link.set_deadline(None);
            match header.tag {
                DESCRIBE => {
                    let description = self.description();
                    let description = description
                        .map_err(|why| LinkError::refused(Refusal::Internal, why.message))?;
                    link.send(DESCRIBED, &encode(&description)?)?;
                }
                CHECK => {
                    let checked = self.check(&body)?;
                    link.send(CHECKED, &encode(&checked)?)?;
                }
                TEST => self.test(link, &decode(&body)?)?,
                SERVER_END => server_end::serve(self, link, &decode(&body)?)?,
                // The server's end has ended already.
                STOP => {}
                tag => return Err(LinkError::OutOfPlace(tag)),
            }
        }
    }

    fn stop(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }
}

fn described(summary: &str, parameters: &[Parameter], has_server_end: bool) -> TaskDescription {
    let parameters = parameters.iter();
    let parameters = parameters.map(|parameter| (parameter.name.clone(), parameter.schema()));
    TaskDescription {
        summary: summary.to_owned(),
        parameters: parameters.collect(),
        has_server_end,
    }
}

/// Sends a test's records, some lines at a time, and its end.
fn send_done(link: &mut Link, done: &Done) -> Result<(), LinkError> {
    let mut some = Vec::new();
    for record in &done.records {
        let line = line_of(record)?;
        if !some.is_empty() && some.len() + line.len() > RECORDS_BYTES {
            link.send(RECORDS, &some)?;
            some.clear();
        }
        some.extend(line);
    }
    link.send(RECORDS, &some)?;
    send_ended(link, done.code, &done.stderr)
}

fn line_of(record: &Record) -> Result<Vec<u8>, LinkError> {
    let mut line = encode(record)?;
    line.push(b'\n');
    match line.len() > RECORD_BYTES_MAX {
        true => Err(LinkError::refused(
            Refusal::Internal,
            format!("a record of {} bytes is too long to be sent", line.len()),
        )),
        false => Ok(line),
    }
}

/// Says that a test or a server's end has ended.
fn send_ended(link: &mut Link, code: Option<i32>, stderr: &str) -> Result<(), LinkError> {
    let from = stderr.len().saturating_sub(WORDS_BYTES_MAX);
    let ended = Ended {
        code,
        stderr: stderr[stderr.ceil_char_boundary(from)..].to_owned(),
    };
    link.send(ENDED, &encode(&ended)?)
}

/// Tells the client what its test does, and ends the test when the client has gone.
struct ProgressSender<'a> {
    link: &'a mut Link,
    is_ending: &'a AtomicBool,
    is_gone: bool,
    lines: u32,
    last_words: String,
    last_ns: u64,
}

impl<'a> ProgressSender<'a> {
    fn new(link: &'a mut Link, is_ending: &'a AtomicBool) -> Self {
        Self {
            last_ns: link.clock().now_ns(),
            link,
            is_ending,
            is_gone: false,
            lines: 0,
            last_words: String::new(),
        }
    }

    fn say(&mut self, words: &str) {
        let sent = self
            .link
            .send(PROGRESS, cut(words, PROGRESS_BYTES_MAX).as_bytes());
        self.is_gone |= sent.is_err();
        self.last_ns = self.link.clock().now_ns();
    }

    /// True if the client has gone or the agent ends.
    fn is_over(&self) -> bool {
        self.is_gone || self.is_ending.load(Ordering::Relaxed) || self.link.peer_gone()
    }
}

impl Watch for ProgressSender<'_> {
    fn begins(&mut self, step: &str) {
        self.say(step);
    }

    fn ends(&mut self, said: &OutputSoFar<'_>) -> bool {
        let since = self.link.since(self.last_ns);
        if since >= LINE_INTERVAL
            && self.lines < LINES_MAX
            && let Some(words) = said.last_words()
            && words != self.last_words
        {
            self.lines += 1;
            self.say(&words);
            self.last_words = words;
        } else if since >= STILL_RUNS {
            self.say("");
        }
        self.is_over()
    }
}
