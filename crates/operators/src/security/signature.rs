//! Signatures: the kernels that sign and verify by any scheme, and what they are run on.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::random::SplitMix64;
use dpb_core::{
    Batch, BatchOut, JobError, Kernel, Material, OpSpec, OutputShape, Right, SetupError,
    SignatureScheme, Spec, Workload,
    spec::{self, Arguments, Domain, NO_FILE, Parameter},
    workload,
};

pub use super::asymmetric::PATHS;
use super::asymmetric::{Signer, Verifier};
use super::keys::Kind;
use super::{dsa, ecdsa, rsa};
use crate::direct::AnyKernel;
use crate::entry::{Case, Entry, MakeKernel, MakeWorkload, PORTABLE, Parse, own};
use crate::implementation::Implementation;

/// Signs each item.
pub struct Sign {
    scheme: SignatureScheme,
    signer: Box<dyn Signer>,
}

/// Says of each item whether the signature that it begins with is of the message that follows.
pub struct Verify {
    scheme: SignatureScheme,
    verifier: Box<dyn Verifier>,
}

impl Sign {
    /// Makes the operator on the code path `path`, with the private key `pkcs8` (DER).
    ///
    /// # Errors
    /// If there is no such path here, or this is no such key.
    pub fn new(
        path: Implementation,
        scheme: SignatureScheme,
        pkcs8: &[u8],
    ) -> Result<Self, SetupError> {
        let signer = signer(path, scheme, pkcs8)?;
        Ok(Self { scheme, signer })
    }

    /// The signature of `message`: [`SignatureScheme::bytes`].
    ///
    /// # Errors
    /// [`JobError::Device`] if the library cannot.
    pub fn signature(&self, message: &[u8]) -> Result<Vec<u8>, JobError> {
        let mut signature = vec![0; self.scheme.bytes()];
        self.signer.sign(message, &mut signature)?;
        Ok(signature)
    }
}

impl Verify {
    /// Makes the operator on the code path `path`, with the public key `spki` (DER).
    ///
    /// # Errors
    /// If there is no such path here, or this is no such key.
    pub fn new(
        path: Implementation,
        scheme: SignatureScheme,
        spki: &[u8],
    ) -> Result<Self, SetupError> {
        let verifier = verifier(path, scheme, spki)?;
        Ok(Self { scheme, verifier })
    }

    /// Says whether `signature` is a signature of `message`.
    pub fn is_genuine(&self, message: &[u8], signature: &[u8]) -> bool {
        signature.len() == self.scheme.bytes() && self.verifier.verify(message, signature)
    }

    /// Says whether `item`, a signature and then a message, is genuine.
    fn is_signed(&self, item: &[u8]) -> bool {
        item.split_at_checked(self.scheme.bytes())
            .is_some_and(|(signature, message)| self.is_genuine(message, signature))
    }
}

/// The private key on `path`.
fn signer(
    path: Implementation,
    scheme: SignatureScheme,
    pkcs8: &[u8],
) -> Result<Box<dyn Signer>, SetupError> {
    use SignatureScheme::{Dsa, Ecdsa, Rsa};
    match (path, scheme) {
        (Implementation::Portable, Rsa { bits, padding }) => {
            rsa::portable::signer(bits, padding, pkcs8)
        }
        (Implementation::Portable, Dsa) => dsa::portable::signer(pkcs8),
        (Implementation::Portable, Ecdsa { curve }) => ecdsa::portable::signer(curve, pkcs8),
        #[cfg(feature = "aws-lc")]
        (Implementation::AwsLc, Rsa { bits, padding }) => rsa::aws_lc::signer(bits, padding, pkcs8),
        #[cfg(feature = "aws-lc")]
        (Implementation::AwsLc, Dsa) => Ok(Box::new(dsa::aws_lc::Key::private(pkcs8)?)),
        #[cfg(feature = "aws-lc")]
        (Implementation::AwsLc, Ecdsa { curve }) => ecdsa::aws_lc::signer(curve, pkcs8),
        (path, Rsa { .. }) => Err(path.missing("rsa-sign", PATHS)),
        (path, Dsa) => Err(path.missing("dsa-sign", PATHS)),
        (path, Ecdsa { .. }) => Err(path.missing("ecdsa-sign", PATHS)),
    }
}

