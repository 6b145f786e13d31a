//! Peers written in C: libraries of the system, each behind one file in `native/`, if `cargo xtask bench --peers` found it;
//! DPDK's behind dpb's own shim.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;

use dpb_core::{Batch, Buf, JobError, Material, OpSpec, OutputShape, ParameterValue};

use crate::dpdk;

/// A library, and what it is known as in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// In words.
    pub name: &'static str,
    /// What to install for it.
    pub package: &'static str,
    /// The peers that it gives.
    pub peers: &'static [&'static str],
    version: fn() -> Option<String>,
    peer: SetUp,
}

/// Sets a peer up by its name; `None` if it does not do this.
type SetUp = for<'a> fn(&str, &OpSpec, Batch<'a>, usize) -> Option<Box<dyn Bound + 'a>>;

/// What is behind a file in `native/`.
struct Code {
    version: unsafe extern "C" fn() -> *const c_char,
    peer: unsafe extern "C" fn(*const c_char, *const Task) -> *mut Peer,
}

/// A peer that is set up for one batch, and has its outputs.
pub trait Bound {
    /// Does the batch once.
    fn run(&mut self);
    /// Overwrites all outputs with `byte`.
    fn spoil_outputs(&mut self, byte: u8);
    /// What came of each item in the last run.
    ///
    /// # Panics
    /// If the library wrote beyond a slot, or not as many bytes as `shape` says.
    fn outputs(&mut self, shape: OutputShape) -> Vec<Result<&[u8], JobError>>;
}

