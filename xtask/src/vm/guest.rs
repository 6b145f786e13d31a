//! Boots a kernel with an image, and waits for the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::image::Image;
use super::kernel::Kernel;
use crate::shell;

/// The emulator.
pub(super) const QEMU: &str = "qemu-system-x86_64";

/// Runs it in `folder`, which keeps the archive, the console and the results; what the guest wrote to its second serial port.
pub(super) fn run(
    kernel: &Kernel,
    image: &Image,
    folder: &Path,
    silence_max: Duration,
) -> Result<String> {
    Guest::start(kernel, image, folder, "", &machine())?.finish(silence_max)
}

/// The machine of a guest that runs as fast as it can. Without KVM: nested machines hang with it, and what is tested here does not need it.
pub(super) fn machine() -> Vec<String> {
    let flags = ["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"];
    flags.map(str::to_owned).into()
}

/// A guest that runs; killed when dropped.
pub(super) struct Guest {
    child: Child,
    folder: PathBuf,
    memory_mib: usize,
    archive_mib: usize,
}

impl Guest {
    /// Boots it, with `words` more for its kernel's command line, and these flags of QEMU, which name the machine.
    pub(super) fn start(
        kernel: &Kernel,
        image: &Image,
        folder: &Path,
        words: &str,
        more: &[String],
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let archive = image.archive();
        fs::write(folder.join("initrd"), &archive)?;
        // The kernel unpacks the archive into memory, of which it lets files take half, before it lets go of the archive.
        let archive_mib = archive.len() >> 20;
        let memory_mib = 1024.max(512 + 4 * archive_mib);
        let mut qemu = Command::new(QEMU);
        qemu.arg("-m")
            .arg(memory_mib.to_string())
            .args(["-display", "none", "-no-reboot", "-nic", "none"])
            .arg("-kernel")
            .arg(&kernel.image)
            .args(["-initrd", "initrd", "-append"])
            .arg(format!("console=ttyS0 quiet panic=-1 {words}"))
            .args(["-serial", "file:console", "-serial", "file:results"])
            .args(more)
            .current_dir(folder)
            .stdin(Stdio::null());
        Ok(Self {
            child: shell::start(&mut qemu)?,
            folder: folder.to_owned(),
            memory_mib,
            archive_mib,
        })
    }

    /// Waits for its end, as long as it says something each `silence_max`: machines differ in how fast they emulate, and have other
    /// work beside. Returns what it wrote to its second serial port.
    pub(super) fn finish(mut self, silence_max: Duration) -> Result<String> {
        let at = |name: &str| self.folder.join(name);
        let said = || {
            let length = |name| fs::metadata(at(name)).map_or(0, |file| file.len());
            length("console") + length("results")
        };
        let (mut heard, mut since) = (said(), Instant::now());
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            let says = said();
            if says != heard {
                (heard, since) = (says, Instant::now());
            }
            if since.elapsed() > silence_max {
                bail!(
                    "the guest has said nothing for {silence_max:?}; the end of its console:\n{}",
                    last_lines(&fs::read(at("console")).unwrap_or_default())
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        if !status.success() {
            bail!("{QEMU} ended with {status}");
        }
        let console = fs::read(at("console")).context("the guest's console")?;
        let cut_short = b"Initramfs unpacking failed";
        let mut words = console.windows(cut_short.len());
        if words.any(|words| words == cut_short) {
            bail!(
                "the image of {} MiB did not fit into the guest's memory of {} MiB",
                self.archive_mib,
                self.memory_mib
            );
        }
        fs::read_to_string(at("results")).context("the guest's results")
    }
}

/// The last lines of a console, for a message.
pub(super) fn last_lines(console: &[u8]) -> String {
    let text = String::from_utf8_lossy(console);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

impl Drop for Guest {
    fn drop(&mut self) {
        // One that has ended by itself is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
