//! Files that a person names, read with a bound.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The content of `path`, which may be a pipe, if it has at most `bytes_max` bytes: an endless one, such as `/dev/zero`,
/// ends there and not with the machine's memory.
///
/// # Errors
/// What the system says; [`io::ErrorKind::FileTooLarge`] beyond the bound.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    if file.metadata()?.len() <= bytes_max {
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= bytes_max {
            return Ok(bytes);
        }
    }
    let what = format!("it has more than the {bytes_max} bytes that are read at most");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(miri, ignore = "it reads files")]
    #[test]
    fn nothing_is_read_beyond_the_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, [7; 5000]).expect("written");
        assert_eq!(read(&file, 5000).expect("it fits"), [7; 5000]);
        for (path, bytes_max) in [(file.as_path(), 4999), (Path::new("/dev/zero"), 1 << 20)] {
            let error = read(path, bytes_max).expect_err("too long");
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        }
        assert!(read(Path::new("/dev/null"), 0).is_ok_and(|bytes| bytes.is_empty()));
        assert!(read(Path::new("."), 1).is_err());
    }
}
