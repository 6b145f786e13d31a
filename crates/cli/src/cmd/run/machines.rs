//! Other machines that take part in a box: reached before anything runs, asked whether they take its tests, and given them.
//!
//! Each test has a connection of its own, so that an agent that went away is noticed by the test that it was running. Records say which
//! machine they are of by its label. Nothing compares the clocks of two machines.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dpb_core::measure::provenance::Machine as ThisMachine;
use dpb_core::measure::{Outcome, Record, Value};
use dpb_link::{ClientCredentials, Connect, Pass, Token};

use crate::boxes::{MeasurementBox, Runner, Site, Test};
use crate::cmd::serve::token_of;
use crate::contained::{OutputSoFar, Watch};
use crate::executor::{Executor, Order, TestEnd, Work, without_numbers};
use crate::exit::Failure;
use crate::interrupt;
use crate::output;
use crate::ssh::{SshAgent, check_target};
use crate::task::{Cost, EndPass, Kind, ServerEnd};
use crate::tasks_service::client::{Client, TasksError};
use crate::tasks_service::protocol::{Asked, Checked, Description, Ready, TestOrder};

/// How long a test waits for an agent that other clients keep busy.
const BUSY_PATIENCE: Duration = Duration::from_secs(600);
/// The interval at which a busy agent is asked again.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// What an address of ssh's begins with.
const SSH: &str = "ssh:";

/// Most characters that are shown of the reason why a machine does not take a test.
const REASON_CHARS_MAX: usize = 2000;

const MACHINES: &str = "Other machines";

/// Flags that name other machines.
#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Run each test on another machine too, after this one: NAME=HOST:PORT, where `dpb serve --tasks` listens, or
    /// NAME=ssh:USER@HOST, where ssh starts an agent for this run. Tests with a server's end (tcp, pushdown) run between both
    /// machines as well
    #[arg(long, value_name = "NAME=ADDRESS", help_heading = MACHINES, value_parser = named)]
    on: Vec<Named>,
    /// Run no test on this machine, but only on those that --on names
    #[arg(long, help_heading = MACHINES, requires = "on")]
    without_this_machine: bool,
    /// The file `client.credentials` of an agent's credentials; of several agents NAME=FILE for each
    #[arg(long, value_name = "[NAME=]FILE", help_heading = MACHINES, requires = "on")]
    credentials: Vec<String>,
    /// The file with the token of an agent on this machine; of several agents NAME=FILE for each
    #[arg(long, value_name = "[NAME=]FILE", help_heading = MACHINES, requires = "on")]
    token_file: Vec<String>,
    /// How ssh is called, with options: `ssh -p 2222`. It asks for no password
    #[arg(long, value_name = "WORDS", help_heading = MACHINES, default_value = "ssh")]
    ssh_command: String,
}

/// A machine, as a command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    label: String,
    way: Way,
}

/// How a machine is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Address(String),
    Ssh(String),
}

/// `dpu=10.0.0.2:7400`, `dpu=ssh:user@dpu`.
fn named(text: &str) -> Result<Named, String> {
    let wrong = || format!("`{text}` is not NAME=HOST:PORT or NAME=ssh:USER@HOST");
    let (label, address) = text.split_once('=').ok_or_else(wrong)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if label.is_empty() || label.len() > 64 || !label.chars().all(is_plain) {
        return Err(format!(
            "`{label}` is no name: it has letters, digits, hyphens, underscores and dots"
        ));
    }
    let way = match address.strip_prefix(SSH) {
        Some(target) => {
            check_target(target)?;
            Way::Ssh(target.to_owned())
        }
        None => Way::Address(crate::args::address(address)?),
    };
    Ok(Named {
        label: label.to_owned(),
        way,
    })
}

/// The machines beside this one.
#[derive(Debug, Default)]
pub(super) struct Machines(Vec<Machine>);

/// A machine that was reached.
#[derive(Debug)]
struct Machine {
    label: String,
    connect: Connect,
    description: Description,
    /// Why it cannot be reached any more.
    lost: Option<String>,
    /// The agent that was started for this run.
    _agent: Option<SshAgent>,
}

