//! An agent on a machine that ssh reaches: started there for one run, and gone with it.
//!
//! ssh carries a token to the agent's standard input, and the agent's port and fingerprint back. Tests and their records go over a
//! connection of their own, encrypted by a key that the agent makes and never writes. The agent ends when its standard input does, so
//! also when this process is killed. Where dpb of this version is not installed, this executable is copied there and removed afterwards.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpb_link::{ClientCredentials, Token};
use serde::Deserialize;

use crate::child::{NotReady, ServingChild};
use crate::executor::last_words;
use crate::exit::Failure;
use crate::interrupt;

/// How ssh is asked: it asks nobody for a password, for it may have no terminal.
const OPTIONS: [&str; 5] = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"];
/// Where dpb may be installed besides.
const FIND: &str = r#"PATH="$PATH:$HOME/.local/bin:$HOME/.cargo/bin"; export PATH"#;
/// The time that an agent may take to end.
const END: Duration = Duration::from_secs(15);
/// Most that a machine may say in answer to a question.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// An agent that ends when this value is dropped.
#[derive(Debug)]
pub struct SshAgent {
    _child: ServingChild,
    /// Its address, as this machine reaches it.
    pub address: String,
    /// What it is known by, and wants to be shown.
    pub credentials: ClientCredentials,
}

/// A machine behind ssh.
#[derive(Clone, Copy, Debug)]
struct Machine<'a> {
    /// The program and its options, with blanks between.
    command: &'a str,
    /// As ssh names it: `user@dpu`.
    target: &'a str,
}

/// The line of an agent that is ready.
#[derive(Debug, Deserialize)]
struct Ready {
    listening: SocketAddr,
    fingerprint: String,
}

/// Whether `target` is a name that ssh takes for a machine, and not for an option.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn check_target(target: &str) -> Result<(), String> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    match !target.is_empty() && !target.starts_with('-') && target.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!("`{target}` is no machine; it is ssh:user@dpu")),
    }
}

impl SshAgent {
    /// Starts an agent on the machine `target` that runs tests; `command` is how ssh is called.
    ///
    /// # Errors
    /// If the machine does not answer, or has no dpb that this one can work with.
    pub fn start(command: &str, target: &str) -> Result<Self, Failure> {
        let machine = Machine { command, target };
        let host = machine.host()?;
        let program = machine.program()?;
        machine.serve(&host, &program)
    }
}

/// The program there.
#[derive(Clone, Debug)]
enum Program {
    Installed,
    /// A copy of this executable, at this path.
    Copied(String),
}

