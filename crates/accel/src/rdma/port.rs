//! Devices by name, their port, and the address that peers reach it by.

use std::fmt;
use std::sync::Arc;

use super::raw::{self, Context, DeviceAttributes, PortAttributes, VerbsError};

/// A device that is open, with a port that is up.
#[derive(Clone)]
pub(super) struct Device {
    pub(super) context: Arc<Context>,
    pub(super) attributes: DeviceAttributes,
    /// The port's number, from one.
    pub(super) port: u8,
    pub(super) link: PortAttributes,
}

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The address's index in the port's table; `None` on InfiniBand, where the LID is enough.
    pub(super) gid_index: Option<u8>,
    pub(super) gid: [u8; 16],
}

/// The reason that there is no such device, or that nothing can be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    NoLibrary(String),
    NoDevice { asked: String, known: Vec<String> },
    NoActivePort(String),
    NoAddress(String),
    Call(VerbsError),
}

impl Problem {
    /// The remedy, for a person.
    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Self::NoLibrary(_) => "apt-get install libibverbs1 ibverbs-providers",
            Self::NoDevice { .. } => "`dpb doctor` names the devices that there are",
            Self::NoActivePort(_) => "ip link set the port's interface up, and connect its cable",
            Self::NoAddress(_) => "give the port's interface an IP address",
            Self::Call(_) => "see whether /dev/infiniband may be opened, and `ulimit -l`",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary(why) => write!(f, "needs libibverbs.so.1: {why}")?,
            Self::NoDevice { asked, known } if known.is_empty() => {
                write!(f, "no RDMA device `{asked}`, nor any other")?;
            }
            Self::NoDevice { asked, known } => {
                write!(
                    f,
                    "no RDMA device `{asked}`; there are: {}",
                    known.join(", ")
                )?;
            }
            Self::NoActivePort(device) => write!(f, "no port of {device} is active")?,
            Self::NoAddress(device) => write!(f, "no GID of {device}'s port is set")?,
            Self::Call(error) => write!(f, "{error}")?,
        }
        write!(f, "; {}", self.remedy())
    }
}

impl From<VerbsError> for Problem {
    fn from(error: VerbsError) -> Self {
        Self::Call(error)
    }
}

/// Names of all devices. A kernel without RDMA has none.
pub(super) fn device_names() -> Result<Vec<String>, Problem> {
    let verbs = raw::verbs().map_err(Problem::NoLibrary)?;
    Ok(verbs.devices()?)
}

impl Device {
    /// The device called `name`, with its first port that is active.
    pub(super) fn open(name: &str) -> Result<Self, Problem> {
        let verbs = raw::verbs().map_err(Problem::NoLibrary)?;
        let Some(context) = Context::open(verbs, name)? else {
            return Err(Problem::NoDevice {
                asked: name.to_owned(),
                known: verbs.devices()?,
            });
        };
        let attributes = context.attributes()?;
        for port in 1..=attributes.ports {
            let link = context.port(port)?;
            if link.is_active {
                return Ok(Self {
                    context,
                    attributes,
                    port,
                    link,
                });
            }
        }
        Err(Problem::NoActivePort(name.to_owned()))
    }

