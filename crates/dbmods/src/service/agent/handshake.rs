//! The handshake: who may ask, and what the agent says of itself.

use std::thread;
use std::time::Duration;

use dpb_core::{Backend, Evidence};

use super::door::Admission;
use super::refusals::refuse;
use super::{GONE_LOOK, Shared};
use crate::duckdb::Library;
use crate::service::link::{Link, PACE_BITS_PER_S_MIN, between};
use crate::service::protocol::{
    AgentInfo, CAPABILITY_BULK, CAPABILITY_DUCKDB, CAPABILITY_FETCH, CAPABILITY_PARTIALS, Hello,
    Refusal, Tag, Welcome, WireError,
};

/// The time for which a peer with a wrong token waits for the answer.
const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);
/// Lets a client in that has the token, if there is a place.
pub(super) fn handshake(shared: &Shared, link: &mut Link, id: u64) -> Result<Hello, WireError> {
    link.set_deadline(Some(shared.options.handshake_patience));
    let Some(header) = link.receive_header()? else {
        return Err(WireError::Closed);
    };
    if header.tag != Tag::Hello {
        return Err(WireError::OutOfPlace(header.tag));
    }
    let hello = Hello::parse(&link.receive_body(header)?)?;
    check_token(shared, link, &hello)?;
    if (1..PACE_BITS_PER_S_MIN).contains(&hello.link_bits_per_s) {
        let text = format!(
            "{} bits a second are no pace; it is 0 for none, or at least {PACE_BITS_PER_S_MIN}",
            hello.link_bits_per_s
        );
        return Err(refuse(Refusal::Usage, text));
    }
    let places = shared.options.connections_max as usize;
    match shared.door.admit(id, places) {
        Admission::Served => {}
        Admission::Full => {
            let text = format!("all {places} connections are taken");
            return Err(refuse(Refusal::Busy, text));
        }
        Admission::Gone => return Err(WireError::Closed),
    }
    link.set_pace(hello.link_bits_per_s);
    link.send(Tag::Welcome, &welcome(shared, &hello).to_bytes())?;
    Ok(hello)
}

/// Refuses, after a while, who does not show the token.
fn check_token(shared: &Shared, link: &Link, hello: &Hello) -> Result<(), WireError> {
    let Some(token) = &shared.options.token else {
        return Ok(());
    };
    if same_secret(token, &hello.token) {
        return Ok(());
    }
    let clock = &*shared.options.clock;
    let began_ns = clock.now_ns();
    let is_early = || between(began_ns, clock.now_ns()) < WRONG_TOKEN_DELAY;
    while is_early() && !shared.is_ending() && !link.peer_gone() {
        clock.sleep(GONE_LOOK);
    }
    Err(refuse(
        Refusal::Token,
        "the token is wrong or missing: give the agent's with --token-file FILE",
    ))
}

/// The answer to a hello.
fn welcome(shared: &Shared, hello: &Hello) -> Welcome {
    let mut agent = shared.info.clone();
    let mut capabilities = CAPABILITY_FETCH | CAPABILITY_BULK | CAPABILITY_PARTIALS;
    if hello.capabilities & CAPABILITY_DUCKDB != 0 {
        // Loading it takes memory, which a client that has no use for it would be shown as the agent's.
        let find = || match Library::find() {
            Ok(library) => Ok(library.version().to_owned()),
            Err(missing) => Err(missing.to_string()),
        };
        agent.duckdb = shared.duckdb.get_or_init(find).clone();
        capabilities |= agent.duckdb.as_ref().map_or(0, |_| CAPABILITY_DUCKDB);
    }
    Welcome {
        capabilities,
        agent,
    }
}

/// Compares in a time that depends on the lengths alone.
fn same_secret(ours: &[u8], theirs: &[u8]) -> bool {
    let differing = ours.iter().zip(theirs).fold(0, |differing, (a, b)| {
        std::hint::black_box(differing | (a ^ b))
    });
    ours.len() == theirs.len() && differing == 0
}

impl AgentInfo {
    /// This process's description of itself, and of the backend that scans for it.
    pub fn of_this_process(cache_bytes: u64, backend: &dyn Backend) -> Self {
        let cpu_model = std::fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("model name"))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            });
        Self {
            dpb_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            cpus: thread::available_parallelism().map_or(1, |n| n.get() as u32),
            cpu_model: cpu_model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            cache_bytes,
            backend: backend.name().to_owned(),
            emulated_by: match backend.properties().evidence {
                Evidence::Emulated { by } => Some(by),
                _ => None,
            },
            duckdb: Err("nobody has asked for DuckDB".to_owned()),
        }
    }
}