/// What came of a test that has to do with another machine.
pub(super) enum MachineEnd {
    /// Its records.
    Records(Vec<Record>),
    /// Somebody interrupted this process.
    Interrupted,
    /// The other machine cannot be reached, so the test did not begin.
    Lost,
}

impl Machines {
    /// Reaches all that are named.
    ///
    /// # Errors
    /// If one of them is not there, does not let this client in, or runs no tests.
    pub(super) fn reach(flags: &Flags) -> Result<Self, Failure> {
        let mut machines = Self::default();
        let here = ThisMachine::look().host;
        for (at, named) in flags.on.iter().enumerate() {
            let is_twice = flags.on[..at]
                .iter()
                .any(|other| other.label == named.label);
            if is_twice || named.label == here {
                return Err(Failure::usage(format!(
                    "--on {}: another machine has this name{}; names tell records apart",
                    named.label,
                    if is_twice { "" } else { ", this one" },
                )));
            }
        }
        for named in &flags.on {
            machines.0.push(Machine::reach(named, flags)?);
        }
        Ok(machines)
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts each test of the box on all machines, one after the other, and asks these what it takes there. A machine that does not
    /// take a test gets it all the same: it is asked again when the test is due, and its reason is the test's record.
    ///
    /// # Errors
    /// If a machine cannot be asked.
    pub(super) fn spread(&self, asked: &mut MeasurementBox, flags: &Flags) -> Result<(), Failure> {
        if self.are_none() {
            return Ok(());
        }
        let mut checked = Vec::new();
        for machine in &self.0 {
            checked.push(machine.check(&asked.tests)?);
        }
        let tests = std::mem::take(&mut asked.tests);
        for (at, test) in tests.into_iter().enumerate() {
            if !flags.without_this_machine {
                asked.tests.push(test.clone());
            }
            for (machine, told) in self.0.iter().zip(&checked) {
                asked.tests.push(Test {
                    site: Site::On(machine.label.clone()),
                    told: Some(told[at].clone()),
                    ..test.clone()
                });
                if !flags.without_this_machine && machine.has_server_end(&test) {
                    asked.tests.push(Test {
                        site: Site::To(machine.label.clone()),
                        ..test.clone()
                    });
                }
            }
        }
        Ok(())
    }

    /// Runs a test that is not for this machine alone.
    ///
    /// # Errors
    /// If a process cannot be started here.
    pub(super) fn test(
        &mut self,
        order: &Order<'_>,
        executor: &mut Executor,
        say: &mut dyn FnMut(&str),
    ) -> Result<MachineEnd, Failure> {
        let (label, is_between) = match &order.test.site {
            Site::On(label) => (label, false),
            Site::To(label) => (label, true),
            Site::Here => return Err(Failure::check("a test of this machine alone")),
        };
        let machine = self.0.iter_mut().find(|machine| machine.label == *label);
        let machine = machine.ok_or_else(|| Failure::check(format!("no machine {label}")))?;
        if machine.lost.is_some() {
            return Ok(MachineEnd::Lost);
        }
        let tried = machine.waiting(say, |machine, say| match is_between {
            false => machine.run(order, say),
            true => machine.run_between(order, executor, say),
        });
        match tried {
            Ok(came) => came,
            Err(TasksError::Interrupted) => Ok(MachineEnd::Interrupted),
            Err(TasksError::Refused(reason)) => {
                Ok(machine.no_numbers(order, Outcome::Unsupported { reason }))
            }
            Err(TasksError::Broke(reason)) => {
                Ok(machine.no_numbers(order, Outcome::Failed { reason }))
            }
            Err(error) => {
                output::note(&format!("{label}: {error}; its tests are left out"));
                machine.lost = Some(error.to_string());
                Ok(MachineEnd::Lost)
            }
        }
    }

    /// Why tests were left out.
    pub(super) fn losses(&self) -> Vec<String> {
        let lost = self.0.iter().filter_map(|machine| {
            let why = machine.lost.as_ref()?;
            Some(format!("{}: {why}", machine.label))
        });
        lost.collect()
    }
}

impl Machine {
    fn reach(named: &Named, flags: &Flags) -> Result<Self, Failure> {
        let label = &named.label;
        let (address, pass, agent) = match &named.way {
            Way::Address(address) => (address.clone(), pass_of(label, flags)?, None),
            Way::Ssh(target) => {
                let agent = SshAgent::start(&flags.ssh_command, target)?;
                let pass = Pass::Credentials(agent.credentials.clone());
                (agent.address.clone(), pass, Some(agent))
            }
        };
        let connect = Connect {
            pass,
            stop: interrupt::is_set,
            ..Connect::new(address)
        };
        let described = Client::connect(&connect).and_then(|mut client| client.describe());
        let description = described.map_err(|error| {
            let mut failure = failure(label, &error);
            if agent.is_some() {
                failure.message.push_str(
                    " (ssh has started it; tests go there directly, by a port that nothing must block)",
                );
            }
            failure
        })?;
        Ok(Self {
            label: label.clone(),
            connect,
            description,
            lost: None,
            _agent: agent,
        })
    }

