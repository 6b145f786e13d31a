//! `strxfrm`: text to a key that sorts as bytes the way the text sorts in a language.
//!
#![doc = include_str!("../../docs/strxfrm.md")]

use dpb_core::{
    Batch, BatchOut, CollationLocale, Input, JobError, Kernel, OpSpec, OutputShape, Right,
    SetupError, Workload, spec,
};
use icu_collator::CollatorBorrowed;
use icu_collator::options::CollatorOptions;
use icu_locale_core::{Locale, locale};

use crate::entry::{Entry, PORTABLE, library, own};
use crate::implementation::Implementation;
use crate::input;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "primitive",
    summary: "sort key of each item, which is text",
    output: "variable: bytes that compare as the text sorts",
    source: "Unicode Technical Standards 10 and 35 (CLDR)",
    paths: Strxfrm::PATHS,
    allocates: &[Implementation::Portable],
    libraries: &[(Implementation::Portable, library!("icu_collator"))],
    documentation: include_str!("../../docs/strxfrm.md"),
    ..Entry::of::<spec::Strxfrm>(
        |spec, path| {
            Ok(Box::new(Strxfrm::new(
                own::<spec::Strxfrm>(spec).locale,
                path,
            )?))
        },
        |case| {
            let locale = own::<spec::Strxfrm>(&case.spec).locale;
            Ok(Box::new(Text {
                strxfrm: Strxfrm::new(locale, Implementation::Portable)?,
                spec: case.spec.clone(),
            }))
        },
    )
};

/// Sort keys in one locale, by ICU4X.
///
/// ```
/// use dpb_core::CollationLocale;
/// use dpb_operators::primitive::strxfrm::Strxfrm;
///
/// let key = |locale, text: &str| Strxfrm::best(locale).key(text.as_bytes());
/// assert!("zebra" < "äpple");
/// assert!(key(CollationLocale::Root, "äpple") < key(CollationLocale::Root, "zebra"));
/// assert!(key(CollationLocale::Swedish, "äpple") > key(CollationLocale::Swedish, "zebra"));
/// ```
#[derive(Debug)]
pub struct Strxfrm(CollatorBorrowed<'static>);

impl Strxfrm {
    /// The path there is.
    pub const PATHS: &'static [Implementation] = &[Implementation::Portable];

    /// In the order of `locale`, on `path`.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn new(locale: CollationLocale, path: Implementation) -> Result<Self, SetupError> {
        path.among("strxfrm", Self::PATHS)?;
        let locale: Locale = match locale {
            CollationLocale::Root => Locale::UNKNOWN,
            CollationLocale::GermanPhonebook => locale!("de-u-co-phonebk"),
            CollationLocale::Swedish => locale!("sv"),
        };
        let collator = CollatorBorrowed::try_new(locale.into(), CollatorOptions::default());
        Ok(Self(collator.expect("its data is built in")))
    }

    /// In the order of `locale`.
    pub fn best(locale: CollationLocale) -> Self {
        Self::new(locale, Implementation::Portable).expect("runs on any CPU")
    }

    /// The key of `text`.
    pub fn key(&self, text: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        let Ok(()) = self.0.write_sort_key_utf8_to(text, &mut key);
        key
    }
}

impl Kernel for Strxfrm {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// Room for the key of any usual text: weights of three levels take less than four bytes for each of the text.
    fn dst_len(&self, item_len: usize) -> usize {
        4 * item_len + 16
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            let written = self.0.write_sort_key_utf8_to(item, slot);
            let written = written.map(|len| len as u32);
            written.map_err(|_| JobError::DstTooShort)
        });
        Ok(())
    }
}

/// Text; right is the key that a vector takes instead of a slot.
struct Text {
    spec: OpSpec,
    strxfrm: Strxfrm,
}

impl Workload for Text {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        input::text(seed, len, count)
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        Right::Only(self.strxfrm.key(item))
    }
}
