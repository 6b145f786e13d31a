//! What a backend's numbers rest on.

use std::fs;

/// Where a number comes from. Kinds never share a ratio, an axis or an average without saying so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "measure",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "snake_case")
)]
pub enum Evidence {
    /// This hardware.
    Measured,
    /// QEMU, soft-RoCE, a stand-in for an SDK.
    Emulated {
        /// The software that stands in for hardware.
        by: String,
    },
    /// Virtual time.
    Simulated {
        /// The model.
        model: String,
    },
    /// A paper's figure.
    Published {
        /// The paper, its section or figure.
        source: String,
    },
    /// What a model that was fitted to records says of a test that need not have run. It stands beside what was measured, and shares
    /// a ratio with it only where that ratio is the prediction's error.
    Predicted {
        /// The model.
        model: String,
        /// The ids of the records that it was fitted to.
        from: Vec<String>,
    },
}

impl Evidence {
    /// The kind alone, as records write it: `measured`, `emulated`, `simulated`, `published`, `predicted`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Emulated { .. } => "emulated",
            Self::Simulated { .. } => "simulated",
            Self::Published { .. } => "published",
            Self::Predicted { .. } => "predicted",
        }
    }

    /// `Measured`, unless this program runs under an emulator: then `Emulated`, whatever was timed.
    pub fn of_this_cpu() -> Self {
        Self::of_device(None)
    }

    /// `Emulated` if software stands in for the device, else the evidence of the CPU that drives it.
    pub fn of_device(stand_in: Option<String>) -> Self {
        match stand_in.or_else(emulator) {
            Some(by) => Self::Emulated { by },
            None => Self::Measured,
        }
    }
}

/// Who emulates this CPU. qemu-user hands the host's `/proc/cpuinfo` through, so an Arm program reads of an Intel
/// or AMD processor; newer ones are told apart by `DPB_QEMU`, which the test command sets.
pub(crate) fn emulator() -> Option<String> {
    // Which reads no files of this machine.
    if cfg!(miri) {
        return Some("Miri".to_owned());
    }
    if std::env::var_os("DPB_QEMU").is_some() {
        return Some("qemu-user".into());
    }
    let is_x86 = cfg!(any(target_arch = "x86_64", target_arch = "x86"));
    let reads_x86 = cpuinfo("vendor_id").is_some_and(|vendor| {
        ["GenuineIntel", "AuthenticAMD", "HygonGenuine"].contains(&vendor.as_str())
    });
    (!is_x86 && reads_x86).then(|| "qemu-user".into())
}

/// The value of the first line of `/proc/cpuinfo` whose key is `key`.
pub(crate) fn cpuinfo(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    };
    text.lines().find_map(value)
}
