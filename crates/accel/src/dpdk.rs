//! DPDK: crypto, compression and network devices, of hardware and of software.
//!
//! | file | what |
//! |---|---|
//! | `native/dpdk/` | the shim: C over DPDK's inlines, one table of functions |
//! | `sys.rs` | the table's mirror, and how the shim is found |
//! | `raw.rs`, `raw/` | EAL, memory, devices, sessions, queue pairs; jobs while a device has them |
//! | `crypto.rs`, `compress.rs` | the backends |
//! | `libraries.rs` | DPDK's own libraries as backends: checksums, hashes, longest prefix match |
//! | `environment.rs` | what EAL is started with on this machine |
//!
//! **One environment a process.** EAL starts when the first device is asked for, on a thread of its own, and stays. Without
//! huge pages it runs with `--no-huge --no-pci`: no rights are needed, and there are devices of software alone, which
//! are added by name (`crypto_openssl`). With huge pages, hardware that is bound to DPDK's drivers is found too, and
//! has the name that DPDK gives it. The variable `DPB_DPDK_EAL_ARGS` adds arguments.
//!
//! **Threads.** Queues are polled on the caller's threads, which EAL does not know. Nothing there needs it to: each queue
//! has its operations and mbufs to itself, and pools have no caches.
//!
//! **Sessions.** An operator with a key for each session has a session of the device for each, and each operation has its own. They are
//! made when the operator is prepared, and when its control changes them. Of OpenSSL's driver, which keeps state in sessions, one queue at a
//! time can be open for such an operator.

mod compress;
mod crypto;
mod environment;
pub mod libraries;
mod raw;
mod sys;

use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::{
    Backend, Family, Finding, Listed, OpSpec, OpenError, PacketPort, Unsupported, match_spec, spec,
};

use compress::CompressBackend;
use crypto::CryptoBackend;
use libraries::{Instance, LibrariesBackend};
use raw::{CompressDevice, CryptoDevice, Eal, Port};

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Dpdk;

/// A device of software that can be added where its driver is installed.
struct Software {
    name: &'static str,
    is_crypto: bool,
    arguments: &'static str,
    what: &'static str,
    /// Debian's, without the number of DPDK's ABI.
    package: &'static str,
}

const SOFTWARE: [Software; 5] = [
    Software {
        name: "crypto_aesni_mb",
        is_crypto: true,
        arguments: QUEUE_PAIRS,
        what: "Intel's multi-buffer library on the caller's core",
        package: "librte-crypto-ipsec-mb",
    },
    Software {
        name: "crypto_aesni_gcm",
        is_crypto: true,
        arguments: QUEUE_PAIRS,
        what: "the same library, AES-GCM alone",
        package: "librte-crypto-ipsec-mb",
    },
    Software {
        name: "crypto_openssl",
        is_crypto: true,
        arguments: QUEUE_PAIRS,
        what: "OpenSSL on the caller's core",
        package: "librte-crypto-openssl",
    },
    Software {
        name: "compress_isal",
        is_crypto: false,
        arguments: "",
        what: "ISA-L on the caller's core",
        package: "librte-compress-isal",
    },
    Software {
        name: "compress_zlib",
        is_crypto: false,
        arguments: "",
        what: "zlib on the caller's core",
        package: "librte-compress-zlib",
    },
];

/// Queue pairs for a queue on each core; drivers of software have eight otherwise.
const QUEUE_PAIRS: &str = "max_nb_queue_pairs=64";

/// The remedy where the shim is missing.
const REMEDY: &str = "install DPDK 22.11 or later with its headers (Debian: libdpdk-dev) and build again; or name a shim \
                      in DPB_DPDK_SHIM";

/// A device, once it was asked for. It stays: EAL does, too.
#[derive(Clone)]
enum Device {
    Crypto(Arc<CryptoDevice>),
    Compress(Arc<CompressDevice>),
}

static DEVICES: Mutex<Vec<Device>> = Mutex::new(Vec::new());

