//! Peers written in C: libraries of the system, each behind one file in `native/`, if `cargo xtask bench --peers` found it;
//! DPDK's behind dpb's own shim.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};

use dpb_core::{JobError, Material, OpSpec, OutputShape, ParameterValue, spec};

use crate::bound::Bound;
use crate::dpdk;
use crate::work::{Placed, Work};

/// A library, and what it is known as in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// In words.
    pub name: &'static str,
    /// The package to install for it.
    pub package: &'static str,
    /// The peers that it gives.
    pub peers: &'static [&'static str],
    /// The beginning of the name of the file that it is loaded from; empty if it is compiled into this program.
    pub file: &'static str,
    /// True if it keeps to what [`dpb_core::cpu_level`] hides by itself; others ask the CPU, and need [`crate::cpuid`].
    pub is_maskable: bool,
    version: fn() -> Option<String>,
    peer: SetUp,
}

/// Sets a peer up by its name; `None` if it does not do this.
type SetUp = for<'a> fn(&str, &OpSpec, &Work<'a>) -> Option<Box<dyn Bound + 'a>>;

/// The functions of a file in `native/`.
struct Code {
    version: unsafe extern "C" fn() -> *const c_char,
    peer: unsafe extern "C" fn(*const c_char, *const Spec, *const Task) -> *mut Peer,
}

/// A library's functions, if it was built in.
macro_rules! code {
    ($cfg:ident, $version:ident, $peer:ident) => {{
        #[cfg($cfg)]
        {
            unsafe extern "C" {
                fn $version() -> *const c_char;
                fn $peer(name: *const c_char, spec: *const Spec, task: *const Task) -> *mut Peer;
            }
            Some(Code {
                version: $version,
                peer: $peer,
            })
        }
        #[cfg(not($cfg))]
        None::<Code>
    }};
}

/// All libraries, found on this machine or not.
pub const LIBRARIES: &[Library] = &[
    Library {
        name: "DPDK",
        package: "libdpdk-dev",
        peers: &[
            "rte_cksum",
            "rte_net_crc",
            "rte_hash_crc",
            "rte_thash",
            "rte_softrss",
            "rte_lpm",
            "rte_fib",
            "rte_fib6",
            "rte_gso",
            "rte_ip_frag",
        ],
        file: "librte_eal.so",
        is_maskable: true,
        version: dpdk::version,
        peer: dpdk::peer,
    },
    Library {
        name: "glibc",
        package: "libc6-dev",
        peers: &["glibc", "glibc-again"],
        file: "libc.so",
        is_maskable: true,
        version: || Some(code!(peer_glibc, glibc_version, glibc_peer)?.version()),
        peer: |name, spec, work| {
            code!(peer_glibc, glibc_version, glibc_peer)?.peer(name, spec, work)
        },
    },
    Library {
        name: "intel-ipsec-mb",
        package: "libipsec-mb-dev",
        peers: &["ipsec-mb"],
        file: "libIPSec_MB.so",
        is_maskable: true,
        version: || Some(code!(peer_ipsec, ipsec_version, ipsec_peer)?.version()),
        peer: |name, spec, work| {
            code!(peer_ipsec, ipsec_version, ipsec_peer)?.peer(name, spec, work)
        },
    },
    Library {
        name: "isa-l",
        package: "libisal-dev",
        peers: &["isa-l"],
        file: "libisal.so",
        is_maskable: false,
        version: || Some(code!(peer_isal, isal_version, isal_peer)?.version()),
        peer: |name, spec, work| code!(peer_isal, isal_version, isal_peer)?.peer(name, spec, work),
    },
    Library {
        name: "OpenSSL",
        package: "libssl-dev",
        peers: &["openssl"],
        file: "libcrypto.so",
        is_maskable: true,
        version: || Some(code!(peer_openssl, openssl_version, openssl_peer)?.version()),
        peer: |name, spec, work| {
            code!(peer_openssl, openssl_version, openssl_peer)?.peer(name, spec, work)
        },
    },
    Library {
        name: "Snappy",
        package: "libsnappy-dev",
        peers: &["snappy"],
        file: "libsnappy.so",
        is_maskable: true,
        version: || Some(code!(peer_snappy, snappy_version, snappy_peer)?.version()),
        peer: |name, spec, work| {
            code!(peer_snappy, snappy_version, snappy_peer)?.peer(name, spec, work)
        },
    },
    Library {
        name: "VPP's checksum, rewritten",
        package: "gcc",
        peers: &["vpp-rewritten"],
        file: "",
        is_maskable: true,
        version: || Some(code!(peer_vpp, vpp_version, vpp_peer)?.version()),
        peer: |name, spec, work| code!(peer_vpp, vpp_version, vpp_peer)?.peer(name, spec, work),
    },
    Library {
        name: "the harness's own",
        package: "gcc",
        peers: &["null"],
        file: "",
        is_maskable: true,
        version: || Some(code!(peer_null, null_version, null_peer)?.version()),
        peer: |name, spec, work| code!(peer_null, null_version, null_peer)?.peer(name, spec, work),
    },
];