    /// What each test takes there, or why it is not taken.
    fn check(&self, tests: &[Test]) -> Result<Vec<Result<Cost, String>>, Failure> {
        let asked: Vec<Asked> = tests.iter().map(asked).collect();
        let checked = Client::connect(&self.connect).and_then(|mut client| client.check(&asked));
        let checked = checked.map_err(|error| failure(&self.label, &error))?;
        let told = checked.into_iter().map(|checked| match checked {
            Checked::Takes(taken) => Ok(taken.into()),
            Checked::Refused(why) => Err(dpb_core::printable(&why, REASON_CHARS_MAX)),
        });
        Ok(told.collect())
    }

    /// Whether the test can also run between this machine and that one.
    fn has_server_end(&self, test: &Test) -> bool {
        let Some((task, server_end)) = server_end_of(test) else {
            return false;
        };
        let known = self.description.tasks.get(task.name);
        if !known.is_some_and(|known| known.has_server_end) {
            return false;
        }
        // Some parameters are those of a server of the test's own.
        let mut words = test.arguments(1, 1);
        let place = "127.0.0.1:1".parse().expect("an address");
        words.extend(end_words(&server_end, place, Path::new("pass")));
        task.command().try_get_matches_from(words).is_ok()
    }

    /// Does something with the agent, once it is not busy with others.
    fn waiting<T>(
        &mut self,
        say: &mut dyn FnMut(&str),
        mut work: impl FnMut(&mut Self, &mut dyn FnMut(&str)) -> Result<T, TasksError>,
    ) -> Result<T, TasksError> {
        let clock = self.connect.clock.clone();
        let began_ns = clock.now_ns();
        loop {
            match work(self, say) {
                Err(TasksError::Busy(why)) => {
                    if interrupt::is_set() {
                        return Err(TasksError::Interrupted);
                    }
                    let waited_ns = clock.now_ns().saturating_sub(began_ns);
                    if u128::from(waited_ns) > BUSY_PATIENCE.as_nanos() {
                        return Err(TasksError::Busy(why));
                    }
                    say(&why);
                    clock.sleep(BUSY_INTERVAL);
                }
                other => return other,
            }
        }
    }

    /// A connection for a test. One that cannot be had is no failure of the test.
    fn client(&self) -> Result<Client, TasksError> {
        Client::connect(&self.connect).map_err(|error| match error {
            TasksError::Broke(why) | TasksError::Refused(why) => TasksError::Unavailable(why),
            other => other,
        })
    }