impl Device {
    /// The one of this name; adds it if it is of software and not there yet.
    fn find(eal: &'static Eal, name: &str) -> Result<Self, Unsupported> {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.iter().find(|device| device.name() == name) {
            return Ok(device.clone());
        }
        let is_crypto = CryptoDevice::names(eal).iter().any(|known| known == name);
        let is_compress = CompressDevice::names(eal).iter().any(|known| known == name);
        let software = SOFTWARE.iter().find(|software| software.name == name);
        let is_crypto = match software {
            Some(software) if !is_crypto && !is_compress => {
                software.add(eal)?;
                software.is_crypto
            }
            None if !is_crypto && !is_compress => {
                let mut known: Vec<String> = instances(eal);
                known.extend(libraries::INSTANCES.map(|instance| instance.name.to_owned()));
                let known = known.join(", ");
                let reason = format!("no backend `dpdk/{name}`; there are: {known}");
                return Err(Unsupported { reason });
            }
            _ => is_crypto,
        };
        let device = match is_crypto {
            true => Self::Crypto(Arc::new(CryptoDevice::find(eal, name)?)),
            false => Self::Compress(Arc::new(CompressDevice::find(eal, name)?)),
        };
        devices.push(device.clone());
        Ok(device)
    }

    fn name(&self) -> &str {
        match self {
            Self::Crypto(device) => device.name(),
            Self::Compress(device) => device.name(),
        }
    }

    fn driver(&self) -> &str {
        match self {
            Self::Crypto(device) => device.driver(),
            Self::Compress(device) => device.driver(),
        }
    }

    fn backend(&self) -> Result<Box<dyn Backend>, Unsupported> {
        Ok(match self {
            Self::Crypto(device) => Box::new(CryptoBackend::new(device.clone())?),
            Self::Compress(device) => Box::new(CompressBackend::new(device.clone())?),
        })
    }

    /// A spec of each operator that such a device may have.
    fn samples(&self) -> Vec<OpSpec> {
        match self {
            Self::Crypto(_) => crypto::samples(),
            Self::Compress(_) => compress::samples(),
        }
    }
}

impl Software {
    fn add(&self, eal: &Eal) -> Result<(), Unsupported> {
        eal.add_device(self.name, self.arguments)
            .map_err(|why| Unsupported {
                reason: format!("{why}; its driver is in Debian's {}-*", self.package),
            })
    }
}

/// Hardware that was found, and all of software.
fn instances(eal: &Eal) -> Vec<String> {
    let software = SOFTWARE.iter().map(|software| software.name.to_owned());
    let mut names: Vec<String> = software.collect();
    for name in CryptoDevice::names(eal)
        .into_iter()
        .chain(CompressDevice::names(eal))
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Dpdk {
    /// A network device, as a port with one queue each way: by the name of one that was found, or by what is added for
    /// it, a driver with a number and the driver's own arguments: `net_ring0`,
    /// `net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap`.
    ///
    /// # Errors
    /// No driver takes it, it is open already, or it does not start.
    pub fn port(&self, device: &str) -> Result<Box<dyn PacketPort>, Unsupported> {
        let eal = Eal::start()?;
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        if !Port::names(eal).iter().any(|(known, _)| known == name) {
            eal.add_device(name, arguments)?;
        }
        Ok(Box::new(Port::open(eal, name)?))
    }
}

impl Family for Dpdk {
    fn name(&self) -> &'static str {
        "dpdk"
    }

    /// None: EAL takes half a second and half a gibibyte.
    fn all_for(&self, _: &OpSpec) -> Vec<String> {
        Vec::new()
    }

    fn backends(&self) -> Vec<Listed> {
        let eal = Eal::start();
        let names = match eal {
            Ok(eal) => instances(eal),
            Err(_) => SOFTWARE
                .iter()
                .map(|software| software.name.to_owned())
                .collect(),
        };
        let devices = names.into_iter().map(|name| listed(eal.clone(), name));
        devices
            .chain(libraries::INSTANCES.map(library_listed))
            .collect()
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        if let Some(library) = libraries::INSTANCES
            .iter()
            .find(|library| library.name == instance)
        {
            return Ok(Box::new(LibrariesBackend::new(*library)?));
        }
        Ok(Device::find(Eal::start()?, instance)?.backend()?)
    }

    fn findings(&self) -> Vec<Finding> {
        let eal = match Eal::start() {
            Ok(eal) => eal,
            Err(why) => return vec![Finding::missing("library", why.to_string(), REMEDY)],
        };
        let library = format!("{}, through {}", eal.version(), eal.shim_origin());
        let mut findings = vec![Finding::found("library", library), environment_found(eal)];
        for name in instances(eal) {
            findings.extend(device_found(eal, &name));
        }
        findings.extend(libraries::INSTANCES.iter().flat_map(library_found));
        let ports = Port::names(eal).into_iter();
        findings.extend(ports.map(|(name, driver)| {
            Finding::found(
                format!("device {name}"),
                format!("driver {driver}; network"),
            )
        }));
        findings
    }
}

fn listed(eal: Result<&'static Eal, Unsupported>, instance: String) -> Listed {
    let software = SOFTWARE.iter().find(|software| software.name == instance);
    let found = eal
        .and_then(|eal| Device::find(eal, &instance))
        .and_then(|device| {
            let offered = offered(device.samples(), &*device.backend()?);
            Ok((device.driver().to_owned(), offered))
        });
    let what = software.map_or("hardware", |software| software.what);
    match found {
        Ok((driver, operators)) => Listed {
            instance,
            is_here: true,
            summary: operators.join(", "),
            details: format!("{what}; driver {driver}"),
        },
        Err(why) => Listed {
            instance,
            is_here: false,
            summary: what.to_owned(),
            details: why.to_string(),
        },
    }
}