impl Machine<'_> {
    fn broke(&self, why: &str) -> Failure {
        Failure::unavailable(format!("ssh {}: {why}", self.target))
    }

    fn ssh(&self) -> Result<Command, Failure> {
        let mut words = self.command.split_whitespace();
        let program = words
            .next()
            .ok_or_else(|| Failure::usage("--ssh-command names no program"))?;
        let mut command = Command::new(program);
        command.args(words);
        Ok(command)
    }

    /// Runs a script there. What it says is returned.
    fn said(&self, script: &str, stdin: Stdio) -> Result<String, Failure> {
        let mut command = self.ssh()?;
        command.args(OPTIONS).args([self.target, &wrapped(script)]);
        let broke = |error: std::io::Error| self.broke(&error.to_string());
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(broke)?;
        let said = drained(child.stdout.take().expect("it is piped"));
        let words = drained(child.stderr.take().expect("it is piped"));
        let status = child.wait().map_err(broke)?;
        let joined = "a thread that reads a pipe does not panic";
        let (said, words) = (said.join().expect(joined), words.join().expect(joined));
        match status.success() {
            true => Ok(said),
            false if interrupt::has_ended(status) => Err(Failure::interrupted("interrupted")),
            false => Err(self.broke(&last_words(&words))),
        }
    }

    /// The name or address that this machine's ssh resolves the target to.
    fn host(&self) -> Result<String, Failure> {
        let mut command = self.ssh()?;
        let asked = command
            .args(["-G", self.target])
            .stdin(Stdio::null())
            .output();
        let asked = asked.map_err(|error| self.broke(&error.to_string()))?;
        let text = String::from_utf8_lossy(&asked.stdout);
        let named = text.lines().find_map(|line| line.strip_prefix("hostname "));
        let plain = self.target.rsplit('@').next().unwrap_or(self.target);
        Ok(named.unwrap_or(plain).trim().to_owned())
    }

    /// dpb there: the installed one if it is this version, else a copy of this executable.
    fn program(&self) -> Result<Program, Failure> {
        let script = format!("{FIND}; uname -m; dpb --version 2>/dev/null || :");
        let said = self.said(&script, Stdio::null())?;
        let mut lines = said.lines().map(str::trim);
        let (architecture, version) = (
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
        );
        let ours = format!("dpb {}", crate::VERSION);
        if version == ours {
            return Ok(Program::Installed);
        }
        if architecture == std::env::consts::ARCH {
            return self.copy();
        }
        let there = match version {
            "" => "no dpb",
            version => version,
        };
        Err(self.broke(&format!(
            "there is {there} and a CPU of {architecture}, here {ours} for {}: install this version there with \
             `cargo xtask install --target {architecture} --ssh {}`",
            std::env::consts::ARCH,
            self.target
        )))
    }

    /// Copies this executable there.
    fn copy(&self) -> Result<Program, Failure> {
        let here = |error: std::io::Error| Failure::check(format!("cannot read dpb: {error}"));
        let file = File::open("/proc/self/exe").map_err(here)?;
        let bytes = file.metadata().map_err(here)?.len();
        let script = format!(
            "umask 077; f=$(mktemp \"${{TMPDIR:-/tmp}}/dpb.XXXXXXXX\") || exit 1; \
             cat > \"$f\" && [ $(wc -c < \"$f\") -eq {bytes} ] && chmod 700 \"$f\" && echo \"$f\" || {{ rm -f \"$f\"; exit 1; }}"
        );
        let said = self.said(&script, Stdio::from(file))?;
        let path = said.trim();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        match path.starts_with('/') && path.chars().all(is_plain) {
            true => Ok(Program::Copied(path.to_owned())),
            false => Err(self.broke("it copied dpb to a path of strange letters")),
        }
    }

    fn serve(&self, host: &str, program: &Program) -> Result<SshAgent, Failure> {
        let started = self.started(host, program);
        if let (Err(_), Program::Copied(path)) = (&started, program) {
            // It may not have come as far as to remove itself.
            let _ = self.said(&format!("rm -f {path}"), Stdio::null());
        }
        started
    }

    fn started(&self, host: &str, program: &Program) -> Result<SshAgent, Failure> {
        let token = Token::random().map_err(|error| Failure::check(error.to_string()))?;
        let mut command = self.ssh()?;
        let script = wrapped(&serving(program));
        command
            .args(OPTIONS)
            .args([self.target, &script])
            .stderr(Stdio::piped());
        let broke = |error: std::io::Error| self.broke(&error.to_string());
        let mut child = ServingChild::start(&mut command, token.as_bytes(), END).map_err(broke)?;
        let words = drained(child.take_stderr().expect("it is piped"));
        let ready: Ready = match child.ready() {
            Ok(ready) => ready,
            Err(NotReady::Interrupted) => {
                return Err(Failure::interrupted(
                    "interrupted before the agent was ready",
                ));
            }
            Err(NotReady::Said(_)) => {
                let words = words.join().unwrap_or_default();
                return Err(self.broke(&format!("no agent starts: {}", last_words(&words))));
            }
        };
        let credentials = ClientCredentials::new(&ready.fingerprint, token);
        let credentials = credentials.map_err(|why| self.broke(why))?;
        let port = ready.listening.port();
        Ok(SshAgent {
            _child: child,
            address: match host.contains(':') {
                true => format!("[{host}]:{port}"),
                false => format!("{host}:{port}"),
            },
            credentials,
        })
    }
}

/// A script as a login shell of any kind takes it. It has no single quotes.
fn wrapped(script: &str) -> String {
    debug_assert!(!script.contains('\''));
    format!("exec sh -c '{script}'")
}

/// Serves, at the address by which ssh has come, until standard input ends; then removes a copy.
fn serving(program: &Program) -> String {
    let listen = "set -- $SSH_CONNECTION; \
                  case \"$3\" in *:*) a=\"[$3]\";; ?*) a=\"$3\";; *) a=127.0.0.1;; esac";
    let flags = "serve --format=json --until-stdin-closes --one-time-credentials --tasks --allow-cold --listen=\"$a:0\"";
    match program {
        Program::Installed => format!("{FIND}; {listen}; exec dpb {flags}"),
        Program::Copied(path) => format!("{listen}; {path} {flags}; s=$?; rm -f {path}; exit $s"),
    }
}

/// Reads to the end on a thread, so that no pipe fills up; the first part is kept.
fn drained(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = (&mut from).take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut from, &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_no_option() {
        for right in ["dpu", "user@dpu", "ubuntu@192.168.100.2", "u@fe80::1"] {
            assert_eq!(check_target(right), Ok(()));
        }
        for wrong in ["", "-oProxyCommand=x", "a b", "a\nb"] {
            assert!(check_target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn scripts_hold_no_secret_and_no_single_quote() {
        for program in [Program::Installed, Program::Copied("/tmp/dpb.x".to_owned())] {
            let script = serving(&program);
            assert!(
                !script.contains('\'') && !script.contains("token"),
                "{script}"
            );
        }
    }
}