/// The public key on `path`.
fn verifier(
    path: Implementation,
    scheme: SignatureScheme,
    spki: &[u8],
) -> Result<Box<dyn Verifier>, SetupError> {
    use SignatureScheme::{Dsa, Ecdsa, Rsa};
    match (path, scheme) {
        (Implementation::Portable, Rsa { bits, padding }) => {
            rsa::portable::verifier(bits, padding, spki)
        }
        (Implementation::Portable, Dsa) => dsa::portable::verifier(spki),
        (Implementation::Portable, Ecdsa { curve }) => ecdsa::portable::verifier(curve, spki),
        #[cfg(feature = "aws-lc")]
        (Implementation::AwsLc, Rsa { bits, padding }) => {
            rsa::aws_lc::verifier(bits, padding, spki)
        }
        #[cfg(feature = "aws-lc")]
        (Implementation::AwsLc, Dsa) => Ok(Box::new(dsa::aws_lc::Prepared::new(spki)?)),
        #[cfg(feature = "aws-lc")]
        (Implementation::AwsLc, Ecdsa { curve }) => ecdsa::aws_lc::verifier(curve, spki),
        (path, Rsa { .. }) => Err(path.missing("rsa-verify", PATHS)),
        (path, Dsa) => Err(path.missing("dsa-verify", PATHS)),
        (path, Ecdsa { .. }) => Err(path.missing("ecdsa-verify", PATHS)),
    }
}

impl Kernel for Sign {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(self.scheme.bytes())
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        self.scheme.bytes()
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        for (item, slot) in batch.iter().zip(out.slots) {
            self.signer.sign(item, &mut slot[..self.scheme.bytes()])?;
        }
        Ok(())
    }
}

impl Kernel for Verify {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(1)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        1
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each(batch, |item, slot| slot[0] = u8::from(self.is_signed(item)));
        Ok(())
    }
}

/// The parts that all signing operators have in common.
pub(super) const fn sign_entry(parse: Parse) -> Entry {
    Entry {
        unit: "signature",
        ..entry::<spec::Sign>(parse, sign_kernel, signing)
    }
}

/// The parts that all verifying operators have in common.
pub(super) const fn verify_entry(parse: Parse) -> Entry {
    Entry {
        unit: "signature",
        output: "one byte per item: 1 if it is genuine, else 0",
        ..entry::<spec::Verify>(parse, verify_kernel, verifying)
    }
}

/// The parts that all operators with a key pair have in common.
pub(super) const fn entry<S: Spec>(
    parse: Parse,
    kernel: MakeKernel,
    workload: MakeWorkload,
) -> Entry {
    Entry {
        scenario: "security",
        peers: &["openssl"],
        paths: PATHS,
        ..Entry::new::<S>(parse, kernel, workload)
    }
}

/// The private key of a signing operator.
pub(super) const PRIVATE_KEY: Parameter = Parameter {
    name: "key",
    values: Domain::File,
    default: NO_FILE,
    meaning: "the private key, PKCS#8 as PEM or DER; secret. Without a file, a key pair made for the run",
};

/// The key of a verifying operator.
pub(super) const KEY_PAIR: Parameter = Parameter {
    name: "key",
    values: Domain::File,
    default: NO_FILE,
    meaning: "the private key, PKCS#8 as PEM or DER, whose public half is used and whose other half makes or judges items; \
              or the public key alone, for which `dpb op` has no items. Without a file, a key pair made for the run",
};

/// The case that signs.
pub(super) fn sign_case(
    given: &Arguments<'_>,
    scheme: SignatureScheme,
) -> Result<Case, SetupError> {
    let key = kind(scheme).private_given(given)?;
    Ok(OpSpec::from(spec::Sign { scheme, key }).into())
}

/// The case that verifies.
pub(super) fn verify_case(
    given: &Arguments<'_>,
    scheme: SignatureScheme,
) -> Result<Case, SetupError> {
    let pair = kind(scheme).given(given)?;
    let key = pair.public.clone();
    Ok(pair.case(spec::Verify { scheme, key }))
}

fn kind(scheme: SignatureScheme) -> Kind {
    match scheme {
        SignatureScheme::Rsa { bits, .. } => Kind::Rsa(bits),
        SignatureScheme::Dsa => Kind::Dsa,
        SignatureScheme::Ecdsa { curve } => Kind::Ecdsa(curve),
    }
}

fn sign_kernel(spec: &OpSpec, path: Implementation) -> Result<Box<dyn AnyKernel>, SetupError> {
    let spec::Sign { scheme, key } = own(spec);
    Ok(Box::new(Sign::new(path, *scheme, key.bytes())?))
}

fn verify_kernel(spec: &OpSpec, path: Implementation) -> Result<Box<dyn AnyKernel>, SetupError> {
    let spec::Verify { scheme, key } = own(spec);
    Ok(Box::new(Verify::new(path, *scheme, key.bytes())?))
}