/// `struct spec` of `native/peer.h`.
#[repr(C)]
struct Spec {
    operator: *const c_char,
    parameters: *const c_char,
    material: *const u8,
    material_len: usize,
}

/// `struct task`.
#[repr(C)]
struct Task {
    src: *const u8,
    offsets: *const u32,
    stride: usize,
    dst: *mut u8,
    slot: usize,
    written: *mut u32,
    count: usize,
}

/// `struct peer`; the library has more behind it.
#[repr(C)]
struct Peer {
    run: unsafe extern "C" fn(*mut Self, *const Task),
    finish: Option<unsafe extern "C" fn(*mut Self, *const Task)>,
    free: unsafe extern "C" fn(*mut Self),
}

/// A peer that is set up for one batch.
struct Native<'a> {
    peer: *mut Peer,
    work: Work<'a>,
    dst: Placed,
    /// One for each item if lengths vary, else none.
    written: Vec<u32>,
}

/// The library that the peer called `name` belongs to.
pub fn library(name: &str) -> Option<&'static Library> {
    LIBRARIES
        .iter()
        .find(|library| library.peers.contains(&name))
}

impl Library {
    /// Its version, if it was built in.
    pub fn version(&self) -> Option<String> {
        (self.version)()
    }

    /// Its peer called `name` for `spec`, bound to `work`; `None` if the library is not here, or does not do this.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn peer<'a>(
        &self,
        name: &str,
        spec: &OpSpec,
        work: &Work<'a>,
    ) -> Option<Box<dyn Bound + 'a>> {
        (self.peer)(name, spec, work)
    }

    /// Version, the distribution's package that it was loaded from, and how the code around its calls was compiled.
    pub fn build(&self) -> Option<String> {
        let mut parts = vec![self.version()?];
        parts.extend(package_of(self.file));
        if self.name != "DPDK" {
            parts.push(format!("calls by {}", env!("DPB_PEERS_CC")));
        }
        Some(parts.join("; "))
    }
}

/// The distribution's package, with its version, of the loaded file whose name begins with `file`.
fn package_of(file: &str) -> Option<String> {
    if file.is_empty() {
        return None;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let loaded = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let path = loaded.map(std::path::Path::new).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(file)
    })?;
    if let Some(package) = unpacked_package_of(path) {
        return Some(package);
    }
    let said = |arguments: &[&str]| {
        let output = std::process::Command::new("dpkg-query")
            .args(arguments)
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Where /lib is a link to /usr/lib, dpkg may know the file by either.
    let path = path.to_string_lossy();
    let other = path
        .strip_prefix("/usr")
        .map_or(format!("/usr{path}"), str::to_owned);
    let owner = said(&["--search", &path]).or_else(|| said(&["--search", &other]))?;
    let package = owner.rsplit_once(": ")?.0;
    said(&["--show", "--showformat=${Package} ${Version}", package])
}

/// The same of a package that is unpacked somewhere and not installed: `DPB_PEERS_PACKAGES` names the list of such.
fn unpacked_package_of(path: &std::path::Path) -> Option<String> {
    let list = std::env::var_os("DPB_PEERS_PACKAGES")?;
    let list = std::fs::read_to_string(list).ok()?;
    // What a program maps is the file, and a link to it may have another name.
    let name = path.file_name()?.to_str()?;
    let lines = list.lines().filter_map(|line| line.split_once('\t'));
    let mut packages = lines.filter(|(file, _)| *file == name);
    packages.next().map(|(_, package)| package.to_owned())
}

