//! AES (FIPS 197) with keys of 128 and 256 bits: data at rest and in flight, sealed or only encrypted.
//!
//! Four modes: GCM (SP 800-38D), CTR and CBC (SP 800-38A), XTS (IEEE 1619, SP 800-38E). What changes from item to item
//! lies in front of it: nonce and additional data, counter block, initialisation vector, tweak.
//!
#![doc = include_str!("../../docs/aes-ctr.md")]
#![doc = include_str!("../../docs/aes-gcm.md")]
#![doc = include_str!("../../docs/aes-cbc.md")]
#![doc = include_str!("../../docs/aes-xts.md")]

#[cfg(feature = "aws-lc")]
mod aws_lc;
mod form;
mod portable;
mod text;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;
mod workload;

use std::fmt;
use std::sync::Arc;

use dpb_core::sessions::NUMBER_BYTES;
use dpb_core::{
    Batch, BatchOut, Direction, InPlace, JobError, Kernel, Material, NotInPlace, OpSpec,
    OutputShape, Overlays, Picks, SetupError, Spec, Workload, match_spec,
    spec::{self, Arguments, Domain, NO_FILE, Parameter},
};

use self::form::{Apart, Form, Mode, Places, Work};
use crate::direct::AnyKernel;
use crate::entry::{Case, Entry, Library, Parse, foreign, library, secret};
use crate::implementation::Implementation;
use crate::security::sessions::{self, Keyed, SESSIONS, Sessions, TOGETHER, Wanted};

/// The registry's lines.
pub(crate) const GCM: Entry = Entry {
    name: "aes-gcm",
    summary: "encrypts and authenticates each item with AES in Galois/counter mode",
    output: "ciphertext and tag of 16 bytes per item, variable",
    ..gcm_entry(|given| gcm(given, Direction::Encrypt))
};
pub(crate) const GCM_DECRYPT: Entry = Entry {
    name: "aes-gcm-decrypt",
    summary: "checks and decrypts each item, sealed with AES in Galois/counter mode",
    output: "plain text per item, variable; an item with a wrong tag is refused",
    ..gcm_entry(|given| gcm(given, Direction::Decrypt))
};
pub(crate) const CTR: Entry = Entry {
    name: "aes-ctr",
    summary: "encrypts or decrypts each item with AES in counter mode",
    output: "as many bytes as the text has, variable",
    source: "FIPS 197; SP 800-38A, 6.5",
    documentation: include_str!("../../docs/aes-ctr.md"),
    ..entry::<spec::AesCtr>(|given| case(given, 1, |key| spec::AesCtr { key }.into()))
};
pub(crate) const CBC: Entry = Entry {
    name: "aes-cbc",
    summary: "encrypts each item with AES in cipher block chaining mode",
    ..cbc_entry(|given| cbc(given, Direction::Encrypt))
};
pub(crate) const CBC_DECRYPT: Entry = Entry {
    name: "aes-cbc-decrypt",
    summary: "decrypts each item with AES in cipher block chaining mode",
    ..cbc_entry(|given| cbc(given, Direction::Decrypt))
};
pub(crate) const XTS: Entry = Entry {
    name: "aes-xts",
    summary: "encrypts each item, a sector of a disk, with AES in XTS mode",
    ..xts_entry(|given| xts(given, Direction::Encrypt))
};
pub(crate) const XTS_DECRYPT: Entry = Entry {
    name: "aes-xts-decrypt",
    summary: "decrypts each item, a sector of a disk, with AES in XTS mode",
    ..xts_entry(|given| xts(given, Direction::Decrypt))
};

