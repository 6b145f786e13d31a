//! `dpb tcp --serve`.

use std::io::{BufRead, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};

use dpb_core::measure::Provenance;
use dpb_micro::tcp::protocol::Machine;
use dpb_micro::tcp::{self, BindError, Server, ServerOptions};
use serde::{Deserialize, Serialize};

use super::{Args, check_cores, numbers};
use crate::cmd::serve::read_token;
use crate::exit::Failure;
use crate::output::{self, Format};
use crate::{Globals, interrupt};

/// The line that says that a server is ready.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    /// Where it listens.
    pub(super) listening: SocketAddr,
}

/// More than this of a line with a token is not read.
const LINE_BYTES_MAX: u64 = 4096;

static STDIN_CLOSED: AtomicBool = AtomicBool::new(false);

/// Serves until a signal.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    check_cores("pin", args.pin.as_ref())?;
    let token = match args.until_stdin_closes {
        true => Some(token_line()?),
        false => args.token_file.as_deref().map(read_token).transpose()?,
    };
    let server = Server::bind(ServerOptions {
        listen: resolve(&args.listen)?,
        token,
        machine: this_machine(),
        pin: numbers(args.pin.as_ref()),
        patience: tcp::PATIENCE,
        say: |line| output::note(&format!("dpb tcp: {line}")),
    })
    .map_err(|error| match error {
        BindError::Listen(..) => Failure::unavailable(format!(
            "{error}; choose another address with --listen, port 0 for any that is free"
        )),
        _ => Failure::usage(error.to_string()),
    })?;
    if args.until_stdin_closes {
        std::thread::spawn(watch_stdin);
    }
    let listening = server.address();
    match globals.format() {
        Format::Json => output::print_json(&Ready { listening }),
        _ => output::print(&format!("dpb tcp: listening on {listening}\n")),
    }?;
    server.run(&|| interrupt::is_set() || STDIN_CLOSED.load(Ordering::Relaxed));
    Ok(())
}

fn this_machine() -> Machine {
    let here = Provenance::here(0);
    Machine {
        software: format!("dpb {}, Linux {}", here.dpb_version, here.kernel),
        host: here.host,
        cpu_model: here.cpu_model,
    }
}

fn resolve(listen: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| Failure::usage(format!("--listen {listen}: {why}"));
    let mut addresses = listen
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?;
    addresses
        .next()
        .ok_or_else(|| wrong("no such host".to_owned()))
}

/// The first line of standard input.
fn token_line() -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    let mut input = std::io::stdin().lock().take(LINE_BYTES_MAX);
    match input.read_until(b'\n', &mut line) {
        Ok(_) => Ok(line.trim_ascii().to_vec()),
        Err(error) => Err(Failure::usage(format!("standard input: {error}"))),
    }
}

/// Waits until standard input ends: then whoever started this server is gone, and a session with it.
fn watch_stdin() {
    let mut dropped = [0; 64];
    while matches!(std::io::stdin().lock().read(&mut dropped), Ok(1..)) {}
    STDIN_CLOSED.store(true, Ordering::Relaxed);
}
