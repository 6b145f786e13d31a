//! A peer by hand: it says and writes what it is told to, by reads and writes of the memory's file.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Words as bytes, and so many zeros behind them.
pub(crate) fn message(words: &[u64], zeros: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(bytes.len() + zeros, 0);
    bytes
}

/// Bytes of an entry of a [`RawPeer`]'s rings.
pub(crate) const ENTRY_BYTES: u64 = 256;
/// Entries of each.
pub(crate) const ENTRIES: u64 = 8;
/// Bytes of its memory when it listens: the rings, each in a page of its own, and a page that nobody needs.
pub(crate) const MEMORY_BYTES: u64 = 3 * 4096;

/// The words of its listener's intro.
pub(crate) fn listener_words(flags: u64) -> [u64; 10] {
    [
        1,
        flags,
        4096,
        ENTRY_BYTES,
        ENTRIES,
        0,
        ENTRY_BYTES,
        ENTRIES,
        1,
        80,
    ]
}

/// New memory, which takes a seal if `flags` say so.
pub(crate) fn memory(bytes: u64, flags: MemfdFlags) -> File {
    let file = File::from(memfd_create("raw-peer", flags | MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    file
}

/// Sends bytes with files.
pub(crate) fn send_with(socket: &UnixStream, bytes: &[u8], files: &[&File]) {
    let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !files.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    }
    let flags = SendFlags::NOSIGNAL;
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags).unwrap();
    assert_eq!(sent, bytes.len());
}

/// Receives a message and its files.
pub(crate) fn receive_with(socket: &UnixStream) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut bytes = vec![0; 2048];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    bytes.truncate(received.bytes);
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    (bytes, files.flatten().collect())
}

/// A peer by hand, after its handshake.
pub(crate) struct RawPeer {
    pub(crate) socket: UnixStream,
    pub(crate) memory: File,
    out_offset: u64,
    in_offset: u64,
    entry_bytes: u64,
    entries: u64,
}

impl RawPeer {
    /// Connects to a listener, with those flags.
    pub(crate) fn connect(path: &Path, flags: u64) -> Self {
        let socket = UnixStream::connect(path).unwrap();
        send_with(&socket, &message(&[1, flags, 1, 32], 4), &[]);
        let (intro, mut files) = receive_with(&socket);
        assert_eq!((intro.len(), files.len()), (84, 1));
        let word = |at: usize| u64::from_le_bytes(intro[at * 8..][..8].try_into().unwrap());
        Self {
            socket,
            memory: files.remove(0).into(),
            out_offset: word(5),
            in_offset: word(2),
            entry_bytes: word(6),
            entries: word(7),
        }
    }

    /// Waits for a connecter, with those flags and that memory.
    pub(crate) fn accept(listener: &UnixListener, flags: u64, memory: File) -> Self {
        let (socket, _) = listener.accept().unwrap();
        send_with(&socket, &message(&listener_words(flags), 4), &[&memory]);
        assert_eq!(receive_with(&socket).0.len(), 36);
        Self {
            socket,
            memory,
            out_offset: 4096,
            in_offset: 0,
            entry_bytes: ENTRY_BYTES,
            entries: ENTRIES,
        }
    }

    /// Writes the message of that number: header fields, frame, then the byte of owner and type.
    pub(crate) fn write(&self, number: u64, own_type: u8, timestamp: u64, len: u16, frame: &[u8]) {
        let slot = self.out_offset + number % self.entries * self.entry_bytes;
        let write = |at, bytes: &[u8]| self.memory.write_all_at(bytes, slot + at).unwrap();
        write(0, &len.to_le_bytes());
        write(48, &timestamp.to_le_bytes());
        write(64, frame);
        write(63, &[own_type]);
    }

    /// The slot of the message of that number, as this side receives it.
    pub(crate) fn read(&self, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.entry_bytes as usize];
        let slot = self.in_offset + number % self.entries * self.entry_bytes;
        self.memory.read_exact_at(&mut bytes, slot).unwrap();
        bytes
    }

    /// The byte of owner and type of a slot in which this side sends.
    pub(crate) fn own_type_sent(&self, number: u64) -> u8 {
        let slot = self.out_offset + number % self.entries * self.entry_bytes;
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, slot + 63).unwrap();
        byte[0]
    }

    /// Gives the slot of that number back.
    pub(crate) fn give_back(&self, number: u64) {
        let slot = self.in_offset + number % self.entries * self.entry_bytes;
        self.memory.write_all_at(&[0x40], slot + 63).unwrap();
    }
}
