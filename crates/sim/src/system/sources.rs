//! Sources and services of datagrams, and times of requests, as a description has them.

use serde::Deserialize;

use super::arrivals::{Gaps, Rate, Sizes};
use super::asking::Pace;
use super::datagrams::{PACKET_HEADERS, STAMP_BYTES};
use super::refusal::{DescriptionError, picoseconds_to, refuse, unused};

/// A source of datagrams over UDP: an open loop.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OfferText {
    /// The host that they go to.
    pub to: String,
    /// The port that they go to; the host serves it.
    pub port: u16,
    /// Datagrams a second.
    pub rate_per_s: f64,
    /// `constant` or `poisson`.
    pub gaps: Option<String>,
    /// Bytes of payload: 16 at least, as a datagram bears its number and time.
    pub bytes: Option<u32>,
    /// The name of a distribution of these bytes, in place of `bytes`.
    pub sizes: Option<String>,
    /// The number of datagrams.
    pub count: u64,
    /// The time at which the first may leave.
    #[serde(default)]
    pub at_us: f64,
    /// Datagrams that may wait for a core or for room in the card's ring.
    pub waiting: Option<usize>,
    /// True if the host that serves the port answers, and the time to the answer counts.
    #[serde(default)]
    pub answered: bool,
}

/// A port at which datagrams are taken.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ServeText {
    /// The port.
    pub port: u16,
    /// Bytes of the answer to each datagram; none is given if this is left out.
    pub answer_bytes: Option<u32>,
    /// Answers that may wait for a core or for room in the card's ring.
    pub waiting: Option<usize>,
}

/// A distribution of sizes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SizesText {
    /// Its name.
    pub name: String,
    /// Sizes, each with its weight.
    pub choices: Vec<(u32, f64)>,
}

/// Datagrams that may wait, where nothing else is said: the order of what a socket's buffer holds.
pub(crate) const WAITING: usize = 1024;

/// A rate, and the gaps of its arrivals.
pub(crate) fn rate(what: &str, per_s: f64, gaps: Option<&str>) -> Result<Rate, DescriptionError> {
    if !(1e-3..=1e12).contains(&per_s) {
        return refuse(format!("{what}, rate_per_s: {per_s} is no rate"));
    }
    let gaps = match gaps {
        None => Gaps::Constant,
        Some(name) => match Gaps::ALL.into_iter().find(|it| it.name() == name) {
            Some(gaps) => gaps,
            None => {
                return refuse(format!(
                    "{what}: gaps are constant or poisson, not `{name}`"
                ));
            }
        },
    };
    Ok(Rate { per_s, gaps })
}

impl OfferText {
    /// The sizes of datagrams, for packets of at most so many bytes.
    pub(crate) fn sizes(
        &self,
        what: &str,
        known: &[SizesText],
        mtu: u16,
    ) -> Result<Sizes, DescriptionError> {
        let sizes = match (self.bytes, &self.sizes) {
            (Some(bytes), None) => Sizes::Fixed(bytes),
            (None, Some(name)) => match known.iter().find(|it| it.name == *name) {
                Some(found) => found.sizes()?,
                None => return refuse(format!("{what}: there are no sizes `{name}`")),
            },
            _ => return refuse(format!("{what} needs bytes, or the name of sizes")),
        };
        check_payload(what, sizes.shortest(), mtu)?;
        check_payload(what, sizes.longest(), mtu)?;
        if self.count == 0 {
            return refuse(format!("{what} needs count, above zero"));
        }
        Ok(sizes)
    }
}

/// Refuses what is no payload of a datagram.
pub(crate) fn check_payload(what: &str, bytes: u32, mtu: u16) -> Result<(), DescriptionError> {
    let longest = u32::from(mtu) - PACKET_HEADERS;
    match (STAMP_BYTES..=longest).contains(&bytes) {
        true => Ok(()),
        false => refuse(format!(
            "{what}: a datagram has {STAMP_BYTES} to {longest} bytes of payload, not {bytes}"
        )),
    }
}

impl SizesText {
    fn sizes(&self) -> Result<Sizes, DescriptionError> {
        let is_weight = |&(_, weight): &(u32, f64)| weight.is_finite() && weight > 0.0;
        match !self.choices.is_empty() && self.choices.iter().all(is_weight) {
            true => Ok(Sizes::Weighted(self.choices.clone())),
            false => refuse(format!(
                "sizes `{}` need choices, each a size and a weight above zero",
                self.name
            )),
        }
    }
}

/// The longest time of thinking, a thousand seconds: some times its mean is still a time.
const THINK_PS_MAX: u64 = 1_000_000_000_000_000;

/// The times of requests over a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PaceText<'a> {
    pub(crate) think_us: Option<f64>,
    pub(crate) think: Option<&'a str>,
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) gaps: Option<&'a str>,
}

impl PaceText<'_> {
    pub(crate) fn pace(&self, what: &str, seed: u64) -> Result<Pace, DescriptionError> {
        if self.think_us.is_none() {
            unused(what, &[("think without think_us", self.think.is_some())])?;
        }
        let Some(per_s) = self.rate_per_s else {
            if self.gaps.is_some() {
                return refuse(format!("{what}: gaps need rate_per_s"));
            }
            let is_exponential = match self.think {
                None | Some("constant") => false,
                Some("exponential") => true,
                Some(other) => {
                    return refuse(format!(
                        "{what}: think is constant or exponential, not `{other}`"
                    ));
                }
            };
            let think_us = self.think_us.unwrap_or(0.0);
            let think_ps = picoseconds_to(THINK_PS_MAX, "think_us", think_us, 1e6)?;
            return Ok(Pace::Closed {
                think_ps,
                is_exponential,
                seed,
            });
        };
        if self.think_us.is_some() || self.think.is_some() {
            return refuse(format!(
                "{what}: rate_per_s makes an open loop, in which nobody thinks"
            ));
        }
        let rate = rate(what, per_s, self.gaps)?;
        Ok(Pace::Open { rate, seed })
    }
}