/// The items of a signing spec: any bytes. Several signatures may be right, and verifiers tell.
struct Signing {
    spec: OpSpec,
    verifiers: Jury<Verify>,
}

/// The items of a verifying spec: signatures of any bytes.
struct Verifying {
    spec: OpSpec,
    scheme: SignatureScheme,
    oracle: Verify,
    /// The signer, if the private key is known. On the best path: the oracle says itself whether that is right.
    signer: Option<Sign>,
}

/// Judges of outputs of which several are right, one on each path that is here. The best path's, which is quick, judges every
/// output; the others, of which one is not quick at all, the first ones, and then one in so many.
pub(super) struct Jury<T> {
    /// The names of all judges.
    pub(super) name: String,
    judges: Vec<(Implementation, T)>,
    asked: AtomicU64,
}

impl<T> Jury<T> {
    /// The number of outputs that go before all judges; later one in this number does.
    const ALL_IN: u64 = 64;

    pub(super) fn new(
        judge: impl Fn(Implementation) -> Result<T, SetupError>,
    ) -> Result<Self, SetupError> {
        let paths = PATHS.iter().filter(|path| path.is_available());
        let judges = paths
            .map(|&path| Ok((path, judge(path)?)))
            .collect::<Result<Vec<_>, SetupError>>()?;
        let names = judges.iter().map(|(path, _)| format!("cpu/{path}"));
        Ok(Self {
            name: names.collect::<Vec<_>>().join(" and "),
            judges,
            asked: AtomicU64::new(0),
        })
    }

    /// Asks for a verdict on an output. The error is the first judge's who finds something wrong, with the judge's name.
    pub(super) fn ask(&self, verdict: impl Fn(&T) -> Result<(), String>) -> Result<(), String> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let count = match asked < Self::ALL_IN || asked.is_multiple_of(Self::ALL_IN) {
            true => self.judges.len(),
            false => 1,
        };
        self.judges[..count].iter().try_for_each(|(path, judge)| {
            verdict(judge).map_err(|what| format!("by cpu/{path}: {what}"))
        })
    }
}

fn signing(case: &Case) -> Result<Box<dyn Workload>, SetupError> {
    let spec::Sign { scheme, key } = own(&case.spec);
    let public = kind(*scheme).read(key.bytes());
    let public = public.map_err(SetupError::Parameter)?.public;
    Ok(Box::new(Signing {
        spec: case.spec.clone(),
        verifiers: Jury::new(|path| Verify::new(path, *scheme, public.bytes()))?,
    }))
}

fn verifying(case: &Case) -> Result<Box<dyn Workload>, SetupError> {
    let spec::Verify { scheme, key } = own(&case.spec);
    let signer =
        |private: &Material| Sign::new(Implementation::best(PATHS), *scheme, private.bytes());
    Ok(Box::new(Verifying {
        spec: case.spec.clone(),
        scheme: *scheme,
        oracle: Verify::new(Implementation::Portable, *scheme, key.bytes())?,
        signer: case.private().map(signer).transpose()?,
    }))
}

impl Workload for Signing {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        &self.verifiers.name
    }

    fn right(&self, _item: &[u8], _slot_bytes: usize) -> Right {
        Right::AnyValid
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        self.verifiers.ask(|verifier| {
            let is_genuine = verifier.is_genuine(item, output);
            is_genuine
                .then_some(())
                .ok_or_else(|| "it does not verify".to_owned())
        })
    }
}

impl Workload for Verifying {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let signer = self.signer.as_ref().ok_or(
            "only the public key is known, by which nothing can be signed; give the private one",
        )?;
        let mut item = signer.signature(plain).map_err(|error| error.to_string())?;
        item.extend(plain);
        Ok(item)
    }

    fn describe(&self, plain: &str) -> String {
        format!("signatures and {plain}")
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        Right::Only(vec![u8::from(self.oracle.is_signed(item))])
    }

    /// Zeros instead of one half of the signature, or bytes of it turned round, which gives numbers beyond the group's order;
    /// else as usual.
    fn spoil(&self, item: &mut Vec<u8>, seed: u64) {
        let mut random = SplitMix64::new(seed);
        let signature_bytes = self.scheme.bytes();
        let half = random.below(2) * signature_bytes / 2;
        match item.get_mut(half..half + signature_bytes / 2) {
            Some(half) if seed.is_multiple_of(5) => half.fill(0),
            Some(half) if seed % 5 == 1 => half.iter_mut().for_each(|byte| *byte = !*byte),
            _ => workload::spoil(item, random.next_u64()),
        }
    }
}

impl fmt::Debug for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sign")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verify")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}
