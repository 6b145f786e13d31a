//! The library Hyperscan, or Vectorscan, where it is installed.
//!
//! It is given expressions written anew from what ours mean, so that both read them alike: bytes, classes and assertions
//! that have one meaning.
#![allow(unsafe_code)]

mod sys;

use std::ffi::{CStr, CString, c_int, c_uint, c_ulonglong, c_void};
use std::fmt::Write as _;
use std::ptr::{NonNull, null, null_mut};
use std::sync::LazyLock;

use dpb_core::{SetupError, Unsupported};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::Match;
use super::plan::bytes;
use super::rules::{Rule, Rules};

/// The library, loaded: proof that it is there and runs on this CPU.
#[derive(Clone, Copy)]
pub struct Hyperscan(&'static sys::Functions);

/// The library's code for too little memory.
pub(super) const NO_MEMORY: c_int = sys::HS_NOMEM;

static LIBRARY: LazyLock<Option<sys::Functions>> = LazyLock::new(|| {
    let functions = sys::Functions::load()?;
    // SAFETY: takes nothing, and may be called at any time.
    let is_valid = unsafe { (functions.hs_valid_platform)() } == sys::HS_SUCCESS;
    is_valid.then_some(functions)
});

/// Rules, compiled by the library.
pub(super) struct Database {
    hyperscan: Hyperscan,
    database: NonNull<sys::Database>,
    /// To make more of.
    scratch: Scratch,
}

/// Room for one scan at a time, and what it has found.
pub(super) struct Scratch {
    hyperscan: Hyperscan,
    scratch: NonNull<sys::Scratch>,
    found: Vec<Match>,
}

// SAFETY: a database is never written to once it is compiled, and Hyperscan lets any number of threads scan with it, each
// with its own scratch; the scratch in here is only ever cloned, which reads it.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}
// SAFETY: a scratch belongs to no thread; it is used by one at a time because scanning takes it mutably.
unsafe impl Send for Scratch {}

impl Hyperscan {
    /// The requirement, in words.
    pub const NEEDS: &'static str = "the library libhs.so.5 (Debian's libhyperscan5 or libvectorscan5), and a CPU that it runs on";

    /// The library, if there is one.
    pub fn detect() -> Option<Self> {
        LIBRARY.as_ref().map(Self)
    }

    /// The library's own version and date.
    pub fn version(self) -> &'static str {
        // SAFETY: takes nothing; gives a constant string of the library, which stays loaded.
        let version = unsafe { CStr::from_ptr((self.0.hs_version)()) };
        version.to_str().unwrap_or("of unknown version")
    }

    /// Compiles rules.
    ///
    /// # Errors
    /// What the library says against one of them; or if it would take one for another.
    pub(super) fn compile(self, rules: &Rules) -> Result<Database, SetupError> {
        let unsupported = |reason: String| SetupError::Unsupported(Unsupported { reason });
        let rules = rules.rules();
        if let Some(rule) = rules.iter().find(|rule| is_misread(&rule.hir)) {
            return Err(unsupported(format!(
                "Hyperscan: rule {} has matches of no bytes that hang on an assertion, some of which it does not find",
                rule.id
            )));
        }
        let written: Vec<CString> = rules.iter().map(written).collect();
        let expressions: Vec<_> = written.iter().map(|one| one.as_ptr()).collect();
        let ids: Vec<c_uint> = rules.iter().map(|rule| rule.id).collect();
        let flags: Vec<c_uint> = rules.iter().map(flags).collect();
        let (mut database, mut error) = (null_mut(), null_mut());
        // SAFETY: three lists of as many entries as said, of strings that live through the call; no platform means this
        // one; the two places are written by the call: the database on success, else the error.
        let status = unsafe {
            (self.0.hs_compile_multi)(
                expressions.as_ptr(),
                flags.as_ptr(),
                ids.as_ptr(),
                rules.len() as c_uint,
                sys::HS_MODE_BLOCK,
                null(),
                &mut database,
                &mut error,
            )
        };
        if status != sys::HS_SUCCESS {
            return Err(unsupported(self.take_error(error, rules)));
        }
        let database = NonNull::new(database)
            .ok_or_else(|| unsupported("Hyperscan: compiling gave no database".to_owned()))?;
        let mut scratch = null_mut();
        // SAFETY: the database just compiled, and a place that holds no scratch yet.
        let status = unsafe { (self.0.hs_alloc_scratch)(database.as_ptr(), &mut scratch) };
        match NonNull::new(scratch).filter(|_| status == sys::HS_SUCCESS) {
            Some(scratch) => Ok(Database {
                hyperscan: self,
                database,
                scratch: Scratch::new(self, scratch),
            }),
            None => {
                // SAFETY: the database just compiled, which nobody else has.
                unsafe { (self.0.hs_free_database)(database.as_ptr()) };
                Err(unsupported(format!(
                    "Hyperscan: no memory to scan with these rules (status {status})"
                )))
            }
        }
    }

    fn take_error(self, error: *mut sys::CompileError, rules: &[Rule]) -> String {
        // SAFETY: null, or an error that the library wrote and that lives until it is freed here, its message with it.
        unsafe {
            let Some(said) = error.as_ref() else {
                return "Hyperscan: compiling failed without a reason".to_owned();
            };
            let message = CStr::from_ptr(said.message).to_string_lossy();
            let rule = usize::try_from(said.expression).ok();
            let of = rule.and_then(|number| rules.get(number));
            let of = of.map_or(String::new(), |rule| format!(" rule {}:", rule.id));
            let reason = format!("Hyperscan:{of} {message}");
            (self.0.hs_free_compile_error)(error);
            reason
        }
    }
}

