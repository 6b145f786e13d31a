//! The handshake's bodies: hello, welcome, open, opened.

use std::fmt;
use std::thread;

use dpb_core::printable;
use serde::{Deserialize, Serialize};

use crate::error::{LinkError, cut};
use crate::message::{decode, encode};
use crate::token::TOKEN_BYTES_MAX;
use crate::{MAGIC, VERSION};

/// Most bytes of each text of an [`AgentDescription`], so that a welcome keeps its bound.
const TEXT_BYTES_MAX: usize = 512;
/// Characters of an agent's words that a client keeps.
const WORDS_MAX: usize = 1000;
/// Most services of one agent.
pub const SERVICES_MAX: usize = 16;
/// Most bytes of a service's name, which is of small letters, digits and hyphens.
pub const NAME_BYTES_MAX: usize = 32;
/// Most bytes of a service's description of itself.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;

/// The client's first frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// Version of the session that the client speaks.
    pub version: u16,
    /// What the client can do, by bits. Reserved: clients send 0, and agents ignore it.
    pub capabilities: u64,
    /// The pace that the agent sends at on this connection, bits per second; 0 for none.
    pub link_bits_per_s: u64,
    /// Proof that it may ask at all; empty if the agent wants none.
    pub token: Vec<u8>,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello")
            .field("version", &self.version)
            .field("capabilities", &self.capabilities)
            .field("link_bits_per_s", &self.link_bits_per_s)
            .field("token_bytes", &self.token.len())
            .finish()
    }
}

impl Hello {
    /// The frame's body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(24 + self.token.len());
        body.extend_from_slice(&MAGIC);
        body.extend_from_slice(&self.version.to_le_bytes());
        body.extend_from_slice(&(self.token.len() as u16).to_le_bytes());
        body.extend_from_slice(&self.capabilities.to_le_bytes());
        body.extend_from_slice(&self.link_bits_per_s.to_le_bytes());
        body.extend_from_slice(&self.token);
        body
    }

    /// Reads the frame's body.
    ///
    /// # Errors
    /// Another protocol, another version, a length that is not that of the body.
    pub fn parse(body: &[u8]) -> Result<Self, LinkError> {
        check_version(body)?;
        let (Some(len), Some(capabilities), Some(link_bits_per_s)) =
            (u16_at(body, 6), u64_at(body, 8), u64_at(body, 16))
        else {
            return Err(LinkError::Torn);
        };
        let token = &body[24..];
        if token.len() != len as usize || token.len() > TOKEN_BYTES_MAX {
            return Err(LinkError::Malformed("the token's length"));
        }
        Ok(Self {
            version: VERSION,
            capabilities,
            link_bits_per_s,
            token: token.to_vec(),
        })
    }
}

/// An agent's description of its process and machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDescription {
    /// dpb's version.
    pub dpb_version: String,
    /// The name of the agent's host.
    pub host: String,
    /// The model of the agent's CPU.
    pub cpu_model: String,
    /// Logical CPUs that the agent may use.
    pub cpus: u32,
    /// The agent's process.
    pub pid: u32,
}

impl AgentDescription {
    /// This process's description of itself.
    pub fn of_this_process() -> Self {
        let cpu_model = std::fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("model name"))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            });
        Self {
            dpb_version: env!("CARGO_PKG_VERSION").to_owned(),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            cpu_model: cpu_model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus: thread::available_parallelism().map_or(1, |n| n.get() as u32),
            pid: std::process::id(),
        }
    }

    /// The same with every text changed.
    fn map(&self, change: impl Fn(&str) -> String) -> Self {
        Self {
            dpb_version: change(&self.dpb_version),
            host: change(&self.host),
            cpu_model: change(&self.cpu_model),
            ..*self
        }
    }
}

/// A service that an agent offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The service's name, see [`NAME_BYTES_MAX`].
    pub name: String,
    /// The version of the service's own protocol.
    pub version: u16,
    /// The service's description of itself, in its own encoding; at most [`DESCRIPTION_BYTES_MAX`].
    pub description: Vec<u8>,
}

