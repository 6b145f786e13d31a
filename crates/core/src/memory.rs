//! The buffers of a job: those that it reads, [`Memory`], and those that it writes, [`Buffers`].

use std::ops::{Deref, DerefMut};

use crate::{Buf, View};

/// The buffers that a job reads. They move into the job and come home with it ([`Memory::into_buffers`]); nothing is copied. As a slice:
/// its buffers.
#[derive(Debug)]
pub enum Memory {
    /// One buffer that any number of jobs read.
    Shared(View),
    /// Buffers of this job alone: the output of another job, or a burst of packets.
    Own(Buffers),
    /// No input of its own: the job works in place on the buffers that it writes, see [`Operator::in_place`](crate::Operator::in_place).
    Output,
}

/// Writable memory of one job. As a slice: its buffers; [`Span::buf`](crate::Span::buf) is the index of one. A list of buffers comes home
/// as the list that was given ([`Buffers::into_vec`]).
#[derive(Debug)]
pub enum Buffers {
    /// One buffer.
    One(Buf),
    /// Any number of buffers: a burst of packets.
    Many(Vec<Buf>),
}

/// The place of one item, as code that computes with addresses wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of its buffer.
    pub buf: usize,
    /// Its first byte in that buffer.
    pub start: usize,
    /// Its bytes.
    pub len: usize,
}

impl Place {
    /// The bytes at this place.
    ///
    /// # Panics
    /// If they do not lie inside one of `bufs`.
    pub fn bytes<'a>(&self, bufs: &'a [Buf]) -> &'a [u8] {
        &bufs[self.buf][self.start..][..self.len]
    }
}

impl Buffers {
    /// The list of buffers that was given, to be filled for the next job. One buffer gets a list, which is allocated, unless it was given
    /// in one.
    #[must_use]
    pub fn into_vec(self) -> Vec<Buf> {
        match self {
            Self::One(buf) => vec![buf],
            Self::Many(bufs) => bufs,
        }
    }
}

impl Memory {
    /// The job's own buffers; `None` if jobs share them, or if the job works in place.
    #[must_use]
    pub fn into_buffers(self) -> Option<Buffers> {
        match self {
            Self::Own(buffers) => Some(buffers),
            Self::Shared(_) | Self::Output => None,
        }
    }
}

impl Deref for Memory {
    type Target = [Buf];

    #[inline]
    fn deref(&self) -> &[Buf] {
        match self {
            Self::Shared(view) => std::slice::from_ref(view.buf()),
            Self::Own(buffers) => buffers,
            Self::Output => &[],
        }
    }
}

impl Deref for Buffers {
    type Target = [Buf];

    #[inline]
    fn deref(&self) -> &[Buf] {
        match self {
            Self::One(buf) => std::slice::from_ref(buf),
            Self::Many(bufs) => bufs,
        }
    }
}

impl DerefMut for Buffers {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Buf] {
        match self {
            Self::One(buf) => std::slice::from_mut(buf),
            Self::Many(bufs) => bufs,
        }
    }
}

impl Default for Buffers {
    /// None.
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl From<View> for Memory {
    fn from(view: View) -> Self {
        Self::Shared(view)
    }
}

impl From<Buffers> for Memory {
    fn from(buffers: Buffers) -> Self {
        Self::Own(buffers)
    }
}

impl From<Buf> for Memory {
    fn from(buf: Buf) -> Self {
        Self::Own(Buffers::One(buf))
    }
}

impl From<Vec<Buf>> for Memory {
    fn from(bufs: Vec<Buf>) -> Self {
        Self::Own(Buffers::Many(bufs))
    }
}

impl From<Buf> for Buffers {
    fn from(buf: Buf) -> Self {
        Self::One(buf)
    }
}

impl From<Vec<Buf>> for Buffers {
    fn from(bufs: Vec<Buf>) -> Self {
        Self::Many(bufs)
    }
}