impl Database {
    /// `None` if there is no memory.
    pub(super) fn scratch(&self) -> Option<Scratch> {
        let mut scratch = null_mut();
        // SAFETY: a scratch that nobody scans with, and a place that holds none.
        let status = unsafe {
            (self.hyperscan.0.hs_clone_scratch)(self.scratch.scratch.as_ptr(), &mut scratch)
        };
        let scratch = NonNull::new(scratch).filter(|_| status == sys::HS_SUCCESS)?;
        Some(Scratch::new(self.hyperscan, scratch))
    }

    /// The matches in `payload`, sorted.
    ///
    /// # Errors
    /// The library's own code.
    pub(super) fn scan<'a>(
        &self,
        payload: &[u8],
        scratch: &'a mut Scratch,
    ) -> Result<&'a [Match], c_int> {
        scratch.found.clear();
        let found: *mut Vec<Match> = &mut scratch.found;
        // SAFETY: a compiled database, a payload of its own length, a scratch that was made for this database and is
        // borrowed for the call, and a list that `on_match` alone refers to until the call is over.
        let status = unsafe {
            (self.hyperscan.0.hs_scan)(
                self.database.as_ptr(),
                payload.as_ptr().cast(),
                payload.len() as c_uint,
                0,
                scratch.scratch.as_ptr(),
                on_match,
                found.cast(),
            )
        };
        if status != sys::HS_SUCCESS {
            return Err(status);
        }
        scratch.found.sort_unstable();
        // Rules without SINGLEMATCH are reported at each of their ends.
        scratch.found.dedup_by_key(|found| found.id);
        Ok(&scratch.found)
    }
}

extern "C" fn on_match(
    id: c_uint,
    _start: c_ulonglong,
    end: c_ulonglong,
    _flags: c_uint,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the list that `Database::scan` gave, to which nobody else refers during the call.
    let found = unsafe { &mut *found.cast::<Vec<Match>>() };
    let end = end as u32;
    found.push(Match { id, end });
    0
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: compiled by the library, freed once; whoever scans borrows `self`.
        unsafe { (self.hyperscan.0.hs_free_database)(self.database.as_ptr()) };
    }
}