    /// The software in the place of a card, if there is one.
    pub(super) fn software(&self) -> Option<&'static str> {
        match self.attributes.vendor_id {
            RXE_VENDOR_ID => Some("soft-RoCE (rxe)"),
            SIW_VENDOR_ID => Some("soft-iWARP (siw)"),
            _ => None,
        }
    }

    /// The address with this index, or the one that routes best: RoCE v2 over IPv4, then RoCE v2, then any that is set.
    pub(super) fn address(&self, index: Option<u8>) -> Result<Address, Problem> {
        let at = |index: u8| {
            let gid = self.context.gid(self.port, index)?;
            Ok::<_, Problem>((index, gid))
        };
        let none = || Problem::NoAddress(self.context.name().to_owned());
        if let Some(index) = index {
            let (index, gid) = at(index)?;
            return Ok(Address {
                gid_index: Some(index)
                    .filter(|_| gid != [0; 16])
                    .ok_or_else(none)?
                    .into(),
                gid,
            });
        }
        if !self.link.is_ethernet {
            return Ok(Address {
                gid_index: None,
                gid: [0; 16],
            });
        }
        let table = (0..self.link.gids.min(256) as u16).filter_map(|i| at(i as u8).ok());
        let ranked = table.filter_map(|(index, gid)| {
            let rank = rank(&gid, &self.gid_type(index))?;
            Some((rank, index, gid))
        });
        // The first of the best.
        let (_, index, gid) = ranked
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .ok_or_else(none)?;
        Ok(Address {
            gid_index: Some(index),
            gid,
        })
    }

    /// The type of a GID, as the kernel names it: `RoCE v2`.
    fn gid_type(&self, index: u8) -> String {
        let (name, port) = (self.context.name(), self.port);
        let path = format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/types/{index}");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Whether the port still is up.
    ///
    /// # Errors
    /// What happened to it, in words.
    pub(super) fn still_up(&self) -> Result<(), String> {
        let link = self.context.port(self.port).map_err(|e| e.to_string())?;
        match link.is_active {
            true => Ok(()),
            false => Err(format!(
                "port {} of {} went down",
                self.port,
                self.context.name()
            )),
        }
    }

    /// The device in a line of text.
    pub(super) fn describe(&self) -> String {
        let attributes = &self.attributes;
        let link = match self.link.is_ethernet {
            true => "Ethernet",
            false => "InfiniBand",
        };
        let software = self
            .software()
            .map_or(String::new(), |by| format!("{by}, "));
        format!(
            "{software}port {} active on {link}, MTU {}; firmware {}, part {:#06x}; {} requests a queue pair, {} \
             reads under way, messages up to {} bytes",
            self.port,
            128_u32 << self.link.mtu,
            Some(attributes.firmware.as_str())
                .filter(|firmware| !firmware.is_empty())
                .unwrap_or("unnamed"),
            attributes.vendor_part_id,
            attributes.send_requests_max,
            attributes.reads_max,
            self.link.message_bytes_max
        )
    }
}

/// The vendor that Linux's rxe driver calls itself.
const RXE_VENDOR_ID: u32 = 0xff_ffff;
/// The vendor that Linux's siw driver calls itself.
const SIW_VENDOR_ID: u32 = 0x62_6d74;

/// The first packet number of a queue pair. With a seed that the last run did not have it is another one, so that late packets of
/// that run do not count.
pub(super) fn first_packet_number(seed: u64, qp_num: u32) -> u32 {
    let seed = seed ^ u64::from(qp_num) << 32;
    dpb_core::random::SplitMix64::new(seed).next_u64() as u32 & 0xff_ffff
}

/// Whether a GID is an address of IPv4.
pub(super) fn is_v4(gid: &[u8; 16]) -> bool {
    gid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
}

/// The rank of an address, higher where it reaches peers better; `None` if it is not set.
fn rank(gid: &[u8; 16], kind: &str) -> Option<u8> {
    let is_v4 = is_v4(gid);
    let is_v2 = kind.trim() == "RoCE v2";
    (*gid != [0; 16]).then_some(match (is_v2, is_v4) {
        (true, true) => 3,
        (true, false) => 2,
        (false, true) => 1,
        (false, false) => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_route_come_first() {
        let mut v4 = [0; 16];
        v4[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        let mut local = [0; 16];
        local[..2].copy_from_slice(&[0xfe, 0x80]);
        let ranks = [
            rank(&v4, "RoCE v2\n"),
            rank(&local, "RoCE v2\n"),
            rank(&v4, "IB/RoCE v1\n"),
            rank(&local, "IB/RoCE v1\n"),
        ];
        assert!(ranks.is_sorted_by(|a, b| a > b), "{ranks:?}");
        assert_eq!(rank(&[0; 16], "RoCE v2\n"), None);
    }

    #[test]
    fn problems_say_what_to_do() {
        let known = vec!["mlx5_0".to_owned()];
        let asked = "mlx4_0".to_owned();
        let text = Problem::NoDevice { asked, known }.to_string();
        assert!(text.contains("`mlx4_0`") && text.contains("mlx5_0") && text.contains("doctor"));
    }
}
