//! Specs as bytes: an operator's name and the values of its parameters, of a chain the list of its stages.
//!
//! | part | bytes |
//! |---|---|
//! | an operator | 0 (1 byte), name (text), parameters (2 bytes), each: name (text), kind (1 byte), value |
//! | a number, kind 0 | 8 bytes, signed |
//! | a text, kind 1 | text |
//! | public material, kind 2; secret material, kind 3 | length (4 bytes), content |
//! | a chain | 1 (1 byte), stages (2 bytes), each an operator or a chain |

use std::hint::black_box;

use dpb_core::{Material, OpSpec, ParameterValue, SetupError, Unsupported, spec};

use super::codec::{Malformed, Reader, put_block, put_text};
use super::wire::SessionSecurity;

/// Makes specs of the parts that cross: a registry of operators.
pub trait Resolve: Send + Sync {
    /// The spec of the operator `name` that has these values of parameters, as [`Spec::parts`](dpb_core::Spec::parts) says them. No
    /// value is taken for the path of a file, and nothing is generated.
    ///
    /// # Errors
    /// If there is no such operator or no such parameter, or a value is not one that it takes.
    fn resolve(
        &self,
        name: &str,
        parameters: &[(&str, ParameterValue)],
    ) -> Result<OpSpec, SetupError>;
}

impl<F> Resolve for F
where
    F: Fn(&str, &[(&str, ParameterValue)]) -> Result<OpSpec, SetupError> + Send + Sync,
{
    fn resolve(
        &self,
        name: &str,
        parameters: &[(&str, ParameterValue)],
    ) -> Result<OpSpec, SetupError> {
        self(name, parameters)
    }
}

/// Longest name of an operator or of a parameter.
const NAME_BYTES_MAX: usize = 256;
/// Longest value that is a text.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Most parameters of an operator.
const PARAMETERS_MAX: u16 = 256;
/// Most operators and chains of a spec.
const STAGES_MAX: usize = 64;
/// Chains in chains.
const NESTING_MAX: usize = 4;

/// The reason why a spec did not become one again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SpecError {
    /// The bytes are no spec.
    Malformed(Malformed),
    /// There is no such operator, or not with these values.
    Refused(SetupError),
}

impl From<Malformed> for SpecError {
    fn from(why: Malformed) -> Self {
        Self::Malformed(why)
    }
}

/// Bytes that may hold secrets; they are overwritten when they go.
#[derive(Default)]
pub(super) struct SecretBytes(pub(super) Vec<u8>);

impl Drop for SecretBytes {
    fn drop(&mut self) {
        self.0.fill(0);
        black_box(&self.0);
    }
}

/// The bytes of `spec`, if the peer can make it again of them: `resolve` can, and the session keeps its secrets.
///
/// # Errors
/// Why the spec cannot be sent.
pub(super) fn encode(
    spec: &OpSpec,
    resolve: &dyn Resolve,
    security: SessionSecurity,
    bytes_max: usize,
) -> Result<SecretBytes, Unsupported> {
    let mut to = SecretBytes::default();
    let mut encoder = Encoder {
        to: &mut to.0,
        resolve,
        security,
        bytes_max,
        stages: 0,
    };
    let encoded = encoder.spec(spec, 0);
    let why = match encoded {
        Ok(()) if to.0.len() <= bytes_max => return Ok(to),
        Ok(()) => format!("it takes more than {bytes_max} bytes, the most that an agent takes"),
        Err(why) => why,
    };
    let reason = format!("{spec} cannot be sent to another machine: {why}");
    Err(Unsupported { reason })
}

struct Encoder<'a> {
    to: &'a mut Vec<u8>,
    resolve: &'a dyn Resolve,
    security: SessionSecurity,
    bytes_max: usize,
    stages: usize,
}

