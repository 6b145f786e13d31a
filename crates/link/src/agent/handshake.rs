//! The handshake: encryption, who may ask, what the agent says of itself, and which service is opened.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::door::Admission;
use super::options::Access;
use crate::error::{LinkError, Refusal};
use crate::hello::{Hello, Open, opened_bytes};
use crate::link::{Link, PACE_BITS_PER_S_MIN, between};
use crate::service::{ClientInfo, Service};
use crate::stream::{Stream, set_options};
use crate::tag::{HELLO, OPEN, OPENED, WELCOME};

/// The time for which a peer with a wrong token waits for the answer.
const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);
/// The interval at which that wait looks whether its client is still there.
const GONE_LOOK: Duration = Duration::from_millis(50);
/// The first byte of a connection that begins with TLS: a handshake record.
const TLS_FIRST_BYTE: u8 = 22;

/// A connection that could not be admitted.
pub(super) struct Refused {
    pub(super) error: LinkError,
    /// The connection, if its peer understands what it is told.
    pub(super) link: Option<Box<Link>>,
}

impl From<LinkError> for Refused {
    fn from(error: LinkError) -> Self {
        Self { error, link: None }
    }
}

/// Lets a client in that has the token, if there is a place.
pub(super) fn admit(
    shared: &Shared,
    tcp: TcpStream,
    (peer, id): (SocketAddr, u64),
) -> Result<(Link, ClientInfo), Refused> {
    let clock = Arc::clone(&shared.options.clock);
    let patience = shared.options.handshake_patience;
    let deadline_ns = clock.now_ns().saturating_add(patience.as_nanos() as u64);
    let stream = secure(shared, tcp, deadline_ns)?;
    let new_link = |stream| Link::new(stream, 0, Arc::clone(&clock)).map_err(LinkError::Io);
    let (mut link, other) = match stream {
        Secured::AsAgreed(stream) => (new_link(stream)?, None),
        Secured::Otherwise(stream, error) => (new_link(stream)?, Some(error)),
    };
    let is_encrypted = link.stream().is_encrypted();
    link.set_deadline(Some(between(clock.now_ns(), deadline_ns)));
    let shaken = match other {
        Some(error) => Err(error),
        None => shake(shared, &mut link, id),
    };
    match shaken {
        Ok(()) => {
            let client = ClientInfo { peer, is_encrypted };
            Ok((link, client))
        }
        Err(error) => Err(Refused {
            error,
            link: Some(Box::new(link)),
        }),
    }
}

/// A connection's stream.
enum Secured {
    AsAgreed(Stream),
    /// The peer began otherwise than this agent wants: it is told so in clear.
    Otherwise(Stream, LinkError),
}

/// Encrypts the connection, if this agent does. A peer's first byte says what it speaks.
fn secure(shared: &Shared, tcp: TcpStream, deadline_ns: u64) -> Result<Secured, LinkError> {
    set_options(&tcp)?;
    let until = crate::wait::Until {
        clock: &*shared.options.clock,
        deadline_ns,
        stop: &|| shared.is_ending(),
    };
    until.wait(&tcp, rustix::event::PollFlags::IN)?;
    let mut first = [0];
    if tcp.peek(&mut first)? == 0 {
        return Err(LinkError::Closed);
    }
    let speaks_tls = first[0] == TLS_FIRST_BYTE;
    match &shared.options.access {
        #[cfg(feature = "tls")]
        Access::Credentials(credentials) if speaks_tls => {
            let tls = crate::tls::accept(tcp, credentials, &until)?;
            Ok(Secured::AsAgreed(Stream::Tls(Box::new(tls))))
        }
        Access::Anyone | Access::Token(_) if !speaks_tls => {
            Ok(Secured::AsAgreed(Stream::Plain(tcp)))
        }
        _ => {
            let error = LinkError::refused(
                Refusal::Credentials,
                match speaks_tls {
                    true => {
                        "this agent does not encrypt: connect without credentials, or start it with --credentials DIR"
                    }
                    false => {
                        "this agent takes encrypted connections alone: give its credentials with --credentials FILE"
                    }
                },
            );
            Ok(Secured::Otherwise(Stream::Plain(tcp), error))
        }
    }
}

/// Hello and welcome.
fn shake(shared: &Shared, link: &mut Link, id: u64) -> Result<(), LinkError> {
    let Some(header) = link.receive_header()? else {
        return Err(LinkError::Closed);
    };
    if header.tag != HELLO {
        return Err(LinkError::OutOfPlace(header.tag));
    }
    let hello = Hello::parse(&link.receive_body(header)?)?;
    check_token(shared, link, &hello)?;
    if (1..PACE_BITS_PER_S_MIN).contains(&hello.link_bits_per_s) {
        let text = format!(
            "{} bits a second are no pace; it is 0 for none, or at least {PACE_BITS_PER_S_MIN}",
            hello.link_bits_per_s
        );
        return Err(LinkError::refused(Refusal::Usage, text));
    }
    let places = shared.options.connections_max as usize;
    match shared.door.admit(id, places) {
        Admission::Served => {}
        Admission::Full => {
            let text = format!("all {places} connections are taken");
            return Err(LinkError::refused(Refusal::Busy, text));
        }
        Admission::Gone => return Err(LinkError::Closed),
    }
    link.set_pace(hello.link_bits_per_s);
    link.send(WELCOME, &shared.welcome.to_bytes())
}

/// Refuses, after a while, who does not show the token.
fn check_token(shared: &Shared, link: &Link, hello: &Hello) -> Result<(), LinkError> {
    let Some(token) = shared.options.access.token() else {
        return Ok(());
    };
    if token.is(&hello.token) {
        return Ok(());
    }
    let clock = &*shared.options.clock;
    let began_ns = clock.now_ns();
    let is_early = || between(began_ns, clock.now_ns()) < WRONG_TOKEN_DELAY;
    while is_early() && !shared.is_ending() && !link.peer_gone() {
        clock.sleep(GONE_LOOK);
    }
    Err(LinkError::refused(
        Refusal::Token,
        "the token is wrong or missing: give the agent's with --token-file FILE, or its --credentials FILE",
    ))
}

/// The service that a client opens; `None` if it leaves without one.
pub(super) fn open(
    shared: &Shared,
    link: &mut Link,
) -> Result<Option<Arc<dyn Service>>, LinkError> {
    link.set_deadline(shared.options.idle_patience);
    let Some(header) = link.receive_header()? else {
        return Ok(None);
    };
    if header.tag != OPEN {
        return Err(LinkError::OutOfPlace(header.tag));
    }
    link.set_deadline(Some(shared.options.handshake_patience));
    let open = Open::parse(&link.receive_body(header)?)?;
    let Some(service) = shared.service(&open.service) else {
        let names: Vec<&str> = shared.services.iter().map(|s| s.name()).collect();
        let text = format!(
            "no service `{}` here; there are {}",
            open.service,
            names.join(", ")
        );
        return Err(LinkError::refused(Refusal::Unavailable, text));
    };
    if service.version() != open.version {
        let text = format!(
            "the client speaks version {} of the service {}, the agent version {}: install the same dpb on both sides",
            open.version,
            open.service,
            service.version()
        );
        return Err(LinkError::refused(Refusal::Version, text));
    }
    link.send(OPENED, &opened_bytes(service.version()))?;
    link.set_tags(service.tags());
    link.set_deadline(None);
    Ok(Some(Arc::clone(service)))
}
