//! Sources and services of datagrams, out of a description.

use super::super::datagrams::{ServiceModel, SourceModel};
use super::super::refusal::unused;
use super::super::sources::{WAITING, check_payload, rate};
use super::{
    Address, DATAGRAMS, Description, DescriptionError, HostText, address, own_port, picoseconds,
    refuse, seed_of,
};

/// The port that a host's first source of datagrams sends from.
pub(super) const SOURCE_PORT: u16 = 50_000;

pub(super) fn sources_of(
    description: &Description,
    number: usize,
    seed: u64,
) -> Result<Vec<SourceModel>, DescriptionError> {
    let text = &description.host[number];
    let mtu = description.tcp.mtu.unwrap_or(1500);
    let mut sources = Vec::new();
    for (count, offer) in text.offer.iter().enumerate() {
        let what = format!("`{}` offers datagrams to `{}`", text.name, offer.to);
        let to = description.host.iter().position(|it| it.name == offer.to);
        let Some(to) = to.filter(|&to| to != number) else {
            return refuse(format!("{what}, which is no other host"));
        };
        let serves = &description.host[to].serve;
        let Some(serve) = serves.iter().find(|it| it.port == offer.port) else {
            return refuse(format!("{what}, which does not serve port {}", offer.port));
        };
        if offer.answered != serve.answer_bytes.is_some() {
            return refuse(format!(
                "{what}: answered and answer_bytes of port {} belong together",
                offer.port
            ));
        }
        sources.push(SourceModel {
            port: own_port(&what, SOURCE_PORT, count)?,
            to: Address {
                port: offer.port,
                ..address(to)
            },
            rate: rate(&what, offer.rate_per_s, offer.gaps.as_deref())?,
            at_ps: picoseconds("at_us", offer.at_us, 1e6)?,
            sizes: offer.sizes(&what, &description.sizes, mtu)?,
            count: offer.count,
            waiting_max: offer.waiting.unwrap_or(WAITING),
            is_answered: offer.answered,
            seed: seed_of(seed, &text.name, DATAGRAMS + count),
        });
    }
    Ok(sources)
}

pub(super) fn services_of(
    text: &HostText,
    description: &Description,
) -> Result<Vec<ServiceModel>, DescriptionError> {
    let mtu = description.tcp.mtu.unwrap_or(1500);
    let mut services: Vec<ServiceModel> = Vec::new();
    for serve in &text.serve {
        if services.iter().any(|it| it.port == serve.port) {
            return refuse(format!("`{}` serves port {} twice", text.name, serve.port));
        }
        match serve.answer_bytes {
            Some(bytes) => check_payload(&format!("`{}`, answer_bytes", text.name), bytes, mtu)?,
            None => {
                let what = format!("`{}`, port {} without answers", text.name, serve.port);
                unused(&what, &[("waiting", serve.waiting.is_some())])?;
            }
        }
        services.push(ServiceModel {
            port: serve.port,
            answer_bytes: serve.answer_bytes,
            waiting_max: serve.waiting.unwrap_or(WAITING),
        });
    }
    Ok(services)
}
