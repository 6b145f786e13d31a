//! What tests of the pipeline share: frames that etherparse writes, and operators that are a few lines of another library.
#![allow(dead_code, unreachable_pub)]

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm, KeyInit};
use dpb_core::lift::OneKernel;
use dpb_core::spec::AesGcm;
use dpb_core::{
    Backend, Batch, BatchOut, Buf, Direction, InPlace, IpFamily, JobError, Kernel, Material,
    NotInPlace, OpSpec, OutputShape, spec,
};
use dpb_net::pipeline::{Account, Shard, Work};
use dpb_net::programs::Engine;
use dpb_sim::{Faults, Faulty};
use etherparse::PacketBuilder;

pub fn buf(bytes: &[u8]) -> Buf {
    let mut buf = Buf::zeroed(bytes.len()).expect("memory");
    buf.copy_from_slice(bytes);
    buf
}

pub const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A frame with UDP over IPv4.
pub fn udp_v4(addresses: [[u8; 4]; 2], ports: [u16; 2], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(HERE, THERE)
        .ipv4(addresses[0], addresses[1], ttl)
        .udp(ports[0], ports[1]);
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut frame, payload).expect("a Vec takes all");
    frame
}

/// A frame with UDP over IPv6.
pub fn udp_v6(addresses: [[u8; 16]; 2], ports: [u16; 2], limit: u8, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(HERE, THERE)
        .ipv6(addresses[0], addresses[1], limit)
        .udp(ports[0], ports[1]);
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut frame, payload).expect("a Vec takes all");
    frame
}

/// A packet of flow `flow`, the `sequence`th there: both stand in its payload. Flows are told apart by their ports and addresses.
pub fn of_flow(flow: u16, sequence: u32, len: usize) -> Vec<u8> {
    let mut payload = vec![0; len.max(6)];
    payload[..2].copy_from_slice(&flow.to_be_bytes());
    payload[2..6].copy_from_slice(&sequence.to_be_bytes());
    let [high, low] = flow.to_be_bytes();
    udp_v4(
        [[10, 0, high, low], [192, 0, 2, low]],
        [1000 + flow, 53],
        64,
        &payload,
    )
}

/// What [`of_flow`] put in.
pub fn flow_of(frame: &[u8]) -> (u16, u32) {
    let payload = &frame[42..];
    (
        u16::from_be_bytes([payload[0], payload[1]]),
        u32::from_be_bytes([payload[2], payload[3], payload[4], payload[5]]),
    )
}

/// Drives a shard until it has nothing left, and checks its account at each turn.
pub fn drain(shard: &mut dyn Work, turns_max: usize) -> io::Result<Account> {
    shard.close();
    for _ in 0..turns_max {
        shard.turn()?;
        shard.account().check().expect("balanced");
        if shard.is_done() {
            return Ok(shard.account());
        }
    }
    panic!("not done after {turns_max} turns: {}", shard.account());
}

/// Turns, with a check of the account behind each.
pub fn turns(shard: &mut Shard, count: usize) {
    for _ in 0..count {
        shard.turn().expect("memory");
        shard.account().check().expect("balanced");
    }
}

/// RustCrypto's AES-GCM behind the seam, as dpb's operator is: item nonce, additional data, text.
pub struct Gcm {
    direction: Direction,
    aad_bytes: usize,
    key: Key,
    is_in_place: bool,
}

enum Key {
    Short(Aes128Gcm),
    Long(Aes256Gcm),
}

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

impl Gcm {
    pub fn new(spec: &AesGcm, is_in_place: bool) -> Self {
        let key = match spec.key.bytes().len() {
            16 => Key::Short(Aes128Gcm::new_from_slice(spec.key.bytes()).expect("16 bytes")),
            _ => Key::Long(Aes256Gcm::new_from_slice(spec.key.bytes()).expect("32 bytes")),
        };
        Self {
            direction: spec.direction,
            aad_bytes: spec.aad_bytes.into(),
            key,
            is_in_place,
        }
    }

    /// The text of an item, done in place; `room` is what the output may take. Gives its length.
    fn compute(&self, bytes: &mut [u8], item_len: usize, room: usize) -> Result<u32, JobError> {
        let text_at = NONCE_BYTES + self.aad_bytes;
        let text_len = item_len.checked_sub(text_at).ok_or(JobError::Malformed)?;
        let (head, text) = bytes.split_at_mut(text_at);
        let (nonce, aad) = head.split_at(NONCE_BYTES);
        let nonce = nonce.try_into().expect("twelve bytes");
        match self.direction {
            Direction::Encrypt => {
                if room < text_len + TAG_BYTES {
                    return Err(JobError::DstTooShort);
                }
                let (plain, rest) = text.split_at_mut(text_len);
                let plain = InOutBuf::from(plain);
                let tag = match &self.key {
                    Key::Short(key) => key.encrypt_inout_detached(nonce, aad, plain),
                    Key::Long(key) => key.encrypt_inout_detached(nonce, aad, plain),
                };
                rest[..TAG_BYTES].copy_from_slice(&tag.map_err(|_| JobError::TooLong)?);
                Ok((text_len + TAG_BYTES) as u32)
            }
            Direction::Decrypt => {
                let len = text_len.checked_sub(TAG_BYTES).ok_or(JobError::Malformed)?;
                if room < len {
                    return Err(JobError::DstTooShort);
                }
                let (sealed, tag) = text[..text_len].split_at_mut(len);
                let tag = (&*tag).try_into().expect("sixteen bytes");
                let sealed = InOutBuf::from(sealed);
                match &self.key {
                    Key::Short(key) => key.decrypt_inout_detached(nonce, aad, sealed, tag),
                    Key::Long(key) => key.decrypt_inout_detached(nonce, aad, sealed, tag),
                }
                .map_err(|_| JobError::Malformed)?;
                Ok(len as u32)
            }
        }
    }
}

