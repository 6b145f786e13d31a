//! RDMA as a transport beside TCP, of the pushdown's rows and of `remote-rdma/…`: what the command line says, and `dpb-accel`'s rings as `dpb-link` takes them.

use std::hash::{BuildHasher, RandomState};
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::Arc;

use dpb_accel::rdma::bulk::{
    self, Circumstances, Offered, PIECE_BYTES, PIECES, RING_BYTES, Receiver, Sender,
};
use dpb_core::{Unsupported, WallClock};
use dpb_link::bulk::{
    Acceptor, BodyReader, BodyWriter, Broken, Connected, Connector, Duplex, Offer, Ring,
    TRANSPORT_BYTES_MAX,
};

// What an agent's memory is reckoned with.
const _: () = assert!(RING_BYTES <= TRANSPORT_BYTES_MAX);

/// The transport of large bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// With everything else.
    Tcp,
    /// Past it, where that can be.
    Rdma(Rdma),
}

/// By RDMA writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rdma {
    /// The device; `None` for the first whose port is up.
    device: Option<String>,
}

impl Choice {
    /// As it is written on a command line.
    pub fn to_text(&self) -> String {
        match self {
            Self::Tcp => "tcp".to_owned(),
            Self::Rdma(Rdma { device: None }) => "rdma".to_owned(),
            Self::Rdma(Rdma {
                device: Some(device),
            }) => format!("rdma/{device}"),
        }
    }

    /// For a client: what it offers, if it is to offer anything.
    pub fn offers(&self) -> Option<Arc<dyn Connector>> {
        match self {
            Self::Tcp => None,
            Self::Rdma(rdma) => Some(Arc::new(rdma.clone())),
        }
    }

    /// For an agent: who accepts offers, or what clients are told.
    pub fn accepts(&self) -> Result<Arc<dyn Acceptor>, String> {
        Ok(Arc::new(self.rdma()?))
    }

    /// For an agent: who accepts offers and makes some, or what clients are told.
    pub fn duplex(&self) -> Result<Arc<dyn Duplex>, String> {
        Ok(Arc::new(self.rdma()?))
    }

    fn rdma(&self) -> Result<Rdma, String> {
        match self {
            Self::Tcp => Err("it was started with --bulk tcp".to_owned()),
            Self::Rdma(rdma) => Ok(rdma.clone()),
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let device = match text {
            "tcp" => return Ok(Self::Tcp),
            "rdma" => None,
            _ => match text.strip_prefix("rdma/").or(text.strip_prefix("rdma:")) {
                Some(device) if !device.is_empty() => Some(device.to_owned()),
                _ => return Err(format!("`{text}` is none of tcp, rdma, rdma/DEVICE")),
            },
        };
        Ok(Self::Rdma(Rdma { device }))
    }
}

impl Rdma {
    /// By this device, or by the first whose port is up.
    pub fn new(device: Option<String>) -> Self {
        Self { device }
    }

    fn circumstances(&self) -> Circumstances {
        Circumstances {
            device: self.device.clone(),
            clock: Arc::new(WallClock::default()),
            seed: fresh_seed(),
        }
    }
}

/// A seed for the numbers that packets of a connection start with: not that of the last run.
pub(crate) fn fresh_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl Connector for Rdma {
    fn offer(&self) -> Result<(Vec<u8>, Box<dyn Offer>), String> {
        let (words, offered) = bulk::offer(self.circumstances()).map_err(reason)?;
        Ok((words, Box::new(Made(offered))))
    }
}

impl Acceptor for Rdma {
    fn accept(&self, offer: &[u8]) -> Result<(Vec<u8>, Box<dyn BodyWriter>), String> {
        let (words, sender) = bulk::accept(self.circumstances(), offer).map_err(reason)?;
        Ok((words, Box::new(Out(sender))))
    }
}

fn reason(unsupported: Unsupported) -> String {
    unsupported.reason
}

fn broken(broken: bulk::Broken) -> Broken {
    Broken(broken.to_string())
}

struct Made(Offered);

impl Offer for Made {
    fn open(self: Box<Self>, answer: &[u8]) -> Result<Connected, String> {
        let receiver = self.0.open(answer).map_err(reason)?;
        Ok(Connected {
            name: format!("rdma/{}", receiver.device()),
            emulated_by: receiver.emulated_by().map(str::to_owned),
            reader: Box::new(In(receiver)),
        })
    }
}

#[derive(Debug)]
struct Out(Sender);

impl BodyWriter for Out {
    fn ring(&self) -> Ring {
        Ring {
            pieces: self.0.pieces(),
            piece_bytes: self.0.piece_bytes(),
        }
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Broken> {
        self.0.write(parts).map_err(broken)
    }

    fn in_flight(&mut self) -> Result<u32, Broken> {
        self.0.in_flight().map_err(broken)
    }
}

#[derive(Debug)]
struct In(Receiver);

impl BodyReader for In {
    fn ring(&self) -> Ring {
        Ring {
            pieces: PIECES,
            piece_bytes: PIECE_BYTES,
        }
    }

    fn arrived(&mut self) -> Result<Option<usize>, Broken> {
        self.0.arrived().map_err(broken)
    }

    fn copy(&self, at: usize, into: &mut [u8]) {
        self.0.copy(at, into);
    }

    fn release(&mut self) -> Result<(), Broken> {
        self.0.release().map_err(broken)
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.0.check().map_err(broken)
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.0.file()
    }

    fn arm(&mut self) -> Result<(), Broken> {
        self.0.arm().map_err(broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_as_they_are_written() {
        for text in ["tcp", "rdma", "rdma/mlx5_0"] {
            let choice: Choice = text.parse().expect("one of them");
            assert_eq!(choice.to_text(), text);
            assert_eq!(choice.offers().is_some(), text != "tcp");
            assert_eq!(choice.accepts().is_ok(), text != "tcp");
            assert_eq!(choice.duplex().is_ok(), text != "tcp");
        }
        let colon: Choice = "rdma:mlx5_0".parse().expect("as of a backend");
        assert_eq!(colon.to_text(), "rdma/mlx5_0");
        for text in ["", "udp", "rdma/", "rdmax"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }
}