fn library_listed(instance: Instance) -> Listed {
    let listed = |is_here, summary, details| Listed {
        instance: instance.name.to_owned(),
        is_here,
        summary,
        details,
    };
    match LibrariesBackend::new(instance) {
        Ok(backend) => {
            let operators = offered(libraries::samples(), &backend);
            let level = backend.level();
            let details = format!("{}; compiled for {level}", instance.what);
            listed(true, operators.join(", "), details)
        }
        Err(why) => listed(false, instance.what.to_owned(), why.to_string()),
    }
}

/// The operators of these that a backend has.
fn offered(samples: Vec<OpSpec>, backend: &dyn Backend) -> Vec<String> {
    let offered = samples
        .into_iter()
        .filter(|spec| backend.limits(spec).is_ok());
    offered.map(|spec| spec.name().to_owned()).collect()
}

fn environment_found(eal: &Eal) -> Finding {
    let arguments = eal.arguments.join(" ");
    match eal.has_huge_pages {
        true => Finding::found("environment", format!("EAL runs with {arguments}")),
        false => Finding::limited(
            "environment",
            format!("EAL runs with {arguments}: devices of software alone"),
            "for hardware: huge pages (`echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages` as root), and the \
             device bound to vfio-pci (dpdk-devbind.py) or, for NVIDIA's, rdma-core",
        ),
    }
}

/// The device and its operators with their limits, then the operators that it lacks, with reasons.
fn device_found(eal: &'static Eal, name: &str) -> Vec<Finding> {
    let what = format!("device {name}");
    let opened = Device::find(eal, name).and_then(|device| Ok((device.backend()?, device)));
    let (backend, device) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            let remedy = "install the driver, or leave it: other devices do not need it";
            return vec![Finding::missing(what, why.to_string(), remedy)];
        }
    };
    let driver = format!("driver {}", device.driver());
    backend_found(what, &driver, device.samples(), &*backend)
}

/// The library and its operators, likewise.
fn library_found(instance: &Instance) -> Vec<Finding> {
    let what = format!("libraries as dpdk/{}", instance.name);
    match LibrariesBackend::new(*instance) {
        Ok(backend) => {
            let level = format!("compiled for {}", backend.level());
            backend_found(what, &level, libraries::samples(), &backend)
        }
        Err(why) => vec![Finding::missing(what, why.to_string(), REMEDY)],
    }
}

/// Findings about a backend: `about`, then each of these specs.
fn backend_found(
    what: String,
    about: &str,
    samples: Vec<OpSpec>,
    backend: &dyn Backend,
) -> Vec<Finding> {
    let (mut offered, mut others) = (Vec::new(), Vec::new());
    for spec in samples {
        match backend.limits(&spec) {
            Ok(limits) => offered.push((shown(&spec), limits.item_bytes_max.to_string())),
            Err(why) => others.push((shown(&spec), why.to_string())),
        }
    }
    let offered = grouped(offered, " up to ", " bytes");
    let mut findings = vec![Finding::found(
        what.clone(),
        format!("{about}; items of {offered}"),
    )];
    if !others.is_empty() {
        let what = format!("{what}, what it lacks");
        findings.push(Finding::limited(what, grouped(others, ": ", ""), ""));
    }
    findings
}

/// `deflate format=zlib`, `aes-gcm`.
fn shown(spec: &OpSpec) -> String {
    match_spec!(spec, {
        spec::Deflate { format, .. } => format!("{spec} format={}", format.name()),
        spec::Inflate { format } => format!("{spec} format={}", format.name()),
    } else {
        spec.name().to_owned()
    })
}

/// `one, two up to 7 bytes; three up to 9 bytes`: neighbours of which the same is said, together.
fn grouped(said: Vec<(String, String)>, between: &str, behind: &str) -> String {
    let same = said.chunk_by(|(_, one), (_, next)| one == next);
    let group = |group: &[(String, String)]| {
        let names: Vec<&str> = group.iter().map(|(name, _)| name.as_str()).collect();
        format!("{}{between}{}{behind}", names.join(", "), group[0].1)
    };
    same.map(group).collect::<Vec<String>>().join("; ")
}

/// The meaning that the device behind `dpdk/INSTANCE` gives to the code of a [`JobError::Device`](dpb_core::JobError::Device).
pub fn status_text(instance: &str, code: i32) -> Option<String> {
    let eal = Eal::start().ok()?;
    Some(match Device::find(eal, instance).ok()? {
        Device::Crypto(_) => eal.crypto_status(code),
        Device::Compress(_) => eal.compress_status(code),
    })
}