impl Kernel for Gcm {
    type Scratch = Vec<u8>;

    fn scratch(&self) -> Vec<u8> {
        vec![0; 1 << 16]
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len + TAG_BYTES
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        match self.is_in_place {
            true => Ok(NONCE_BYTES + self.aad_bytes),
            false => Err(NotInPlace::new("asked not to")),
        }
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, own: &mut Vec<u8>) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            own[..item.len()].copy_from_slice(item);
            let len = self.compute(own, item.len(), slot.len())?;
            let at = NONCE_BYTES + self.aad_bytes;
            slot[..len as usize].copy_from_slice(&own[at..at + len as usize]);
            Ok(len)
        });
        Ok(())
    }

    fn run_in_place(&self, work: InPlace<'_>, _: &mut Vec<u8>) -> Result<(), JobError> {
        for item in work.items {
            let outcome = self.compute(item.bytes, item.item_len, item.slot_len);
            work.outcomes.push(outcome);
        }
        Ok(())
    }
}

/// How an operator of a test behaves beside being right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    pub not_in_place: bool,
    /// Jobs come home late and in any order, by this seed.
    pub disorder: Option<u64>,
    pub errors_ppm: u32,
}

impl Manner {
    pub fn of<B: Backend + 'static>(self, backend: B) -> Arc<dyn Backend> {
        let Some(seed) = self.disorder else {
            return Arc::new(backend);
        };
        let faults = Faults {
            seed,
            errors_ppm: self.errors_ppm,
            delay_polls_max: 5,
            reorder: true,
            ..Faults::default()
        };
        Arc::new(Faulty::new("test", faults, backend))
    }
}

pub fn deep(depth: u32) -> NonZeroU32 {
    NonZeroU32::new(depth).expect("not zero")
}

/// An engine for `spec` on `backend`, 8 deep, bursts of 32.
pub fn engine(backend: Arc<dyn Backend>, spec: &OpSpec) -> Engine {
    Engine::new(backend, spec, deep(8), 32).expect("supported")
}

/// AES-GCM as ESP wants it.
pub fn gcm(direction: Direction, key: &[u8], manner: Manner) -> Engine {
    let spec = OpSpec::from(AesGcm {
        direction,
        aad_bytes: 8,
        key: Material::secret(key),
    });
    let is_in_place = !manner.not_in_place;
    let kernel = move |spec: &AesGcm| Ok(Gcm::new(spec, is_in_place));
    let backend = OneKernel::of_operator("test/gcm", "aes-gcm", kernel);
    engine(manner.of(backend), &spec)
}

/// Routes, asked one after the other.
pub struct Routes {
    family: IpFamily,
    /// Address, bits, hop.
    routes: Vec<(u128, u32, u32)>,
}

impl Routes {
    fn hop(&self, address: u128) -> u32 {
        let width = if self.family == IpFamily::V4 { 32 } else { 128 };
        let fits =
            |(of, bits, _): &&(u128, u32, u32)| *bits == 0 || (address ^ of) >> (width - bits) == 0;
        let best = self.routes.iter().filter(fits).max_by_key(|route| route.1);
        best.map_or(u32::MAX, |route| route.2)
    }
}

impl Kernel for Routes {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            let address = item
                .iter()
                .fold(0, |sum, byte| sum << 8 | u128::from(*byte));
            slot[..4].copy_from_slice(&self.hop(address).to_le_bytes());
            Ok(4)
        });
        Ok(())
    }
}

/// `lpm4` or `lpm6` with these routes.
pub fn lpm(family: IpFamily, routes: Vec<(u128, u32, u32)>, manner: Manner) -> Engine {
    let spec = OpSpec::from(spec::Lpm {
        family,
        routes: Material::public(*b"as the kernel has them"),
    });
    let kernel = move |_: &spec::Lpm| {
        Ok(Routes {
            family,
            routes: routes.clone(),
        })
    };
    let backend = OneKernel::of_operator("test/lpm", "lpm", kernel);
    engine(manner.of(backend), &spec)
}

/// The sum of an item's bytes, four bytes, little endian.
pub struct Sum;

impl Kernel for Sum {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(4)
    }

    fn dst_len(&self, _: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each(batch, |item, slot| {
            let sum: u32 = item.iter().map(|byte| u32::from(*byte)).sum();
            slot[..4].copy_from_slice(&sum.to_le_bytes());
        });
        Ok(())
    }
}

pub fn sum_spec() -> OpSpec {
    OpSpec::custom("sum", [])
}

pub fn sum(manner: Manner) -> Engine {
    let kernel = |_: &spec::Custom| Ok(Sum);
    let backend = OneKernel::of_operator("test/sum", "sum", kernel);
    engine(manner.of(backend), &sum_spec())
}