impl Offer {
    /// Checks the bounds of the name and the description.
    ///
    /// # Errors
    /// [`LinkError::Malformed`].
    pub fn check(&self) -> Result<(), LinkError> {
        let is_letter = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let name = self.name.as_bytes();
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.iter().all(|&byte| is_letter(byte))
        {
            return Err(LinkError::Malformed("a service's name"));
        }
        match self.description.len() <= DESCRIPTION_BYTES_MAX {
            true => Ok(()),
            false => Err(LinkError::Malformed(
                "the length of a service's description",
            )),
        }
    }
}

/// The agent's first frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// What the agent can do, by bits. Reserved: agents send 0, and clients ignore it.
    pub capabilities: u64,
    /// The agent's description.
    pub agent: AgentDescription,
    /// The services that it offers; at most [`SERVICES_MAX`].
    pub services: Vec<Offer>,
}

impl Welcome {
    /// The frame's body. Long texts of the agent's are cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(256);
        body.extend_from_slice(&MAGIC);
        body.extend_from_slice(&VERSION.to_le_bytes());
        body.extend_from_slice(&[0; 2]);
        body.extend_from_slice(&self.capabilities.to_le_bytes());
        let agent = self.agent.map(|text| cut(text, TEXT_BYTES_MAX).to_owned());
        body.extend_from_slice(&encode(&(&agent, &self.services)));
        body
    }

    /// Reads the frame's body. Texts come out as a terminal may show them.
    ///
    /// # Errors
    /// Another protocol, another version, a body that does not decode, services beyond their bounds or of one name.
    pub fn parse(body: &[u8]) -> Result<Self, LinkError> {
        check_version(body)?;
        if u16_at(body, 6) != Some(0) {
            return Err(LinkError::Malformed("a welcome byte that must be zero"));
        }
        let capabilities = u64_at(body, 8).ok_or(LinkError::Torn)?;
        let (agent, services): (AgentDescription, Vec<Offer>) = decode(&body[16..])?;
        if services.len() > SERVICES_MAX {
            return Err(LinkError::Malformed("the number of services"));
        }
        services.iter().try_for_each(Offer::check)?;
        let is_twice = |at: usize| services[..at].iter().any(|s| s.name == services[at].name);
        if (0..services.len()).any(is_twice) {
            return Err(LinkError::Malformed("two services of one name"));
        }
        Ok(Self {
            capabilities,
            agent: agent.map(|text| printable(text, WORDS_MAX)),
            services,
        })
    }
}

/// Opens one service; the client's frame after the welcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The service's name.
    pub service: String,
    /// The version of the service's protocol that the client speaks.
    pub version: u16,
}

impl Open {
    /// The frame's body: the version (2), the name.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.version.to_le_bytes(), self.service.as_bytes()].concat()
    }

    /// Reads the frame's body.
    ///
    /// # Errors
    /// A body that is too short, a name that no service can have.
    pub fn parse(body: &[u8]) -> Result<Self, LinkError> {
        let (version, name) = body.split_first_chunk::<2>().ok_or(LinkError::Torn)?;
        let name = std::str::from_utf8(name)
            .map_err(|_| LinkError::Malformed("a service's name"))?
            .to_owned();
        let version = u16::from_le_bytes(*version);
        let offer = Offer {
            name,
            version,
            description: Vec::new(),
        };
        offer.check()?;
        Ok(Self {
            service: offer.name,
            version,
        })
    }
}

/// The body of the frame that says that a service is open: the version of its protocol.
pub fn opened_bytes(version: u16) -> [u8; 2] {
    version.to_le_bytes()
}

/// Reads it.
///
/// # Errors
/// Another length.
pub fn parse_opened(body: &[u8]) -> Result<u16, LinkError> {
    let bytes = body.try_into().map_err(|_| LinkError::Torn)?;
    Ok(u16::from_le_bytes(bytes))
}

fn check_version(body: &[u8]) -> Result<(), LinkError> {
    if body.len() < 6 || body[..4] != MAGIC {
        return Err(LinkError::Foreign);
    }
    match u16::from_le_bytes([body[4], body[5]]) {
        VERSION => Ok(()),
        theirs => Err(LinkError::Version { theirs }),
    }
}

fn u16_at(body: &[u8], at: usize) -> Option<u16> {
    let bytes = body.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(body: &[u8], at: usize) -> Option<u64> {
    let bytes = body.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests;