impl Code {
    fn version(&self) -> String {
        // SAFETY: takes nothing, and gives a text that lives as long as the library.
        let version = unsafe { CStr::from_ptr((self.version)()) };
        version.to_string_lossy().into_owned()
    }

    fn peer<'a>(&self, name: &str, spec: &OpSpec, work: &Work<'a>) -> Option<Box<dyn Bound + 'a>> {
        let mut parameters = String::new();
        let mut material = None;
        for (key, value) in spec.parameters() {
            match value {
                ParameterValue::Number(number) => parameters += &format!("{key}={number},"),
                ParameterValue::Text(text) => parameters += &format!("{key}={text},"),
                ParameterValue::Material(bytes) => material = Some(bytes),
            }
        }
        let [name, operator, parameters] =
            [name, spec.name(), &parameters].map(|text| CString::new(text).expect("no zeros"));
        let of_sessions = spec.get::<spec::Sessions>().map(|sessions| {
            let keys: Vec<&[u8]> = sessions.keys.iter().map(Material::bytes).collect();
            Material::secret(keys.concat())
        });
        let material = of_sessions.or(material);
        let secret = material.as_ref().map_or(&[][..], Material::bytes);
        let spec = Spec {
            operator: operator.as_ptr(),
            parameters: parameters.as_ptr(),
            material: secret.as_ptr(),
            material_len: secret.len(),
        };
        assert_eq!(work.calls.len(), 1, "peers in C take a batch in one call");
        let items = work.batch.len();
        let mut native = Native {
            peer: std::ptr::null_mut(),
            work: *work,
            dst: work.slots(),
            written: match work.shape {
                OutputShape::Fixed(_) => Vec::new(),
                OutputShape::Variable => vec![0; items],
            },
        };
        let task = native.task();
        // SAFETY: the texts, the material and the task live until the call returns, and a peer keeps none of them.
        native.peer = unsafe { (self.peer)(name.as_ptr(), &raw const spec, &raw const task) };
        (!native.peer.is_null()).then(|| Box::new(native) as _)
    }
}

impl Native<'_> {
    /// The batch, as C has it. Made for each call, so that no pointer outlives a borrow.
    fn task(&mut self) -> Task {
        let batch = self.work.batch;
        let (src, offsets, stride) = match (batch.contiguous(), batch.offsets()) {
            (Some((items, len)), _) => (items, std::ptr::null(), len),
            (None, Some((src, offsets))) => (src, offsets.as_ptr(), 0),
            (None, None) => unreachable!("definitions' items lie one behind another"),
        };
        Task {
            src: src.as_ptr(),
            offsets,
            stride,
            dst: self.dst.as_mut_ptr(),
            slot: self.work.slot,
            written: match self.written.as_mut_slice() {
                [] => std::ptr::null_mut(),
                written => written.as_mut_ptr(),
            },
            count: batch.len(),
        }
    }
}

impl Bound for Native<'_> {
    fn run(&mut self) {
        let task = self.task();
        // SAFETY: a peer that its library made and nobody freed; the task has the items of a batch, which was checked, a slot for each,
        // and, where lengths vary, a place for each length.
        unsafe { ((*self.peer).run)(self.peer, &raw const task) }
    }

    fn spoil_outputs(&mut self, byte: u8) {
        self.dst.fill(byte);
    }

    fn outputs(&mut self) -> Vec<Result<&[u8], JobError>> {
        let task = self.task();
        // SAFETY: as in `run`.
        unsafe {
            if let Some(finish) = (*self.peer).finish {
                finish(self.peer, &raw const task);
            }
        }
        let slots = self.dst.chunks_exact(self.work.slot.max(1));
        if let OutputShape::Fixed(bytes) = self.work.shape {
            return slots.map(|slot| Ok(&slot[..bytes])).collect();
        }
        let output = |(slot, &written)| match written {
            u32::MAX => Err(JobError::Malformed),
            written => Ok(&(slot as &[u8])[..written as usize]),
        };
        slots.zip(&self.written).map(output).collect()
    }
}

impl Drop for Native<'_> {
    fn drop(&mut self) {
        if !self.peer.is_null() {
            // SAFETY: made by its library, and freed nowhere else.
            unsafe { ((*self.peer).free)(self.peer) }
        }
    }
}
