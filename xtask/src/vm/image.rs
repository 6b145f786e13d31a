//! The guest's file system: an archive that the kernel unpacks into memory (cpio, the "new" format of the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Files by their path, without the first slash; folders come before what is in them.
#[derive(Default)]
pub(super) struct Image {
    entries: BTreeMap<String, Entry>,
}

struct Entry {
    mode: u32,
    data: Vec<u8>,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl Image {
    /// An empty folder.
    pub(super) fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let data = Vec::new();
            let folder = Entry { mode: FOLDER, data };
            self.entries.entry(path[..end].to_owned()).or_insert(folder);
        }
    }

    /// A file that may be run.
    pub(super) fn file(&mut self, path: &str, data: impl Into<Vec<u8>>) {
        let path = path.trim_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        let data = data.into();
        self.entries.insert(
            path.to_owned(),
            Entry {
                mode: PROGRAM,
                data,
            },
        );
    }

    /// A file of this machine's, elsewhere.
    pub(super) fn copy(&mut self, from: &Path, to: &str) -> Result<()> {
        let data =
            std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.file(to, data);
        Ok(())
    }

    /// A folder of this machine's and all that is in it, elsewhere.
    pub(super) fn tree(&mut self, from: &Path, to: &str) -> Result<()> {
        self.folder(to);
        let entries =
            std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let to = format!("{to}/{name}");
            match path.is_dir() {
                true => self.tree(&path, &to)?,
                false => self.copy(&path, &to)?,
            }
        }
        Ok(())
    }

    /// A program or library of this machine's, elsewhere, and the libraries that it names, where they are.
    pub(super) fn program(&mut self, from: &Path, to: &str) -> Result<()> {
        self.copy(from, to)?;
        // ldd fails for what is linked statically, and names nothing.
        let ldd = shell::output(Command::new("ldd").arg(from)).unwrap_or_default();
        for library in libraries(&ldd) {
            self.copy(Path::new(library), library)?;
        }
        Ok(())
    }

    /// The archive.
    pub(super) fn archive(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, (path, entry)) in self.entries.iter().enumerate() {
            append(&mut bytes, number + 1, path, entry);
        }
        let end = Entry {
            mode: 0,
            data: Vec::new(),
        };
        append(&mut bytes, 0, "TRAILER!!!", &end);
        bytes
    }
}

/// Header, name and data, each filled up to four bytes.
fn append(bytes: &mut Vec<u8>, inode: usize, path: &str, entry: &Entry) {
    let fields = [
        inode,
        entry.mode as usize,
        0,                // user
        0,                // group
        1,                // links
        0,                // time
        entry.data.len(), // length
        0,                // device, major
        0,                // device, minor
        0,                // its own device, major
        0,                // its own device, minor
        path.len() + 1,   // length of the name
        0,                // checksum: none
    ];
    let header: String = fields.iter().map(|field| format!("{field:08x}")).collect();
    bytes.extend(format!("070701{header}{path}\0").bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(&entry.data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The files that ldd names.
fn libraries(ldd: &str) -> impl Iterator<Item = &str> {
    ldd.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_that_ldd_names() {
        let ldd = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(libraries(ldd).collect::<Vec<_>>(), expected);
        assert_eq!(libraries("\tstatically linked\n").count(), 0);
    }

    /// cpio itself, where it is, reads what is written here.
    #[test]
    fn cpio_reads_the_archive() {
        if shell::find("cpio").is_none() {
            println!("skipped: no cpio; apt-get install cpio");
            return;
        }
        let mut image = Image::default();
        image.file("/usr/bin/tool", "odd");
        image.file("/init", "#!/bin/sh\n");
        image.folder("/proc");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("archive");
        std::fs::write(&file, image.archive()).expect("written");
        let mut cpio = Command::new("cpio");
        cpio.args(["--extract", "--quiet", "--make-directories", "-F"])
            .arg(&file);
        shell::output(cpio.current_dir(&folder)).expect("a whole archive");
        let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).expect("there");
        assert_eq!(
            (read("usr/bin/tool"), read("init")),
            ("odd".into(), "#!/bin/sh\n".into())
        );
        assert!(folder.path().join("proc").is_dir());
    }
}