impl Encoder<'_> {
    fn spec(&mut self, spec: &OpSpec, nesting: usize) -> Result<(), String> {
        self.stages += 1;
        if self.stages > STAGES_MAX {
            return Err(format!("a chain of more than {STAGES_MAX} operators"));
        }
        if let Some(spec::Chain(stages)) = spec.get() {
            if nesting >= NESTING_MAX {
                return Err(format!(
                    "chains lie in chains more than {NESTING_MAX} times"
                ));
            }
            self.to.push(1);
            let count = u16::try_from(stages.len()).unwrap_or(u16::MAX);
            self.to.extend(count.to_le_bytes());
            let mut stages = stages.iter();
            return stages.try_for_each(|stage| self.spec(stage, nesting + 1));
        }
        let parameters = spec.parts();
        self.check(spec, &parameters)?;
        self.to.push(0);
        put_text(self.to, spec.name(), NAME_BYTES_MAX);
        let count = u16::try_from(parameters.len()).unwrap_or(u16::MAX);
        self.to.extend(count.to_le_bytes());
        for (name, value) in &parameters {
            put_text(self.to, name, NAME_BYTES_MAX);
            self.value(value)?;
        }
        Ok(())
    }

    /// Whether the spec is what the peer will make of its parts.
    fn check(&self, spec: &OpSpec, parameters: &[(&str, ParameterValue)]) -> Result<(), String> {
        let mut names = parameters.iter().map(|(name, _)| name.len());
        if spec.name().len() > NAME_BYTES_MAX || names.any(|len| len > NAME_BYTES_MAX) {
            return Err(format!("a name of more than {NAME_BYTES_MAX} bytes"));
        }
        if parameters.len() > PARAMETERS_MAX.into() {
            return Err(format!("more than {PARAMETERS_MAX} parameters"));
        }
        match self.resolve.resolve(spec.name(), parameters) {
            Ok(again) if again == *spec => Ok(()),
            Ok(_) => Err("its name and its parameters make another spec".to_owned()),
            Err(why) => Err(why.to_string()),
        }
    }

    fn value(&mut self, value: &ParameterValue) -> Result<(), String> {
        match value {
            ParameterValue::Number(number) => {
                self.to.push(0);
                self.to.extend(number.to_le_bytes());
            }
            ParameterValue::Text(text) if text.len() > TEXT_BYTES_MAX => {
                return Err(format!("a value of more than {TEXT_BYTES_MAX} bytes"));
            }
            ParameterValue::Text(text) => {
                self.to.push(1);
                put_text(self.to, text, TEXT_BYTES_MAX);
            }
            ParameterValue::Material(material) => self.material(material)?,
        }
        Ok(())
    }

    fn material(&mut self, material: &Material) -> Result<(), String> {
        let len = material.bytes().len();
        let is_secret = material.is_secret();
        if is_secret && !self.security.keeps_secrets() {
            return Err(
                "it has a secret, and the session is not encrypted; use one that is, or a tunnel to loopback"
                    .to_owned(),
            );
        }
        if self.to.len().saturating_add(len) > self.bytes_max {
            let max = self.bytes_max;
            return Err(format!(
                "its keys and tables have more than {max} bytes, the most that an agent takes"
            ));
        }
        // As much as it needs now, so that no copy of a secret is left behind where a list has grown.
        let room = len + 4096;
        let mut more = SecretBytes(Vec::with_capacity(self.to.len() + room));
        more.0.extend(&*self.to);
        std::mem::swap(self.to, &mut more.0);
        self.to.push(2 + u8::from(is_secret));
        put_block(self.to, material.bytes());
        Ok(())
    }
}

/// The spec that `bytes` are.
///
/// # Errors
/// [`SpecError`]. A secret that came over a session that does not keep it is refused.
pub(super) fn decode(
    bytes: &[u8],
    resolve: &dyn Resolve,
    security: SessionSecurity,
) -> Result<OpSpec, SpecError> {
    let mut decoder = Decoder {
        from: Reader::new(bytes),
        resolve,
        security,
        stages: 0,
    };
    let spec = decoder.spec(0)?;
    decoder.from.end()?;
    Ok(spec)
}

struct Decoder<'a> {
    from: Reader<'a>,
    resolve: &'a dyn Resolve,
    security: SessionSecurity,
    stages: usize,
}

impl<'a> Decoder<'a> {
    fn spec(&mut self, nesting: usize) -> Result<OpSpec, SpecError> {
        self.stages += 1;
        if self.stages > STAGES_MAX {
            return Err(Malformed("a chain of too many operators").into());
        }
        match self.from.u8()? {
            0 => self.operator(),
            1 if nesting < NESTING_MAX => {
                let count = self.from.u16()?;
                let mut stages = Vec::new();
                for _ in 0..count {
                    stages.push(self.spec(nesting + 1)?);
                }
                Ok(OpSpec::from(spec::Chain(stages)))
            }
            1 => Err(Malformed("chains in chains in chains").into()),
            _ => Err(Malformed("neither an operator nor a chain").into()),
        }
    }

    fn operator(&mut self) -> Result<OpSpec, SpecError> {
        let name = self.from.text(NAME_BYTES_MAX)?;
        let count = self.from.u16()?;
        if count > PARAMETERS_MAX {
            return Err(Malformed("too many parameters").into());
        }
        let mut parameters = Vec::new();
        for _ in 0..count {
            let name = self.from.text(NAME_BYTES_MAX)?;
            parameters.push((name, self.value()?));
        }
        let spec = self.resolve.resolve(name, &parameters);
        spec.map_err(SpecError::Refused)
    }

