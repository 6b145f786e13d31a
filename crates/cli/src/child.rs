//! A process that this one starts to serve it alone: it is handed a token, says one line when it is ready, and ends with this one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::contained::{self, Kept};
use crate::interrupt;

/// The interval at which one that waits for a line looks around.
const LOOK: Duration = Duration::from_millis(100);
/// So many looks a child may take until it is ready.
const READY_LOOKS: u32 = 600;
/// The interval at which one that waits for a child's end looks.
const END_LOOK: Duration = Duration::from_millis(2);
/// Most bytes of the line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A process that serves this one. It is asked to end when this value is dropped, by the end of its standard input. That ends too if
/// this process is killed: it is a pipe that only this process holds.
#[derive(Debug)]
pub struct ServingChild {
    child: Child,
    line: Receiver<String>,
    /// The time after which it is killed, if it does not end when it is asked to.
    patience: Duration,
    _kept: Kept,
}

/// A child did not say that it is ready.
#[derive(Debug)]
pub enum NotReady {
    /// Somebody has interrupted this process, or the child.
    Interrupted,
    /// It has ended, or said something else, which is here, or nothing for a minute.
    Said(String),
}

impl ServingChild {
    /// Starts `command`, and hands it `token` as the first line of its standard input. Once it is to end, it has the time `patience`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command, token: &[u8], patience: Duration) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C in a terminal is for us; the child is ended when our records are complete.
            .process_group(0)
            .spawn()?;
        let kept = contained::keep(&child);
        let mut stdin = child.stdin.as_ref().expect("it is piped");
        // If it has ended already, its words say why.
        let _ = stdin.write_all(&[token, b"\n"].concat());
        let stdout = child.stdout.take().expect("it is piped");
        Ok(Self {
            child,
            line: first_line(stdout),
            patience,
            _kept: kept,
        })
    }

    /// What the child says on stderr, if its command has a pipe for that.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// The line by which the child says that it is ready. A child that says no such line is ended.
    ///
    /// # Errors
    /// [`NotReady`].
    pub fn ready<T: DeserializeOwned>(&mut self) -> Result<T, NotReady> {
        let line = waited_for(&self.line).unwrap_or_default();
        if let Ok(ready) = serde_json::from_str(&line) {
            return Ok(ready);
        }
        let ended = self.end();
        match interrupt::is_set() || ended.is_some_and(interrupt::has_ended) {
            true => Err(NotReady::Interrupted),
            false => Err(NotReady::Said(line)),
        }
    }

    /// Asks the child to end, and kills it if it does not. Gives how it ended, if the system says so.
    fn end(&mut self) -> Option<ExitStatus> {
        drop(self.child.stdin.take());
        let looks = self.patience.as_millis() / END_LOOK.as_millis();
        for _ in 0..looks {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(END_LOOK),
                ended => return ended.ok().flatten(),
            }
        }
        // Nothing is left to do about failures here.
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for ServingChild {
    fn drop(&mut self) {
        self.end();
    }
}

/// The first line that comes; the rest is read and dropped, so that the pipe never fills up.
fn first_line(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = String::new();
        let read = (&mut from).take(LINE_BYTES_MAX).read_line(&mut line);
        if read.is_ok_and(|bytes| bytes > 0) {
            // Nobody waits any more if it came too late.
            let _ = sender.send(line);
        }
        // Nobody waits for more; whoever waited for a line that never came is told by this.
        drop(sender);
        let _ = io::copy(&mut from, &mut io::sink());
    });
    receiver
}

/// The line, unless it takes too long or somebody interrupts.
fn waited_for(line: &Receiver<String>) -> Option<String> {
    for _ in 0..READY_LOOKS {
        match line.recv_timeout(LOOK) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if interrupt::is_set() => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> ServingChild {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ServingChild::start(&mut command, b"secret", PATIENCE).expect("sh")
    }

    #[test]
    fn the_token_goes_in_and_a_line_comes_out() {
        let mut child = shell(r#"read token; echo "\"$token\""; cat >/dev/null; exit 3"#);
        let said: String = child.ready().expect("a line");
        assert_eq!(said, "secret");
        // It goes on until its standard input ends.
        assert!(matches!(child.child.try_wait(), Ok(None)));
        assert_eq!(child.end().and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn what_is_no_such_line_is_returned() {
        let mut child = shell("echo no number");
        let why = child.ready::<u64>().expect_err("words");
        assert!(matches!(why, NotReady::Said(said) if said == "no number\n"));
        let why = shell("exit 0").ready::<u64>().expect_err("nothing");
        assert!(matches!(why, NotReady::Said(said) if said.is_empty()));
    }
}
