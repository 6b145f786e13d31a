//! Boots a kernel with an image, and waits for the results.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
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
    limit: Duration,
) -> Result<String> {
    fs::create_dir_all(folder)?;
    let at = |name: &str| folder.join(name);
    let archive = image.archive();
    fs::write(at("initrd"), &archive)?;
    // The kernel unpacks the archive into memory, of which it lets files take half, before it lets go of the archive.
    let memory_mib = 1024.max(512 + 4 * (archive.len() >> 20));
    let mut qemu = Command::new(QEMU);
    // Without KVM: nested machines hang with it, and what is tested here does not need it.
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"])
        .arg("-m")
        .arg(memory_mib.to_string())
        .args(["-display", "none", "-no-reboot", "-nic", "none"])
        .arg("-kernel")
        .arg(&kernel.image)
        .args([
            "-initrd",
            "initrd",
            "-append",
            "console=ttyS0 quiet panic=-1",
        ])
        .args(["-serial", "file:console", "-serial", "file:results"])
        .current_dir(folder)
        .stdin(Stdio::null());
    let mut child = shell::start(&mut qemu)?;
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            bail!(
                "the guest took longer than {limit:?}; see {}",
                at("console").display()
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    if !status.success() {
        bail!("{QEMU} ended with {status}");
    }
    let console = fs::read(at("console")).context("the guest's console")?;
    let cut_short = b"Initramfs unpacking failed";
    if console
        .windows(cut_short.len())
        .any(|words| words == cut_short)
    {
        bail!(
            "the image of {} MiB did not fit into the guest's memory of {memory_mib} MiB",
            archive.len() >> 20
        );
    }
    fs::read_to_string(at("results")).context("the guest's results")
}