/// The parts that the registry's lines have in common.
const fn entry<S: Spec>(parse: Parse) -> Entry {
    Entry {
        scenario: "security",
        peers: &["ipsec-mb", "openssl"],
        parameters: &[BITS, KEY, SESSIONS],
        paths: Aes::PATHS,
        libraries: &[PORTABLE],
        is_own: sessions::is_own::<S>,
        ..Entry::new::<S>(
            parse,
            |spec, path| match sessions::of::<S>(spec) {
                Some(sessions) => per_session(sessions, path),
                None => Ok(Box::new(Aes::new(spec, path)?)),
            },
            |case| match sessions::of::<S>(&case.spec) {
                Some(sessions) => {
                    let texts = |key: &Material| -> Result<Box<dyn Workload>, SetupError> {
                        let spec = rekeyed(&sessions.of, key.clone());
                        Ok(Box::new(workload::Texts::new(&spec)?))
                    };
                    let items = sessions::Items::new(&case.spec, sessions, texts)?;
                    Ok(Box::new(items))
                }
                None => Ok(Box::new(workload::Texts::new(&case.spec)?)),
            },
        )
    }
}

const GCM_LIBRARIES: &[(Implementation, Library)] =
    &[(Implementation::AwsLc, library!("aws-lc-rs")), PORTABLE];

const fn gcm_entry(parse: Parse) -> Entry {
    Entry {
        peers: &["ipsec-mb", "openssl", "aws-lc"],
        source: "FIPS 197; SP 800-38D",
        parameters: &[
            BITS,
            Parameter {
                name: "aad",
                values: Domain::Number(0, 1024),
                default: "0",
                meaning: "bytes of additional data in each item, authenticated and not encrypted",
            },
            KEY,
            SESSIONS,
        ],
        paths: Aes::GCM_PATHS,
        libraries: GCM_LIBRARIES,
        documentation: include_str!("../../docs/aes-gcm.md"),
        ..entry::<spec::AesGcm>(parse)
    }
}
const fn cbc_entry(parse: Parse) -> Entry {
    Entry {
        output: "as many bytes as the text has, variable; an item that ends inside a block is refused",
        source: "FIPS 197; SP 800-38A, 6.2",
        documentation: include_str!("../../docs/aes-cbc.md"),
        ..entry::<spec::AesCbc>(parse)
    }
}
const fn xts_entry(parse: Parse) -> Entry {
    Entry {
        output: "as many bytes as the data unit has, variable; one of less than a block is refused",
        source: "FIPS 197; IEEE 1619; SP 800-38E",
        peers: &["openssl"],
        documentation: include_str!("../../docs/aes-xts.md"),
        ..entry::<spec::AesXts>(parse)
    }
}
const BITS: Parameter = Parameter {
    name: "bits",
    values: Domain::Word(&["128", "256"]),
    default: "128",
    meaning: "the length of a key",
};
const KEY: Parameter = Parameter {
    name: "key",
    values: Domain::File,
    default: NO_FILE,
    meaning: "the key, as it is in the file, for XTS both keys, for sessions those of each, one behind another; secret. Without a \
              file, random bytes",
};
const PORTABLE: (Implementation, Library) = (Implementation::Portable, library!("aes"));

/// AES in one mode and direction, with its key, on one code path.
pub struct Aes {
    form: Form,
    code: Box<dyn Code>,
}

/// The code of a path, which computes batches wherever outputs go. It has its form and its key.
trait Code: Send + Sync {
    /// The outcome of each item, and its output in its slot.
    fn run(&self, work: Work<'_, Apart<'_>>);
    /// The same where slots overlay their items.
    fn run_in_place(&self, work: Work<'_, Overlays<'_>>);
}

/// [`Code`], written once.
trait Coder: Send + Sync {
    fn on<'a>(&self, work: Work<'a, impl Places<'a>>);
}

impl<C: Coder> Code for C {
    fn run(&self, work: Work<'_, Apart<'_>>) {
        self.on(work);
    }

    fn run_in_place(&self, work: Work<'_, Overlays<'_>>) {
        self.on(work);
    }
}

