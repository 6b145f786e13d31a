//! Send requests that are posted with one call.
#![allow(unsafe_code)]

use std::ptr;

use super::super::sys;

/// Requests and the part of memory that each is about; its room is fixed, so that nothing moves once linked.
pub(super) struct Chain {
    requests: Vec<sys::SendWr>,
    parts: Vec<sys::Sge>,
}

// SAFETY: its pointers point into its own memory, and are made anew by each `link`.
unsafe impl Send for Chain {}

impl Chain {
    pub(super) fn new(longest: usize) -> Self {
        Self {
            requests: Vec::with_capacity(longest),
            parts: Vec::with_capacity(longest),
        }
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.parts.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.requests.len() == self.requests.capacity()
    }

    /// # Panics
    /// If it is full.
    #[inline]
    pub(super) fn push(&mut self, request: sys::SendWr, part: sys::Sge) {
        assert!(!self.is_full(), "no longer than promised");
        self.requests.push(request);
        self.parts.push(part);
    }

    /// The last request, to be signalled.
    pub(super) fn last(&mut self) -> Option<&mut sys::SendWr> {
        self.requests.last_mut()
    }

    /// Links it; the first request, if there is one. Good until the chain is touched again.
    #[inline]
    pub(super) fn link(&mut self) -> Option<*mut sys::SendWr> {
        let count = self.requests.len();
        let (requests, parts) = (self.requests.as_mut_ptr(), self.parts.as_mut_ptr());
        for i in 0..count {
            // SAFETY: both have `count` elements.
            unsafe {
                let request = requests.add(i);
                (*request).sg_list = parts.add(i);
                (*request).next = match i + 1 < count {
                    true => requests.add(i + 1),
                    false => ptr::null_mut(),
                };
            }
        }
        (count > 0).then_some(requests)
    }
}