    /// Runs a test there.
    fn run(
        &self,
        order: &Order<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Result<MachineEnd, Failure>, TasksError> {
        let mut client = self.client()?;
        let (mut records, _) = client.test(&test_order(order), say)?;
        for record in &mut records {
            self.mark(record, order);
            self.label.clone_into(&mut record.provenance.host);
        }
        Ok(Ok(MachineEnd::Records(records)))
    }

    /// Runs a test here whose server's end is there.
    fn run_between(
        &self,
        order: &Order<'_>,
        executor: &mut Executor,
        say: &mut dyn FnMut(&str),
    ) -> Result<Result<MachineEnd, Failure>, TasksError> {
        let Some((_, server_end)) = server_end_of(order.test) else {
            return Ok(Err(Failure::check("the task has no server's end")));
        };
        let mut client = self.client()?;
        let ready = client.start_server_end(&test_order(order), say)?;
        let place = SocketAddr::new(client.agent_ip()?, ready.port);
        let pass = match PassFile::new(&server_end, &ready) {
            Ok(pass) => pass,
            Err(error) => return Ok(Err(Failure::from(anyhow::Error::from(error)))),
        };
        let words = end_words(&server_end, place, &pass.path);
        let order = Order {
            words: &words,
            ..*order
        };
        let came = executor.test(&order, &mut UntilAgentGone(&client));
        match came {
            Err(failure) => Ok(Err(failure)),
            Ok(TestEnd::Ended) if interrupt::is_set() => Err(TasksError::Interrupted),
            Ok(TestEnd::Ended) if client.agent_gone() => {
                let text = "the agent went away while its server's end was in use";
                Err(TasksError::Broke(text.to_owned()))
            }
            // The test's process was interrupted.
            Ok(TestEnd::Ended) => Err(TasksError::Interrupted),
            Ok(TestEnd::Done(mut done)) => {
                // What the test found stands, however its server ends.
                if let Err(error) = client.end_server_end() {
                    output::note(&format!("{}: the server's end: {error}", self.label));
                }
                for record in &mut done.records {
                    self.mark(record, &order);
                    let label = Value::from(self.label.as_str());
                    record.parameters.insert("server".to_owned(), label);
                }
                Ok(Ok(MachineEnd::Records(done.records)))
            }
        }
    }

    /// Says in a record which agent took part, and of which run it is.
    fn mark(&self, record: &mut Record, order: &Order<'_>) {
        let machine = &self.description.machine;
        let agent = format!(
            "dpb {} on {}: {}",
            machine.dpb_version, machine.host, machine.cpu_model
        );
        let libraries = &mut record.provenance.libraries;
        libraries.insert(
            format!("agent {}", self.label),
            dpb_core::printable(&agent, 500),
        );
        order.run.clone_into(&mut record.provenance.run);
    }

    /// The record of a test that gave none.
    fn no_numbers(&self, order: &Order<'_>, outcome: Outcome) -> MachineEnd {
        let mut record = without_numbers(order, outcome);
        if matches!(order.test.site, Site::On(_)) {
            let own = std::mem::replace(&mut record.provenance, self.description.machine.clone());
            record.provenance.command = own.command;
            record.provenance.started_unix_s = own.started_unix_s;
            record.provenance.seed = own.seed;
            self.label.clone_into(&mut record.provenance.host);
        } else {
            let label = Value::from(self.label.as_str());
            record.parameters.insert("server".to_owned(), label);
        }
        self.mark(&mut record, order);
        MachineEnd::Records(vec![record])
    }
}

/// A task's server's end, if the test can be given one.
fn server_end_of(test: &Test) -> Option<(&'static crate::task::Task, ServerEnd)> {
    match &test.runner {
        Runner::Task(task) => Some((task, task.server_end?)),
        Runner::Plugin(_) => None,
    }
}

/// The words by which a test finds the server's end.
fn end_words(server_end: &ServerEnd, place: SocketAddr, pass: &Path) -> Vec<String> {
    let flag = match server_end.pass {
        EndPass::Token => "--token-file",
        EndPass::Credentials => "--credentials",
    };
    vec![
        format!("--server={place}"),
        format!("{flag}={}", pass.display()),
    ]
}

/// A file with what a server's end wants to be shown; gone when this is dropped.
struct PassFile {
    path: PathBuf,
    _folder: Work,
}

impl PassFile {
    fn new(server_end: &ServerEnd, ready: &Ready) -> io::Result<Self> {
        let text = match server_end.pass {
            EndPass::Token => format!("{}\n", ready.token),
            EndPass::Credentials => {
                let token = Token::new(ready.token.as_bytes()).map_err(io::Error::other)?;
                let fingerprint = ready.fingerprint.as_deref().unwrap_or_default();
                let credentials = ClientCredentials::new(fingerprint, token);
                credentials.map_err(io::Error::other)?.to_text()
            }
        };
        let folder = Work::new()?;
        let path = folder.0.join("pass");
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(Self {
            path,
            _folder: folder,
        })
    }
}

/// Ends a test whose server's end has gone with its agent.
struct UntilAgentGone<'a>(&'a Client);

impl Watch for UntilAgentGone<'_> {
    fn ends(&mut self, _: &OutputSoFar<'_>) -> bool {
        self.0.agent_gone()
    }
}

