//! The bytes at a process's addresses: out of the files that are mapped there, which stay when the process ends, else out of its memory.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A process's mappings, read again when an address is in none of them.
pub(super) struct Mapped {
    process: u32,
    mappings: Vec<Mapping>,
    files: HashMap<String, Option<File>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    /// Empty for memory without a file.
    path: String,
}

impl Mapped {
    pub(super) fn of(process: u32) -> Self {
        Self {
            process,
            mappings: Vec::new(),
            files: HashMap::new(),
        }
    }

    /// So many bytes from this address on; fewer if the mapping ends before.
    pub(super) fn up_to(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = match self.read_file(address, &mut bytes) {
            Some(read) => read,
            None => self.read_memory(address, &mut bytes)?,
        };
        bytes.truncate(read);
        Some(bytes)
    }

    /// So many bytes at this address.
    pub(super) fn bytes(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let bytes = self.up_to(address, length)?;
        (bytes.len() == length).then_some(bytes)
    }

    fn read_file(&mut self, address: u64, bytes: &mut [u8]) -> Option<usize> {
        if self.mapping(address).is_none() {
            let text = std::fs::read_to_string(format!("/proc/{}/maps", self.process));
            self.mappings = text.ok()?.lines().filter_map(parse).collect();
        }
        let mapping = self.mapping(address)?;
        let path = mapping.path.clone();
        let at = address - mapping.start + mapping.offset;
        let room = usize::try_from(mapping.end - address).unwrap_or(usize::MAX);
        let file = self
            .files
            .entry(path)
            .or_insert_with_key(|path| path.starts_with('/').then(|| File::open(path).ok())?);
        let room = room.min(bytes.len());
        file.as_ref()?.read_at(&mut bytes[..room], at).ok()
    }

    fn read_memory(&self, address: u64, bytes: &mut [u8]) -> Option<usize> {
        let memory = File::open(format!("/proc/{}/mem", self.process)).ok()?;
        memory.read_at(bytes, address).ok()
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let mut mappings = self.mappings.iter();
        mappings.find(|mapping| (mapping.start..mapping.end).contains(&address))
    }
}

/// A line of `/proc/PID/maps`.
fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    // Device and inode; a path may hold spaces, and is then not found.
    let path = words.nth(2).unwrap_or_default();
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line = "00401000-00402000 r-xp 00001000 fe:00 129 /tmp/t0";
        let mapping = parse(line).expect("a mapping");
        assert_eq!(
            mapping,
            Mapping {
                start: 0x40_1000,
                end: 0x40_2000,
                offset: 0x1000,
                path: "/tmp/t0".to_owned()
            }
        );
        let anonymous = parse("7ffc-7ffd rw-p 00000000 00:00 0").expect("a mapping");
        assert_eq!(anonymous.path, "");
        assert_eq!(parse("x"), None);
    }

    #[test]
    fn own_bytes_are_found() {
        static KNOWN: [u8; 4] = [0xde, 0xad, 0xbe, 0xef];
        let mut own = Mapped::of(std::process::id());
        let found = own.bytes(KNOWN.as_ptr() as u64, 4);
        assert_eq!(found.as_deref(), Some(&KNOWN[..]));
        assert_eq!(own.bytes(0, 4), None);
    }
}
