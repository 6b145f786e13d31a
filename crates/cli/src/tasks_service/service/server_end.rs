//! The server's end of a client's test, at the agent.

use std::net::SocketAddr;

use dpb_link::{Link, LinkError, Refusal, Token};
use serde::Deserialize;

use super::super::protocol::{READY, Ready, TestOrder, encode};
use super::{ProgressSender, TasksService, send_ended};
use crate::boxes::Runner;
use crate::contained::{Bounds, Ended, How, Input, OutputSoFar, Watch};
use crate::executor::{Executor, Order, last_words};
use crate::exit::Failure;
use crate::task::ServerEnd;

/// Most that a server's end may print.
const STDOUT_BYTES_MAX: usize = 64 << 10;

/// What a server's end prints when it is ready.
#[derive(Debug, Deserialize)]
struct Line {
    listening: SocketAddr,
    fingerprint: Option<String>,
}

/// Runs the server's end of a test until the client says stop, or leaves.
pub(super) fn serve(
    service: &TasksService,
    link: &mut Link,
    order: &TestOrder,
) -> Result<(), LinkError> {
    let (test, cost) = service.ordered(order)?;
    let server_end = match &test.runner {
        Runner::Task(task) => task.server_end,
        Runner::Plugin(_) => None,
    };
    let Some(server_end) = server_end else {
        let text = format!("{} has no server's end", test.runner.name());
        return Err(LinkError::refused(Refusal::Usage, text));
    };
    let token = Token::random()?;
    let words = words(&server_end, link, service.options.may_clear)?;
    let _turn = service.turn(link)?;
    let order = order.of(&test, cost);
    let onlooker = ProgressSender::new(link, &service.is_ending);
    let server_end_watch = ServerEndWatch {
        onlooker,
        token: &token,
        is_ready: false,
    };
    let ended = service.with_executor(|executor| server_end_watch.run(executor, &order, &words))?;
    let Some((ended, is_ready)) = ended else {
        return Err(service.why_ended(link));
    };
    if !is_ready {
        let why = format!(
            "the server's end did not start: {}",
            last_words(&ended.stderr)
        );
        return Err(LinkError::refused(Refusal::Unavailable, why));
    }
    let code = match ended.how {
        How::Exited(status) => status.code(),
        _ => None,
    };
    send_ended(link, code, &ended.stderr)
}

/// The words of the server's end, which listens where the client has reached the agent.
fn words(server_end: &ServerEnd, link: &Link, may_clear: bool) -> Result<Vec<String>, LinkError> {
    let here = link.stream().tcp().local_addr()?.ip().to_canonical();
    let mut words: Vec<String> = server_end.words.iter().map(ToString::to_string).collect();
    words.push(format!("--listen={}", SocketAddr::new(here, 0)));
    words.extend(server_end.clears.filter(|_| may_clear).map(str::to_owned));
    words.push("--format=json".to_owned());
    Ok(words)
}

/// Tells the client where the server's end listens, and ends it when the client wants that.
struct ServerEndWatch<'a> {
    onlooker: ProgressSender<'a>,
    token: &'a Token,
    is_ready: bool,
}

impl ServerEndWatch<'_> {
    /// Makes what the test needs, and runs the server's end. `None` if that was ended before; else whether it was ready.
    fn run(
        mut self,
        executor: &mut Executor,
        order: &Order<'_>,
        words: &[String],
    ) -> Result<Option<(Ended, bool)>, LinkError> {
        let internal = |why: Failure| LinkError::refused(Refusal::Internal, why.message);
        let prepared = executor.only_prepare(order, &mut self.onlooker);
        match prepared.map_err(internal)? {
            Some(Ok(())) => {}
            Some(Err(why)) => return Err(LinkError::refused(Refusal::Unavailable, why)),
            None => return Ok(None),
        }
        let bounds = Bounds {
            time: executor.time_of(order),
            stdout_bytes: STDOUT_BYTES_MAX,
        };
        let input = [self.token.as_bytes(), b"\n"].concat();
        let input = Input::Open(&input);
        let ended = executor.process(words, order.run, input, bounds, &mut self);
        Ok(Some((ended.map_err(internal)?, self.is_ready)))
    }

    fn announce(&mut self, line: &str) -> Result<(), LinkError> {
        let line: Line = serde_json::from_str(line)
            .map_err(|_| LinkError::Malformed("a server's end's first line"))?;
        let ready = Ready {
            port: line.listening.port(),
            token: String::from_utf8_lossy(self.token.as_bytes()).into_owned(),
            fingerprint: line.fingerprint,
        };
        self.onlooker.link.send(READY, &encode(&ready)?)
    }
}

impl Watch for ServerEndWatch<'_> {
    fn ends(&mut self, said: &OutputSoFar<'_>) -> bool {
        if !self.is_ready
            && let Some(line) = said.first_line()
        {
            match self.announce(&line) {
                Ok(()) => self.is_ready = true,
                Err(_) => return true,
            }
        }
        self.onlooker.is_over() || self.onlooker.link.peer_stirs()
    }
}