impl Scratch {
    fn new(hyperscan: Hyperscan, scratch: NonNull<sys::Scratch>) -> Self {
        Self {
            hyperscan,
            scratch,
            found: Vec::new(),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: made by the library, freed once; whoever scans with it borrows `self`.
        unsafe { (self.hyperscan.0.hs_free_scratch)(self.scratch.as_ptr()) };
    }
}

/// Whether the library, 5.4, is wrong about a rule: of `\b|a` in `a` it finds the `a` only.
fn is_misread(hir: &Hir) -> bool {
    let properties = hir.properties();
    properties.minimum_len() == Some(0) && !properties.look_set().is_empty()
}

/// The flags with which a rule is compiled: with one report, the first, where reports come in the order of their ends.
///
/// They do not where an assertion reads the byte behind a match: that match is reported once the byte is known, together
/// with those that end behind it. Of `A(?:\n|$)` in lines of `A`, version 5.4 reports the line feed's end first. Such
/// rules report every end, and the smallest is taken.
fn flags(rule: &Rule) -> c_uint {
    let flags = sys::HS_FLAG_DOTALL | sys::HS_FLAG_ALLOWEMPTY;
    let parts = match rule.hir.kind() {
        HirKind::Concat(parts) => parts,
        _ => std::slice::from_ref(&rule.hir),
    };
    // Assertions in front of the first byte move no end.
    let is_look = |part: &&Hir| matches!(part.kind(), HirKind::Look(_));
    let mut rest = parts.iter().skip_while(is_look);
    let reads_on = |part: &Hir| {
        let looks = part.properties().look_set();
        looks.contains_word() || looks.contains(Look::EndLF) || looks.contains(Look::End)
    };
    if rest.any(reads_on) {
        flags
    } else {
        flags | sys::HS_FLAG_SINGLEMATCH
    }
}

/// A rule in a syntax of few words.
fn written(rule: &Rule) -> CString {
    let mut text = String::new();
    put(&rule.hir, &mut text);
    CString::new(text).expect("a zero byte is written as an escape")
}

fn put(hir: &Hir, text: &mut String) {
    match hir.kind() {
        HirKind::Empty => text.push_str("(?:)"),
        HirKind::Literal(literal) => literal.0.iter().for_each(|byte| put_byte(*byte, text)),
        HirKind::Class(class) => put_class(class, text),
        HirKind::Look(look) => text.push_str(match look {
            Look::Start => "^",
            Look::End => "\\z",
            Look::StartLF => "(?m:^)",
            Look::EndLF => "(?m:$)",
            Look::WordAscii => "\\b",
            Look::WordAsciiNegate => "\\B",
            look => unreachable!("no rule has {look:?}"),
        }),
        HirKind::Repetition(repetition) => {
            put_group(std::slice::from_ref(&*repetition.sub), "", text);
            let min = repetition.min;
            let _ = match repetition.max {
                Some(max) => write!(text, "{{{min},{max}}}"),
                None => write!(text, "{{{min},}}"),
            };
        }
        HirKind::Capture(capture) => put(&capture.sub, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| put(part, text)),
        HirKind::Alternation(branches) => put_group(branches, "|", text),
    }
}

fn put_group(parts: &[Hir], between: &str, text: &mut String) {
    text.push_str("(?:");
    for (i, part) in parts.iter().enumerate() {
        text.push_str(if i > 0 { between } else { "" });
        put(part, text);
    }
    text.push(')');
}

fn put_class(class: &Class, text: &mut String) {
    let Some(bytes) = bytes(class) else {
        // Of literals that are UTF-8.
        let literal = |one: char| Hir::literal(one.to_string().into_bytes());
        let Class::Unicode(class) = class else {
            unreachable!("bytes are bytes")
        };
        let all = class.iter().flat_map(|range| range.start()..=range.end());
        return put_group(&all.map(literal).collect::<Vec<_>>(), "|", text);
    };
    text.push('[');
    if bytes.ranges().is_empty() {
        text.push_str("^\\x00-\\xff");
    }
    for range in bytes.iter() {
        put_byte(range.start(), text);
        text.push('-');
        put_byte(range.end(), text);
    }
    text.push(']');
}

fn put_byte(byte: u8, text: &mut String) {
    let _ = write!(text, "\\x{byte:02x}");
}

impl std::fmt::Debug for Hyperscan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hyperscan({})", self.version())
    }
}
