//! A file fetched whole.

use std::fs::File;
use std::io::{self, Write};

use dpb_link::LinkError;

use super::Client;
use super::claims;
use super::error::ClientError;
use crate::service::protocol::{self, DataSet, FileFormat, Reply, Request, Tag};

impl Client {
    /// Fetches a file whole into `file`, from its start; says how many bytes it has, `bytes_max` at most.
    ///
    /// # Errors
    /// [`ClientError`]; among them a file that is longer than `bytes_max`, or than the agent announced.
    pub fn fetch(
        &mut self,
        data: &DataSet,
        table: &str,
        format: FileFormat,
        bytes_max: u64,
        file: &mut File,
    ) -> Result<u64, ClientError> {
        let request = Request::Fetch {
            data: data.clone(),
            table: table.to_owned(),
            format,
        };
        let Reply::File { bytes } = self.ask(&request)? else {
            return Err(self.out_of_place());
        };
        if bytes > bytes_max {
            return Err(self.broke(LinkError::Malformed(
                "a file longer than its table's description says",
            )));
        }
        let written = self
            .file_frames(bytes, file)
            .map_err(|source| self.broke(source))?;
        match written {
            Ok(()) => Ok(bytes),
            Err(error) => {
                self.link.hang_up();
                Err(ClientError::Write(error))
            }
        }
    }

    /// Receives a file of so many bytes. The inner error is that of writing it.
    fn file_frames(&mut self, bytes: u64, file: &mut File) -> Result<io::Result<()>, LinkError> {
        let (mut due, mut pieces) = (bytes, 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            let header = self.link.receive_answer()?;
            match Tag::of(header.tag)? {
                Tag::File if header.len == 0 => {
                    return Err(LinkError::Malformed("an empty piece of a file"));
                }
                Tag::File => {
                    pieces += 1;
                    due = due
                        .checked_sub(header.len as u64)
                        .ok_or(LinkError::Malformed("more of a file than was announced"))?;
                    let mut left = header.len;
                    while left > 0 {
                        let piece = left.min(buffer.len());
                        self.link.receive_exact(&mut buffer[..piece])?;
                        if let Err(error) = file.write_all(&buffer[..piece]) {
                            return Ok(Err(error));
                        }
                        left -= piece;
                    }
                }
                Tag::End => {
                    let end = protocol::decode(&self.link.receive_body(header)?)?;
                    if due > 0 {
                        return Err(LinkError::Torn);
                    }
                    claims::fetched(&end, pieces, bytes)?;
                    return Ok(Ok(()));
                }
                _ => return Err(LinkError::OutOfPlace(header.tag)),
            }
        }
    }
}
