//! Bytes that an operator is prepared with besides its numbers.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::sync::{Arc, OnceLock};

/// A key, a route list, a rule file: bytes in a form that the operator's page names and other programs read. Cheap to
/// clone; equal if the bytes and the kind are.
///
/// **Public** material is told by what `Display`, `Debug` and records say of it: the FNV-1a 64 of its bytes, and their
/// length. Of **secret** material they say the length and nothing else, neither content nor hash.
///
/// The bytes of a secret are overwritten when its last clone is dropped. This protects against a later read of freed memory by
/// the same process, and against no more. The optimiser is discouraged from leaving the writes out but not forbidden to (only
/// volatile writes are safe from it). Code that read the bytes may hold copies, a key schedule for example. Swap and core
/// dumps are out of reach.
#[derive(Clone)]
pub struct Material(Arc<Held>);

struct Held {
    bytes: Vec<u8>,
    /// FNV-1a 64 of the bytes, once somebody has asked: a table of gigabytes is not read only to be held.
    hash: OnceLock<u64>,
    is_secret: bool,
}

impl Material {
    /// Material whose content everybody may know.
    pub fn public(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(bytes.into(), false)
    }

    /// Material whose content must never be shown. Pass the bytes themselves: a copy of yours is not overwritten.
    pub fn secret(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(bytes.into(), true)
    }

    /// The content.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Whether the content must never be shown.
    pub fn is_secret(&self) -> bool {
        self.0.is_secret
    }

    fn new(bytes: Vec<u8>, is_secret: bool) -> Self {
        Self(Arc::new(Held {
            bytes,
            hash: OnceLock::new(),
            is_secret,
        }))
    }
}

impl Held {
    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| fnv1a64(FNV_START, &self.bytes))
    }

    /// Leaves neither the bytes nor what could give them away.
    fn clear(&mut self) {
        self.bytes.fill(0);
        self.hash = OnceLock::new();
        black_box(self);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_secret {
            self.clear();
        }
    }
}

impl PartialEq for Material {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        Arc::ptr_eq(&self.0, &other.0) || a.is_secret == b.is_secret && a.bytes == b.bytes
    }
}

impl Eq for Material {}

impl Hash for Material {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash());
    }
}

/// `fnv1a:cbf29ce484222325, 0 bytes`; `secret, 32 bytes`.
impl fmt::Display for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.bytes().len();
        match self.is_secret() {
            true => write!(f, "secret, {len} bytes"),
            false => write!(f, "fnv1a:{:016x}, {len} bytes", self.0.hash()),
        }
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Material({self})")
    }
}

/// The FNV-1a 64 of nothing.
pub(crate) const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a (Fowler, Noll, Vo; RFC 9923), 64 bits: of what gave `hash`, followed by `bytes`.
pub(crate) fn fnv1a64(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;
    use crate::{OpSpec, ParameterValue};

    #[test]
    fn public_material_is_told_by_its_published_hash() {
        // The FNV test suite's vectors.
        for (bytes, said) in [
            ("", "fnv1a:cbf29ce484222325, 0 bytes"),
            ("a", "fnv1a:af63dc4c8601ec8c, 1 bytes"),
            ("foobar", "fnv1a:85944171f73967e8, 6 bytes"),
        ] {
            assert_eq!(Material::public(bytes).to_string(), said);
        }
    }

    #[test]
    fn a_secret_shows_nowhere() {
        let key = Material::secret(*b"0123456789abcdef");
        assert_eq!(key.to_string(), "secret, 16 bytes");
        assert_eq!(format!("{key:?}"), "Material(secret, 16 bytes)");
        let hash = format!("{:x}", fnv1a64(FNV_START, key.bytes()));
        let spec = OpSpec::custom("seal", [("key", key.clone().into())]);
        for said in [
            format!("{spec:?}"),
            format!("{spec:#?}"),
            format!("{:?}", spec.parameters()),
        ] {
            assert!(said.contains("secret, 16 bytes"), "{said}");
            // Neither as text nor as a list of numbers, nor what could be tried against guesses.
            for leak in ["0123", "48, 49", &hash] {
                assert!(!said.contains(leak), "{said}");
            }
        }
        let value = ParameterValue::from(key);
        assert_eq!(value.to_string(), "secret, 16 bytes");
        #[cfg(feature = "measure")]
        {
            let record = crate::measure::Value::from(value);
            assert_eq!(record, crate::measure::Value::from("secret, 16 bytes"));
        }
    }

    #[test]
    fn equal_is_equal_by_content_and_kind() {
        let hash = |material: &Material| {
            std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(material)
        };
        let one = Material::public("routes");
        let same = Material::public(*b"routes");
        assert_eq!(one, same);
        assert_eq!(hash(&one), hash(&same));
        assert_ne!(one, Material::public("Routes"));
        assert_ne!(one, Material::secret("routes"));
        let spec =
            |material: &Material| OpSpec::custom("lookup", [("routes", material.clone().into())]);
        assert_eq!(spec(&one), spec(&same));
        assert_ne!(spec(&one), spec(&Material::public("none")));
    }

    #[test]
    fn clearing_leaves_nothing() {
        let mut held = Held {
            bytes: b"key".to_vec(),
            hash: OnceLock::new(),
            is_secret: true,
        };
        assert_eq!(held.hash(), fnv1a64(FNV_START, b"key"));
        held.clear();
        assert_eq!(
            (held.bytes.as_slice(), held.hash.get()),
            (&[0; 3][..], None)
        );
    }

    #[test]
    fn nothing_is_hashed_before_somebody_asks() {
        let (one, same) = (Material::public("routes"), Material::public("routes"));
        assert_eq!(one, same);
        assert_eq!(
            [&one, &same].map(|material| material.0.hash.get()),
            [None; 2]
        );
        assert_eq!(one.to_string(), same.to_string());
        assert!(
            [&one, &same]
                .iter()
                .all(|material| material.0.hash.get().is_some())
        );
    }
}