    fn value(&mut self) -> Result<ParameterValue, SpecError> {
        Ok(match self.from.u8()? {
            0 => self.from.i64()?.into(),
            1 => self.from.text(TEXT_BYTES_MAX)?.into(),
            2 => Material::public(self.from.block(usize::MAX)?).into(),
            3 => {
                let secret = Material::secret(self.from.block(usize::MAX)?);
                if !self.security.keeps_secrets() {
                    let why = "a secret came over a session that is not encrypted".to_owned();
                    return Err(SpecError::Refused(SetupError::Parameter(why)));
                }
                secret.into()
            }
            _ => return Err(Malformed("a parameter of no kind").into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpb_operators::registry::{self, Operators};
    use proptest::prelude::*;

    const BYTES_MAX: usize = 64 << 20;

    fn resolve(name: &str, parameters: &[(&str, ParameterValue)]) -> Result<OpSpec, SetupError> {
        Operators::DPB.spec_from(name, parameters)
    }

    fn encoded(spec: &OpSpec) -> SecretBytes {
        encode(spec, &resolve, SessionSecurity::Loopback, BYTES_MAX).expect("it can be sent")
    }

    fn decoded(bytes: &[u8]) -> Result<OpSpec, SpecError> {
        decode(bytes, &resolve, SessionSecurity::Loopback)
    }

    fn short_specs() -> Vec<OpSpec> {
        let names = ["crc32c", "deflate", "aes-gcm", "erasure-encode", "toeplitz"];
        let find = |name| registry::find(name).expect("registered").default_spec();
        let mut specs: Vec<OpSpec> = names.into_iter().map(find).collect();
        specs.push(OpSpec::from(spec::Chain(specs[..3].to_vec())));
        let nested = OpSpec::from(spec::Chain(specs[3..].to_vec()));
        specs.push(nested);
        specs
    }

    #[test]
    fn every_spec_is_the_same_at_the_other_end() {
        for entry in registry::OPERATORS {
            for case in entry.cases() {
                let bytes = encoded(&case.spec);
                assert_eq!(decoded(&bytes.0), Ok(case.spec), "{}", entry.name);
            }
        }
        for spec in short_specs() {
            assert_eq!(decoded(&encoded(&spec).0), Ok(spec));
        }
    }

    #[test]
    fn what_cannot_be_made_again_is_not_sent() {
        let said = |spec: OpSpec, security| {
            let refused = encode(&spec, &resolve, security, 1000).err();
            refused.expect("not to be sent").reason
        };
        let loopback = SessionSecurity::Loopback;
        let why = said(OpSpec::custom("sum", []), loopback);
        assert!(why.contains("no operator sum"), "{why}");
        let why = said(OpSpec::custom("crc32c", []), loopback);
        assert!(why.contains("another spec"), "{why}");
        let aes = registry::find("aes-gcm")
            .expect("registered")
            .default_spec();
        let why = said(aes.clone(), SessionSecurity::Clear);
        assert!(why.contains("not encrypted"), "{why}");
        let in_chain = OpSpec::from(spec::Chain(vec![aes.clone()]));
        let why = said(in_chain, SessionSecurity::Clear);
        assert!(why.contains("not encrypted"), "{why}");
        let routes = registry::find("lpm4").expect("registered").default_spec();
        let why = said(routes, loopback);
        assert!(why.contains("1000 bytes"), "{why}");
        let crc = OpSpec::from(spec::Crc32c);
        let long = OpSpec::from(spec::Chain(vec![crc.clone(); STAGES_MAX + 1]));
        assert!(said(long, loopback).contains("operators"));
        let nest = |spec, _| OpSpec::from(spec::Chain(vec![spec]));
        let deep = (0..=NESTING_MAX).fold(crc, nest);
        assert!(said(deep, loopback).contains("chains"));
        // And an agent takes none that a client should not have sent.
        let sent = encoded(&aes);
        let refused = decode(&sent.0, &resolve, SessionSecurity::Clear);
        assert!(matches!(refused, Err(SpecError::Refused(_))));
    }

    #[test]
    fn no_part_of_a_spec_is_one() {
        for spec in short_specs() {
            let bytes = encoded(&spec);
            for len in 0..bytes.0.len() {
                assert!(decoded(&bytes.0[..len]).is_err(), "{spec:?}, {len} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_or_a_spec(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decoded(&bytes);
        }

        #[test]
        fn a_spec_with_wrong_bytes_is_refused_or_a_spec(
            which in 0..7_usize,
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let spec = short_specs().swap_remove(which);
            let mut bytes = encoded(&spec);
            let at = at.index(bytes.0.len());
            bytes.0[at] = byte;
            if let Ok(other) = decoded(&bytes.0) {
                // The same bytes say the same spec, and no other.
                prop_assert_eq!(other == spec, encoded(&other).0 == encoded(&spec).0);
            }
        }
    }
}
