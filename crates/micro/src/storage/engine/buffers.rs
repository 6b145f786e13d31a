//! Buffers of requests: each is the kernel's while a request with it is in flight, and cannot be had then.
#![allow(unsafe_code)]

use std::slice;

use crate::mapping::{Mapping, Pages};

/// Buffers start at multiples of this, as direct requests want.
const ALIGNMENT: usize = 4096;

#[derive(Debug)]
pub(super) struct Buffers {
    /// `None` once leaked.
    memory: Option<Mapping>,
    len: usize,
    /// Which are in flight.
    flying: Vec<bool>,
    in_flight: usize,
}

impl Buffers {
    /// So many buffers of `len` bytes.
    pub(super) fn new(count: usize, len: usize) -> Result<Self, String> {
        let bytes = len.next_multiple_of(ALIGNMENT).checked_mul(count);
        let bytes = bytes.ok_or_else(|| format!("{count} buffers of {len} bytes are too many"))?;
        let mut memory = Mapping::new(bytes, Pages::Normal)?;
        // So that no page comes while time runs.
        memory.bytes_mut().fill(0);
        Ok(Self {
            memory: Some(memory),
            len,
            flying: vec![false; count],
            in_flight: 0,
        })
    }

    /// Bytes of each.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn count(&self) -> usize {
        self.flying.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The address of a buffer, for the kernel, which has it until [`Buffers::land`].
    pub(super) fn launch(&mut self, number: usize) -> *mut u8 {
        assert!(!self.flying[number], "buffer {number} is in flight");
        self.flying[number] = true;
        self.in_flight += 1;
        self.address(number)
    }

    /// The kernel is done with it.
    pub(super) fn land(&mut self, number: usize) {
        assert!(self.flying[number], "buffer {number} is not in flight");
        self.flying[number] = false;
        self.in_flight -= 1;
    }

    /// A buffer that is not in flight.
    pub(super) fn get(&mut self, number: usize) -> &mut [u8] {
        assert!(!self.flying[number], "buffer {number} is in flight");
        let (address, len) = (self.address(number), self.len);
        // SAFETY: `number` is below the count, so these bytes are the mapping's and overlap no other buffer's; they are
        // initialised; the kernel has no request with them; they are borrowed through `self`.
        unsafe { slice::from_raw_parts_mut(address, len) }
    }

    /// Without a promise about who uses it: to register it.
    pub(super) fn address(&self, number: usize) -> *mut u8 {
        assert!(number < self.flying.len(), "there is no buffer {number}");
        let memory = self.memory.as_ref().expect("not leaked");
        let offset = number * self.len.next_multiple_of(ALIGNMENT);
        // SAFETY: the mapping has as many bytes for each of the buffers.
        unsafe { memory.as_ptr().add(offset) }
    }

    /// Never gives the memory back: the kernel may still write to it.
    pub(super) fn leak(&mut self) {
        std::mem::forget(self.memory.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_lie_apart_and_are_aligned() {
        let mut buffers = Buffers::new(3, 5000).expect("mapped");
        for number in 0..3 {
            assert_eq!(buffers.address(number).addr() % ALIGNMENT, 0);
            buffers.get(number).fill(number as u8 + 1);
        }
        for number in 0..3 {
            let right = buffers
                .get(number)
                .iter()
                .all(|&byte| byte == number as u8 + 1);
            assert!(right && buffers.get(number).len() == 5000);
        }
    }

    #[test]
    #[should_panic(expected = "in flight")]
    fn a_buffer_in_flight_cannot_be_had() {
        let mut buffers = Buffers::new(2, 4096).expect("mapped");
        buffers.launch(1);
        assert_eq!(buffers.in_flight(), 1);
        buffers.get(0);
        buffers.get(1);
    }
}
