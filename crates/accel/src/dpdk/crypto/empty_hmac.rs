//! The code of an empty message under HMAC (RFC 2104), of plain hashes on the same device: devices get it wrong, ipsec-mb for one.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{Items, Job, OpSpec, Operator, Queue, SetupError, Unsupported, WallClock, spec};

use super::super::raw::CryptoDevice;
use super::CryptoOperator;

/// The time that a device may take for a hash.
const PATIENCE: Duration = Duration::from_secs(2);

/// A hash function on a device, with a queue.
pub(super) struct Hasher {
    operator: Arc<CryptoOperator>,
    queue: Box<dyn Queue>,
}

impl Hasher {
    /// # Errors
    /// The device has no queue pair left, or no such hash.
    pub(super) fn open(
        hash: &OpSpec,
        device: &Arc<CryptoDevice>,
        clock: &Arc<WallClock>,
    ) -> Result<Self, SetupError> {
        let operator = Arc::new(CryptoOperator::new(hash, device, clock)?);
        let queue = operator.clone().open(NonZeroU32::MIN)?;
        Ok(Self { operator, queue })
    }

    /// HMAC of an empty message.
    ///
    /// # Errors
    /// The device does not hash.
    pub(super) fn hmac_of_nothing(&mut self, key: &[u8]) -> Result<Arc<[u8]>, SetupError> {
        let block_bytes = match self.operator.spec.is::<spec::Sha512>() {
            true => 128,
            false => 64,
        };
        let mut block = match key.len() > block_bytes {
            true => self.digest(key)?,
            false => key.to_vec(),
        };
        block.resize(block_bytes, 0);
        let padded = |pad: u8| block.iter().map(move |byte| byte ^ pad);
        let inner = self.digest(&padded(0x36).collect::<Vec<u8>>())?;
        let outer = self.digest(&padded(0x5C).chain(inner).collect::<Vec<u8>>())?;
        Ok(outer.into())
    }

    /// One hash.
    fn digest(&mut self, message: &[u8]) -> Result<Vec<u8>, SetupError> {
        let Self { operator, queue } = self;
        let memory = operator.device.eal().memory();
        let mut src = memory.alloc(message.len())?;
        src.copy_from_slice(message);
        let dst = memory.alloc(operator.dst_len(message.len()))?;
        let job = Job::new(0, src.freeze(), Items::One, dst, operator.shape());
        queue.submit(&mut VecDeque::from([job]));
        let mut done = Vec::with_capacity(1);
        let mut silence = Silence::default();
        while queue.poll(&mut done) == 0 && silence.lasts(&*operator.clock) < PATIENCE {}
        let answer = done.pop().map(|done| done.result.map(|()| done.job));
        match answer {
            Some(Ok(job)) => Ok(job.dst[0].to_vec()),
            other => {
                let error = other.and_then(Result::err);
                let why = error.map_or("no answer".to_owned(), |error| error.to_string());
                let (name, hash) = (operator.device.name(), &operator.spec);
                let reason = format!("{name} computes no {hash}: {why}");
                Err(SetupError::Unsupported(Unsupported { reason }))
            }
        }
    }
}
