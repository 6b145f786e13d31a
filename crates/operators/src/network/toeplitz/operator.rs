//! The operator `toeplitz`.

use dpb_core::{
    Batch, BatchOut, HashTuple, JobError, Kernel, Material, OpSpec, OutputShape, Right, SetupError,
    Workload,
    spec::{self, Arguments, Domain, Parameter, ParameterType},
};

use super::{Key, MICROSOFT_KEY, Redirection, Toeplitz, definition};
use crate::direct::AnyKernel;
use crate::entry::{Case, Entry, PORTABLE, own};
use crate::path::Path;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    name: "toeplitz",
    scenario: "network",
    summary: "Toeplitz hashes of tuples for receive-side scaling, or their queues",
    unit: "input byte, 8, 12, 32 or 36 a tuple",
    output: "4 bytes per tuple, little endian",
    source: "Microsoft, RSS hashing types and verification suite",
    peers: &["rte_thash"],
    parameters: &[
        Parameter {
            name: "form",
            values: HashTuple::DOMAIN,
            default: "ipv4-ports",
            meaning: "what a tuple has",
        },
        Parameter {
            name: "queues",
            values: Domain::Number(0, 512),
            default: "0",
            meaning: "gives one of so many queues, by a redirection table; 0: the hash itself",
        },
        Parameter {
            name: "key",
            values: Domain::File,
            default: "-",
            meaning: "40 or 52 bytes; without them, Microsoft's key",
        },
    ],
    paths: Toeplitz::PATHS,
    documentation: include_str!("../../../docs/toeplitz.md"),
    ..Entry::new::<spec::Toeplitz>(parse, kernel, |case| {
        let parts = Parts::of(&case.spec)?;
        let spec = case.spec.clone();
        Ok(Box::new(Tuples { spec, parts }))
    })
};

fn parse(given: &Arguments<'_>) -> Result<Case, SetupError> {
    let key = given.file("key")?.unwrap_or(MICROSOFT_KEY.to_vec());
    let spec = OpSpec::from(spec::Toeplitz {
        form: given.get("form"),
        queues: given.get("queues"),
        key: Material::public(key),
    });
    Parts::of(&spec)?;
    Ok(spec.into())
}

/// What a spec consists of.
struct Parts {
    key: Key,
    form: HashTuple,
    redirection: Option<Redirection>,
}

impl Parts {
    fn of(spec: &OpSpec) -> Result<Self, SetupError> {
        let wrong = |what: &str| SetupError::Parameter(format!("toeplitz: {what}"));
        let spec::Toeplitz { form, queues, key } = own(spec);
        let bytes = key.bytes();
        let not_a_key = || wrong(&format!("key: {} bytes, not 40 or 52", bytes.len()));
        let entries = if *queues <= 128 { 128 } else { 512 };
        let redirection = Redirection::in_turn(*queues, entries);
        if redirection.is_none() && *queues > 0 {
            return Err(wrong(&format!("queues={queues}: not from 0 to 512")));
        }
        Ok(Self {
            key: Key::new(bytes).ok_or_else(not_a_key)?,
            form: *form,
            redirection,
        })
    }
}

fn kernel(spec: &OpSpec, path: Path) -> Result<Box<dyn AnyKernel>, SetupError> {
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
