//! One request at a time, by `pread(2)` and `pwrite(2)`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{Buffers, Done, Lane, Request};

pub(super) struct OneByOne {
    file: File,
    buffers: Buffers,
    next: Option<Request>,
}

impl OneByOne {
    pub(super) fn new(file: File, buffers: Buffers) -> Self {
        Self {
            file,
            buffers,
            next: None,
        }
    }
}

impl Lane for OneByOne {
    fn push(&mut self, request: Request) {
        assert!(self.next.is_none(), "one request at a time");
        self.next = Some(request);
    }

    fn submit(&mut self, done: &mut Vec<Done>) -> io::Result<()> {
        let Some(request) = self.next.take() else {
            return Ok(());
        };
        let buffer = self.buffers.get(request.buffer);
        let result = match request.is_write {
            true => self.file.write_at(buffer, request.offset),
            false => self.file.read_at(buffer, request.offset),
        };
        done.push(Done {
            slot: request.slot,
            result,
        });
        Ok(())
    }

    fn buffer(&mut self, number: usize) -> &mut [u8] {
        self.buffers.get(number)
    }
}