impl Aes {
    /// The paths of CTR, CBC and XTS, best first.
    pub const PATHS: &'static [Implementation] = &[
        Implementation::Vaes,
        Implementation::VaesAvx2,
        Implementation::AesNi,
        Implementation::ArmAes,
        Implementation::Portable,
    ];
    /// The paths of GCM, best first.
    pub const GCM_PATHS: &'static [Implementation] = &[
        Implementation::Vaes,
        Implementation::VaesAvx2,
        Implementation::AesNi,
        Implementation::ArmAes,
        Implementation::AwsLc,
        Implementation::Portable,
    ];

    /// Makes the operator of `spec` on the code path `path`.
    ///
    /// # Errors
    /// If it is no spec of AES, the key is not as long as it should be, the two keys of XTS are equal, the CPU or the build
    /// lacks what the path needs, or the mode has no such path.
    pub fn new(spec: &OpSpec, path: Implementation) -> Result<Self, SetupError> {
        let (form, key) = Form::of(spec)?;
        let paths = Self::paths_of(form.mode);
        let code: Option<Box<dyn Code>> = match path.among(spec.name(), paths)? {
            Implementation::Portable => Some(portable::new(form, key)),
            #[cfg(feature = "aws-lc")]
            Implementation::AwsLc => Some(Box::new(aws_lc::Gcm::new(form, key)?)),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            path => vectors::new(path, form, key),
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            _ => None,
        };
        let code = code.ok_or_else(|| path.missing(spec.name(), paths))?;
        Ok(Self { form, code })
    }

    fn paths_of(mode: Mode) -> &'static [Implementation] {
        match mode {
            Mode::Gcm => Self::GCM_PATHS,
            Mode::Ctr | Mode::Cbc | Mode::Xts => Self::PATHS,
        }
    }

    /// The output of one item.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn one(&self, item: &[u8]) -> Result<Vec<u8>, JobError> {
        let mut output = vec![0; self.form.output_bytes_max(item.len())];
        let mut outcomes = Vec::with_capacity(1);
        let out = BatchOut::new(&mut output, &dpb_core::Items::One, &mut outcomes)?;
        let batch = Batch::new(item, &dpb_core::Items::One)?;
        self.code.run(Work::apart(batch, out));
        output.truncate(outcomes[0]? as usize);
        Ok(output)
    }
}

impl Kernel for Aes {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.form.output_bytes_max(item_len)
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        self.code.run(Work::apart(batch, out));
        Ok(())
    }

    /// The output begins where the text does.
    fn in_place(&self) -> Result<usize, NotInPlace> {
        Ok(self.form.head_bytes())
    }

    fn run_in_place(&self, items: InPlace<'_>, (): &mut ()) -> Result<(), JobError> {
        self.code.run_in_place(Work::in_place(items));
        Ok(())
    }
}