fn asked(test: &Test) -> Asked {
    let parameters = test.parameters.iter().map(|(parameter, value)| {
        let value = match parameter.kind {
            Kind::Switch => serde_json::Value::Bool(value == "true"),
            _ => serde_json::Value::from(value.as_str()),
        };
        (parameter.name.clone(), value)
    });
    Asked {
        task: test.runner.name().to_owned(),
        parameters: parameters.collect::<BTreeMap<_, _>>(),
    }
}

fn test_order(order: &Order<'_>) -> TestOrder {
    TestOrder {
        test: asked(order.test),
        repeats: order.repeats,
        seed: order.seed,
        run: order.run.to_owned(),
    }
}

/// What a machine's agent is shown: the file that is named for it, or for all.
fn pass_of(label: &str, flags: &Flags) -> Result<Pass, Failure> {
    if let Some(path) = file_of(label, &flags.credentials, flags)? {
        let credentials = ClientCredentials::load(&path);
        let credentials =
            credentials.map_err(|error| Failure::usage(format!("--credentials: {error}")))?;
        return Ok(Pass::Credentials(credentials));
    }
    match file_of(label, &flags.token_file, flags)? {
        Some(path) => Ok(Pass::Token(token_of(&path)?)),
        None => Ok(Pass::None),
    }
}

fn file_of(label: &str, given: &[String], flags: &Flags) -> Result<Option<PathBuf>, Failure> {
    let mut of_all = None;
    for text in given {
        let named = text.split_once('=').filter(|(name, _)| {
            let mut labels = flags.on.iter().map(|named| &named.label);
            labels.any(|label| label == name)
        });
        match named {
            Some((name, file)) if name == label => return Ok(Some(PathBuf::from(file))),
            Some(_) => {}
            None if of_all.is_some() => {
                return Err(Failure::usage(format!(
                    "{text}: one file is for all machines; give NAME=FILE for each"
                )));
            }
            None => of_all = Some(PathBuf::from(text)),
        }
    }
    Ok(of_all)
}

/// How a machine that cannot take part ends the process.
fn failure(label: &str, error: &TasksError) -> Failure {
    let message = format!("{label}: {error}");
    match error {
        TasksError::Interrupted => Failure::interrupted("interrupted"),
        TasksError::NotAdmitted(_) => Failure::usage(message),
        TasksError::Unavailable(_) | TasksError::Busy(_) => Failure::unavailable(message),
        TasksError::Refused(_) | TasksError::Broke(_) => Failure::check(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_a_name_and_an_address() {
        let right = named("dpu=10.0.0.2:7400").expect("right");
        assert_eq!(
            (right.label.as_str(), right.way),
            ("dpu", Way::Address("10.0.0.2:7400".to_owned()))
        );
        let right = named("bf-3=ssh:ubuntu@dpu").expect("right");
        assert_eq!(right.way, Way::Ssh("ubuntu@dpu".to_owned()));
        for wrong in [
            "dpu",
            "=10.0.0.2:7400",
            "d p u=10.0.0.2:7400",
            "dpu=10.0.0.2",
            "dpu=ssh:",
            "dpu=ssh:-oProxyCommand=x",
        ] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
