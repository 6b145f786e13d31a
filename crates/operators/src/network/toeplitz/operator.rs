//! The operator `toeplitz`.

use dpb_core::{
    Batch, BatchOut, HashTuple, JobError, Kernel, Material, OpSpec, OutputShape, Right, SetupError,
    Workload,
    spec::{self, Arguments},
};

use super::{Key, MICROSOFT_KEY, Redirection, Toeplitz, definition};
use crate::direct::AnyKernel;
use crate::entry::{Entry, PORTABLE, own};
use crate::implementation::Implementation;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "network",
    summary: "Toeplitz hashes of tuples for receive-side scaling, or their queues",
    unit: "input byte, 8, 12, 32 or 36 a tuple",
    output: "4 bytes per tuple, little endian",
    source: "Microsoft, RSS hashing types and verification suite",
    peers: &["rte_thash", "rte_softrss"],
    material: key_given,
    paths: Toeplitz::PATHS,
    documentation: include_str!("../../../docs/toeplitz.md"),
    ..Entry::of::<spec::Toeplitz>(kernel, |case| {
        let parts = Parts::of(&case.spec)?;
        let spec = case.spec.clone();
        Ok(Box::new(Tuples { spec, parts }))
    })
};

fn key_given(given: &Arguments<'_>, name: &'static str) -> Result<Material, SetupError> {
    let key = given.file(name)?.unwrap_or(MICROSOFT_KEY.to_vec());
    key_of(&key)?;
    Ok(Material::public(key))
}

fn key_of(bytes: &[u8]) -> Result<Key, SetupError> {
    Key::new(bytes).ok_or_else(|| {
        let len = bytes.len();
        SetupError::Parameter(format!("toeplitz: key: {len} bytes, not 40 or 52"))
    })
}

/// The parts of a spec.
struct Parts {
    key: Key,
    form: HashTuple,
    redirection: Option<Redirection>,
}

impl Parts {
    fn of(spec: &OpSpec) -> Result<Self, SetupError> {
        let spec::Toeplitz { form, queues, key } = own(spec);
        let entries = if *queues <= 128 { 128 } else { 512 };
        let redirection = Redirection::in_turn(*queues, entries);
        if redirection.is_none() && *queues > 0 {
            return Err(SetupError::Parameter(format!(
                "toeplitz: queues={queues}: not from 0 to 512"
            )));
        }
        Ok(Self {
            key: key_of(key.bytes())?,
            form: *form,
            redirection,
        })
    }
}

fn kernel(spec: &OpSpec, path: Implementation) -> Result<Box<dyn AnyKernel>, SetupError> {
    let parts = Parts::of(spec)?;
    let toeplitz = Toeplitz::new(&parts.key, parts.form, path)?;
    Ok(Box::new(match parts.redirection {
        Some(redirection) => toeplitz.redirected(redirection),
        None => toeplitz,
    }))
}

impl Kernel for Toeplitz {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len / self.tuple.bytes() * 4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, _scratch: &mut ()) -> Result<(), JobError> {
        dpb_core::records(batch, out, self.tuple.bytes(), |tuples, hashes| {
            self.hash_all(tuples, hashes);
        });
        Ok(())
    }
}

/// Random tuples; right is what the definition says.
struct Tuples {
    spec: OpSpec,
    parts: Parts,
}

impl Workload for Tuples {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let bytes = self.parts.form.bytes();
        Ok(plain[..plain.len() / bytes * bytes].to_vec())
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        let Parts {
            key,
            form,
            redirection,
        } = &self.parts;
        let hashes = definition(key, *form, redirection.as_ref(), item);
        hashes.ok_or(JobError::Malformed).into()
    }
}
