//! Pairs that belong together at two ends of a system: an application and the port that it leads to, digests in front of a wire and behind it.

use super::super::description::ConnectText;
use super::super::host::Application;
use super::datagrams::SOURCE_PORT;
use super::{CONNECTION_PORT, Description, DescriptionError, HostText, own_port, refuse};

/// Refuses a system of which two ends do not understand each other.
pub(super) fn check(description: &Description) -> Result<(), DescriptionError> {
    for (number, host) in description.host.iter().enumerate() {
        let name = &host.name;
        for (count, listen) in host.listen.iter().enumerate() {
            if host.listen[..count].iter().any(|it| it.port == listen.port) {
                return refuse(format!("`{name}` listens at port {} twice", listen.port));
            }
        }
        if host.digest.is_some() && card_digest(description, name, None).is_some() {
            return refuse(format!(
                "`{name}` computes digests, and so does its card: one of them does"
            ));
        }
        for (count, connect) in host.connect.iter().enumerate() {
            let to = &description.host[peer(description, number, connect)?];
            check_port(host, connect, to)?;
            let from = own_port("connections", CONNECTION_PORT, count)?;
            check_digests(description, host, to, [from, connect.port])?;
        }
        for (count, offer) in host.offer.iter().enumerate() {
            let to = description.host.iter().find(|it| it.name == offer.to);
            let from = own_port("sources", SOURCE_PORT, count)?;
            if let Some(to) = to {
                check_digests(description, host, to, [from, offer.port])?;
            }
        }
    }
    Ok(())
}

/// The number of the host that a connection leads to.
pub(super) fn peer(
    description: &Description,
    from: usize,
    connect: &ConnectText,
) -> Result<usize, DescriptionError> {
    let name = &description.host[from].name;
    let to = &connect.to;
    match description.host.iter().position(|it| it.name == *to) {
        Some(number) if number == from => refuse(format!("`{name}` connects to itself")),
        Some(number) => Ok(number),
        None => refuse(format!("`{name}` connects to `{to}`, which is no host")),
    }
}

/// Refuses a connection to a port at which nobody does what it needs.
fn check_port(
    from: &HostText,
    connect: &ConnectText,
    to: &HostText,
) -> Result<(), DescriptionError> {
    let port = connect.port;
    let what = format!("`{}` connects to port {port} of `{}`", from.name, to.name);
    let Some(listen) = to.listen.iter().find(|it| it.port == port) else {
        return refuse(format!("{what}, at which it does not listen"));
    };
    let fits = match (connect.application(0)?, listen.application()?) {
        (Application::Send { .. }, Application::Receive) => true,
        (
            Application::Ask {
                request_bytes,
                answer_bytes,
                ..
            },
            Application::Answer {
                request_bytes: expected_bytes,
                answer_bytes: given_bytes,
            },
        ) => (request_bytes, answer_bytes) == (expected_bytes, given_bytes),
        _ => false,
    };
    match fits {
        true => Ok(()),
        false => refuse(format!(
            "{what} to {}, which does {} there: send goes with receive, ask with answer and the same request_bytes and answer_bytes",
            connect.application, listen.application
        )),
    }
}

/// A digest behind frames: its operator, and the framing.
type Digest<'a> = [&'a str; 2];

/// The digest that the card of this host computes behind frames of these ports; of any ports, if none are named.
fn card_digest<'a>(
    description: &'a Description,
    host: &str,
    ports: Option<[u16; 2]>,
) -> Option<Digest<'a>> {
    let card = description.card.iter().find(|it| it.host == host)?;
    let digest = card.digest.as_ref()?;
    // Frames that pass the last stage by have none.
    let chosen = card.stage.last().map(|it| it.ports.as_slice());
    let chosen = chosen.unwrap_or_default();
    let passes = ports.is_none_or(|it| it.iter().any(|port| chosen.contains(port)));
    (chosen.is_empty() || passes).then_some([digest.operator.as_str(), digest.framing.as_str()])
}

/// Refuses two ends of which one does not put behind frames what the other expects there.
fn check_digests(
    description: &Description,
    from: &HostText,
    to: &HostText,
    ports: [u16; 2],
) -> Result<(), DescriptionError> {
    let of = |host: &HostText| {
        let digest = match &host.digest {
            Some(own) => Some([own.operator.as_str(), own.framing.as_str()]),
            None => card_digest(description, &host.name, Some(ports)),
        };
        digest.map_or_else(
            || "no digest".to_owned(),
            |[operator, framing]| format!("{operator} with framing {framing}"),
        )
    };
    let ends = [from, to].map(of);
    match ends[0] == ends[1] {
        true => Ok(()),
        false => refuse(format!(
            "`{}` and `{}` talk with each other at port {}, with {} behind frames of the one and {} behind those of the other",
            from.name, to.name, ports[1], ends[0], ends[1]
        )),
    }
}
