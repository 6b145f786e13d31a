//! Completion queues, and the files that say that something completed.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::super::sys;
use super::{Context, VerbsError};
use crate::readiness;

/// A queue of completions.
pub(in crate::rdma) struct CompletionQueue {
    context: Arc<Context>,
    pub(super) ptr: NonNull<sys::Cq>,
    /// Behind what the drop of this destroys, which must go first.
    channel: Option<Channel>,
}

// SAFETY: as for `Context`.
unsafe impl Send for CompletionQueue {}
// SAFETY: as for `Context`.
unsafe impl Sync for CompletionQueue {}

/// A completion channel, of one completion queue: a file that is readable when there is an event.
struct Channel {
    context: Arc<Context>,
    ptr: NonNull<sys::CompChannel>,
}

impl CompletionQueue {
    /// A queue with room for `depth` completions, at least, which is polled.
    pub(in crate::rdma) fn new(
        context: &Arc<Context>,
        depth: u32,
    ) -> Result<Arc<Self>, VerbsError> {
        Self::with(context, depth, None)
    }

    /// A queue with room for `depth` completions, at least, which can be slept for.
    pub(in crate::rdma) fn with_file(
        context: &Arc<Context>,
        depth: u32,
    ) -> Result<Arc<Self>, VerbsError> {
        Self::with(context, depth, Some(Channel::new(context)?))
    }

    fn with(
        context: &Arc<Context>,
        depth: u32,
        channel: Option<Channel>,
    ) -> Result<Arc<Self>, VerbsError> {
        let channel_ptr = channel
            .as_ref()
            .map_or(ptr::null_mut(), |channel| channel.ptr.as_ptr());
        // SAFETY: the context is open, and the channel is of it, if there is one; no cookie is needed.
        let ptr = unsafe {
            (context.verbs.symbols.create_cq)(
                context.ptr.as_ptr(),
                depth.max(1) as c_int,
                ptr::null_mut(),
                channel_ptr,
                0,
            )
        };
        let ptr = NonNull::new(ptr).ok_or_else(|| VerbsError::last("ibv_create_cq"))?;
        Ok(Arc::new(Self {
            context: context.clone(),
            ptr,
            channel,
        }))
    }

    /// Takes up to as many completions as `into` has room for; says how many.
    #[inline]
    pub(in crate::rdma) fn poll(&self, into: &mut [sys::Wc]) -> Result<usize, VerbsError> {
        let cq = self.ptr.as_ptr();
        // SAFETY: the queue lives, and its context's slot is the provider's function; `into` has room for what is asked.
        let count =
            unsafe { ((*(*cq).context).ops.poll_cq)(cq, into.len() as c_int, into.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| VerbsError {
            call: "ibv_poll_cq",
            errno: -count,
        })
    }

    /// The file that is readable when something has completed since [`CompletionQueue::arm`].
    pub(in crate::rdma) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(Channel::file)
    }

    /// Has the file tell of the next completion; of what has completed by now it need not tell. By one thread at a time.
    pub(in crate::rdma) fn arm(&self) -> Result<(), VerbsError> {
        let Some(channel) = &self.channel else {
            return Ok(());
        };
        channel.clear()?;
        let cq = self.ptr.as_ptr();
        // SAFETY: the queue lives, and its context's slot is the provider's function.
        let code = unsafe { ((*(*cq).context).ops.req_notify_cq)(cq, 0) };
        VerbsError::check("ibv_req_notify_cq", code)
    }

    /// Sleeps until something completes that has not completed since [`CompletionQueue::arm`], at most for `timeout`; a short time if
    /// there is no file.
    pub(in crate::rdma) fn sleep(&self, timeout: Duration) {
        match self.file() {
            Some(file) => _ = readiness::sleep(file, timeout),
            None => readiness::nap(timeout),
        }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: created by us, destroyed once; queue pairs hold it and are gone. Each event was acknowledged when it was taken.
        unsafe { (self.context.verbs.symbols.destroy_cq)(self.ptr.as_ptr()) };
    }
}

impl Channel {
    fn new(context: &Arc<Context>) -> Result<Self, VerbsError> {
        // SAFETY: the context is open.
        let ptr = unsafe { (context.verbs.symbols.create_comp_channel)(context.ptr.as_ptr()) };
        let ptr = NonNull::new(ptr).ok_or_else(|| VerbsError::last("ibv_create_comp_channel"))?;
        let context = context.clone();
        let channel = Self { context, ptr };
        // Events are taken until there is none, which must not wait for one.
        let flags = fcntl_getfl(channel.file());
        let set = flags.and_then(|flags| fcntl_setfl(channel.file(), flags | OFlags::NONBLOCK));
        set.map_err(|error| VerbsError {
            call: "fcntl",
            errno: error.raw_os_error(),
        })?;
        Ok(channel)
    }

    fn file(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives, and its file with it, whose number is written once, when it is made.
        unsafe { BorrowedFd::borrow_raw((*self.ptr.as_ptr()).fd) }
    }

    /// Takes the events that are there.
    fn clear(&self) -> Result<(), VerbsError> {
        let symbols = &self.context.verbs.symbols;
        loop {
            let (mut cq, mut cookie) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the channel lives; both are written.
            let code =
                unsafe { (symbols.get_cq_event)(self.ptr.as_ptr(), &raw mut cq, &raw mut cookie) };
            if code != 0 {
                // No more events, or a signal: what is still there wakes who sleeps next, who then looks for completions in vain.
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                    _ => Err(VerbsError::last("ibv_get_cq_event")),
                };
            }
            // SAFETY: the queue whose event this is; acknowledged once.
            unsafe { (symbols.ack_cq_events)(cq, 1) };
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created by us, destroyed once; its completion queue is gone.
        unsafe { (self.context.verbs.symbols.destroy_comp_channel)(self.ptr.as_ptr()) };
    }
}