/// A library's functions, if it was built in.
macro_rules! code {
    ($cfg:ident, $version:ident, $peer:ident) => {{
        #[cfg($cfg)]
        {
            unsafe extern "C" {
                fn $version() -> *const c_char;
                fn $peer(name: *const c_char, task: *const Task) -> *mut Peer;
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

/// All of them, here or not.
pub const LIBRARIES: &[Library] = &[
    Library {
        name: "DPDK",
        package: "libdpdk-dev",
        peers: &[
            "rte_cksum",
            "rte_net_crc",
            "rte_hash_crc",
            "rte_thash",
            "rte_lpm",
            "rte_fib",
            "rte_fib6",
            "rte_gso",
            "rte_ip_frag",
        ],
        version: dpdk::version,
        peer: dpdk::peer,
    },
    Library {
        name: "glibc",
        package: "libc6-dev",
        peers: &["glibc"],
        version: || Some(code!(peer_glibc, glibc_version, glibc_peer)?.version()),
        peer: |name, spec, batch, slot| {
            code!(peer_glibc, glibc_version, glibc_peer)?.peer(name, spec, batch, slot)
        },
    },
    Library {
        name: "intel-ipsec-mb",
        package: "libipsec-mb-dev",
        peers: &["ipsec-mb"],
        version: || Some(code!(peer_ipsec, ipsec_version, ipsec_peer)?.version()),
        peer: |name, spec, batch, slot| {
            code!(peer_ipsec, ipsec_version, ipsec_peer)?.peer(name, spec, batch, slot)
        },
    },
    Library {
        name: "isa-l",
        package: "libisal-dev",
        peers: &["isa-l"],
        version: || Some(code!(peer_isal, isal_version, isal_peer)?.version()),
        peer: |name, spec, batch, slot| {
            code!(peer_isal, isal_version, isal_peer)?.peer(name, spec, batch, slot)
        },
    },
    Library {
        name: "OpenSSL",
        package: "libssl-dev",
        peers: &["openssl"],
        version: || Some(code!(peer_openssl, openssl_version, openssl_peer)?.version()),
        peer: |name, spec, batch, slot| {
            code!(peer_openssl, openssl_version, openssl_peer)?.peer(name, spec, batch, slot)
        },
    },
    Library {
        name: "Snappy",
        package: "libsnappy-dev",
        peers: &["snappy"],
        version: || Some(code!(peer_snappy, snappy_version, snappy_peer)?.version()),
        peer: |name, spec, batch, slot| {
            code!(peer_snappy, snappy_version, snappy_peer)?.peer(name, spec, batch, slot)
        },
    },
    Library {
        name: "VPP's checksum",
        package: "gcc",
        peers: &["vpp"],
        version: || Some(code!(peer_vpp, vpp_version, vpp_peer)?.version()),
        peer: |name, spec, batch, slot| {
            code!(peer_vpp, vpp_version, vpp_peer)?.peer(name, spec, batch, slot)
        },
    },
];

/// `struct item` of `native/peer.h`.
#[repr(C)]
struct Item {
    src: *const u8,
    dst: *mut u8,
    len: u32,
    room: u32,
    written: u32,
}

/// `struct task`.
#[repr(C)]
struct Task {
    operator: *const c_char,
    parameters: *const c_char,
    material: *const u8,
    material_len: usize,
    items: *mut Item,
    count: usize,
}

/// `struct peer`; the library has more behind it.
#[repr(C)]
struct Peer {
    run: unsafe extern "C" fn(*mut Self),
    finish: Option<unsafe extern "C" fn(*mut Self)>,
    free: unsafe extern "C" fn(*mut Self),
    task: *const Task,
}

/// A peer that is set up for one batch, which it points at; and at the rest here.
struct Native<'a> {
    peer: *mut Peer,
    items: Vec<Item>,
    dst: Buf,
    _task: Box<Task>,
    _texts: [CString; 2],
    _material: Option<Material>,
    _input: PhantomData<&'a [u8]>,
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

    /// Its peer called `name` for `spec` on `batch`, with slots of `slot` bytes; `None` if the library is not here, or does not
    /// do this.
    ///
    /// # Panics
    /// If there is no memory, or items of 4 GiB.
    pub fn peer<'a>(
        &self,
        name: &str,
        spec: &OpSpec,
        batch: Batch<'a>,
        slot: usize,
    ) -> Option<Box<dyn Bound + 'a>> {
        (self.peer)(name, spec, batch, slot)
    }
}

impl Code {
    fn version(&self) -> String {
        // SAFETY: takes nothing, and gives a text that lives as long as the library.
        let version = unsafe { CStr::from_ptr((self.version)()) };
        version.to_string_lossy().into_owned()
    }

    fn peer<'a>(
        &self,
        name: &str,
        spec: &OpSpec,
        batch: Batch<'a>,
        slot: usize,
    ) -> Option<Box<dyn Bound + 'a>> {
        let mut parameters = String::new();
        let mut material = None;
        for (key, value) in spec.parameters() {
            match value {
                ParameterValue::Number(number) => parameters += &format!("{key}={number},"),
                ParameterValue::Text(text) => parameters += &format!("{key}={text},"),
                ParameterValue::Material(bytes) => material = Some(bytes),
            }
        }
        let texts = [spec.name(), &parameters].map(|text| CString::new(text).expect("no zeros"));
        let mut dst = Buf::zeroed(slot * batch.len()).expect("memory");
        let mut items: Vec<Item> = (0..batch.len())
            .map(|i| Item {
                src: batch.item(i).as_ptr(),
                dst: dst[i * slot..].as_mut_ptr(),
                len: batch.item(i).len().try_into().expect("below 4 GiB"),
                room: slot.try_into().expect("below 4 GiB"),
                written: 0,
            })
            .collect();
        let secret = material
            .as_ref()
            .map_or(&[][..], |material| material.bytes());
        let task = Box::new(Task {
            operator: texts[0].as_ptr(),
            parameters: texts[1].as_ptr(),
            material: secret.as_ptr(),
            material_len: secret.len(),
            items: items.as_mut_ptr(),
            count: items.len(),
        });
        let name = CString::new(name).expect("no zeros");
        // SAFETY: the task and all that it points at stay where they are as long as the `Native` that is returned: its own
        // allocations, the material's, and the batch, which it borrows.
        let peer = unsafe { (self.peer)(name.as_ptr(), &raw const *task) };
        if peer.is_null() {
            return None;
        }
        Some(Box::new(Native {
            peer,
            items,
            dst,
            _task: task,
            _texts: texts,
            _material: material,
            _input: PhantomData,
        }))
    }
}

impl Bound for Native<'_> {
    fn run(&mut self) {
        // SAFETY: a peer that its library made and nobody freed; what it points at is borrowed or owned here.
        unsafe { ((*self.peer).run)(self.peer) }
    }

    fn spoil_outputs(&mut self, byte: u8) {
        self.dst.fill(byte);
    }

    fn outputs(&mut self, shape: OutputShape) -> Vec<Result<&[u8], JobError>> {
        // SAFETY: as in `run`.
        unsafe {
            if let Some(finish) = (*self.peer).finish {
                finish(self.peer);
            }
        }
        let slot = self.dst.len() / self.items.len().max(1);
        let output = |(i, item): (usize, &Item)| {
            if item.written == u32::MAX {
                return Err(JobError::Malformed);
            }
            let written = item.written as usize;
            assert!(written <= slot, "within its slot");
            if let OutputShape::Fixed(bytes) = shape {
                assert_eq!(written, bytes, "as long as it must be");
            }
            Ok(&self.dst[i * slot..][..written])
        };
        self.items.iter().enumerate().map(output).collect()
    }
}

impl Drop for Native<'_> {
    fn drop(&mut self) {
        // SAFETY: made by its library, and freed nowhere else.
        unsafe { ((*self.peer).free)(self.peer) }
    }
}