/// The kernel of sessions, on the code path `path`.
fn per_session(
    sessions: &spec::Sessions,
    path: Implementation,
) -> Result<Box<dyn AnyKernel>, SetupError> {
    let (form, _) = Form::of(&sessions.of)?;
    let (name, paths) = (sessions.of.name(), Aes::paths_of(form.mode));
    let path = path.among(name, paths)?;
    let is_built = path != Implementation::AwsLc || cfg!(feature = "aws-lc");
    let is_library = matches!(path, Implementation::Portable | Implementation::AwsLc);
    if is_library && is_built {
        let operator = PerSession::new(&sessions.of, path)?;
        return Ok(Box::new(Sessions::new(sessions, operator)?));
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Some(kernel) = vectors::per_session(path, sessions) {
        return kernel;
    }
    // Else it would be found missing with the first key, which may come while queues run.
    Err(path.missing(name, paths))
}

/// AES with a key for each session, by code for one key: neighbours of one session are computed together.
struct PerSession {
    /// The operator, with a key that is no session's.
    of: OpSpec,
    form: Form,
    path: Implementation,
}

impl PerSession {
    fn new(of: &OpSpec, path: Implementation) -> Result<Self, SetupError> {
        let (form, _) = Form::of(of)?;
        let of = of.clone();
        Ok(Self { of, form, path })
    }
}

impl sessions::KeyMaker for PerSession {
    type Key = Aes;

    fn ready(&self, key: &[u8]) -> Result<Arc<Aes>, SetupError> {
        let spec = rekeyed(&self.of, Material::secret(key));
        Ok(Arc::new(Aes::new(&spec, self.path)?))
    }
}

impl Keyed for PerSession {
    /// The places of some items and of their slots, and their outcomes.
    type Scratch = ([Picks; 2], Vec<Result<u32, JobError>>);

    fn scratch(&self) -> Self::Scratch {
        let picks = [(); 2].map(|()| Picks::with_capacity(TOGETHER));
        (picks, Vec::with_capacity(TOGETHER))
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.form.output_bytes_max(item_len)
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Ok(self.form.head_bytes())
    }

    fn run(
        &self,
        wanted: Wanted<'_, Aes>,
        batch: &Batch<'_>,
        out: &mut BatchOut<'_>,
        (picks, outcomes): &mut Self::Scratch,
    ) {
        for (aes, indices) in wanted.groups() {
            outcomes.clear();
            let [of_items, of_slots] = picks;
            let items = batch.pick(indices, NUMBER_BYTES, of_items);
            let items = items.expect("each has its number");
            let slots = out.slots.pick(indices, of_slots);
            let slots = slots.expect("one for each item");
            let work = Work::apart(items, BatchOut { slots, outcomes });
            aes.code.run(work);
            enter(outcomes, indices, out.outcomes);
        }
    }

    fn run_in_place(
        &self,
        wanted: Wanted<'_, Aes>,
        work: &mut InPlace<'_>,
        (picks, outcomes): &mut Self::Scratch,
    ) -> Result<(), JobError> {
        for (aes, indices) in wanted.groups() {
            outcomes.clear();
            // A slot begins where a text does, so never in the number.
            let items = work.items.pick(indices, NUMBER_BYTES, picks.each_mut());
            let items = items.expect("each has its number");
            let some = Work::in_place(InPlace { items, outcomes });
            aes.code.run_in_place(some);
            enter(outcomes, indices, work.outcomes);
        }
        Ok(())
    }
}

/// Enters outcomes for the items that they are of.
fn enter(
    outcomes: &[Result<u32, JobError>],
    indices: &[u32],
    of_all: &mut [Result<u32, JobError>],
) {
    for (outcome, &i) in outcomes.iter().zip(indices) {
        of_all[i as usize] = *outcome;
    }
}

/// `spec` with another key.
fn rekeyed(spec: &OpSpec, key: Material) -> OpSpec {
    match_spec!(spec, {
        &spec::AesGcm { direction, aad_bytes, .. } => {
            spec::AesGcm { direction, aad_bytes, key }.into()
        },
        spec::AesCtr { .. } => spec::AesCtr { key }.into(),
        &spec::AesCbc { direction, .. } => spec::AesCbc { direction, key }.into(),
        &spec::AesXts { direction, .. } => spec::AesXts { direction, key }.into(),
    } else {
        foreign(spec)
    })
}

/// Says nothing of the key.
impl fmt::Debug for Aes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aes")
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

fn gcm(given: &Arguments<'_>, direction: Direction) -> Result<Case, SetupError> {
    let aad_bytes = given.get("aad");
    case(given, 1, |key| {
        let spec = spec::AesGcm {
            direction,
            aad_bytes,
            key,
        };
        spec.into()
    })
}

fn cbc(given: &Arguments<'_>, direction: Direction) -> Result<Case, SetupError> {
    case(given, 1, |key| spec::AesCbc { direction, key }.into())
}

fn xts(given: &Arguments<'_>, direction: Direction) -> Result<Case, SetupError> {
    case(given, 2, |key| spec::AesXts { direction, key }.into())
}

/// The case that `of` makes of a key, which is `keys` keys one behind another, or of the keys of sessions: given, or made now.
fn case(
    given: &Arguments<'_>,
    keys: usize,
    of: impl FnOnce(Material) -> OpSpec,
) -> Result<Case, SetupError> {
    let sessions = sessions::count(given);
    let bytes = given.get::<u32>("bits") as usize / 8 * keys * sessions.max(1);
    let key = secret(given, "key", bytes)?;
    if key.len() != bytes {
        let (len, bits) = (key.len(), given.word("bits"));
        let of_sessions = match sessions {
            0 => String::new(),
            _ => format!(",sessions={sessions}"),
        };
        return Err(SetupError::Parameter(format!(
            "key: {len} bytes in the file, {bytes} are needed with bits={bits}{of_sessions}"
        )));
    }
    Ok(sessions::with_keys(sessions, key, of)?.into())
}
