//! The messages besides jobs and completions: headers, and the bodies of questions and answers.

use std::num::NonZeroU32;

use dpb_core::{
    ChangeError, Evidence, Executor, Inner, Limits, MadeOf, NotInPlace, OutputShape, Properties,
    SetupError, Unsupported,
};

use super::codec::{Malformed, Reader, put_block, put_size, put_text};

/// The version of the protocol. Both sides need the same.
pub const VERSION: u16 = 3;

/// Bytes of a message's header.
pub(super) const HEADER_BYTES: usize = 8;
/// Longest name of a backend.
pub(super) const NAME_BYTES_MAX: usize = 1024;
/// Longest text for a person.
pub(super) const TEXT_BYTES_MAX: usize = 2048;
/// Longest body that is neither a spec, changes, a job nor a completion.
pub(super) const SHORT_BYTES_MAX: usize = 16 << 10;
/// Longest body of changes to a table.
pub(super) const CHANGES_BYTES_MAX: usize = 16 << 20;
/// The lengths that one message of lengths has.
pub(super) const LENGTHS: usize = 256;
/// Longest words of a transport for its ring.
pub(super) const RING_WORDS_MAX: usize = 1024;
/// Bytes of a message of credit, its header included.
pub(super) const CREDIT_BYTES: usize = HEADER_BYTES + 4;
/// Backends inside one another.
const INNER_MAX: usize = 8;
const MAGIC: [u8; 4] = *b"dpbO";

/// The number of a prepared operator, which nobody can guess.
pub(super) type Number = [u8; 16];

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Tag {
    Hello = 1,
    Welcome,
    Backend,
    Described,
    Limits,
    Limited,
    Prepare,
    Prepared,
    AskLengths,
    Lengths,
    Change,
    Commit,
    Release,
    Changed,
    Open,
    Opened,
    Job,
    Done,
    Refused,
    Ring,
    Rings,
    Join,
    Joined,
    JobPlaced,
    DonePlaced,
    Credit,
    Working,
}

impl Tag {
    const ALL: [Self; 27] = [
        Self::Hello,
        Self::Welcome,
        Self::Backend,
        Self::Described,
        Self::Limits,
        Self::Limited,
        Self::Prepare,
        Self::Prepared,
        Self::AskLengths,
        Self::Lengths,
        Self::Change,
        Self::Commit,
        Self::Release,
        Self::Changed,
        Self::Open,
        Self::Opened,
        Self::Job,
        Self::Done,
        Self::Refused,
        Self::Ring,
        Self::Rings,
        Self::Join,
        Self::Joined,
        Self::JobPlaced,
        Self::DonePlaced,
        Self::Credit,
        Self::Working,
    ];
}

/// The front of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) tag: Tag,
    /// Bytes of the body.
    pub(super) len: usize,
}

impl Header {
    pub(super) fn read(bytes: [u8; HEADER_BYTES]) -> Result<Self, Malformed> {
        let [tag, 0, 0, 0, len @ ..] = bytes else {
            return Err(Malformed("no header"));
        };
        let mut tags = Tag::ALL.into_iter();
        let tag = tags.find(|known| *known as u8 == tag);
        Ok(Self {
            tag: tag.ok_or(Malformed("a message of no kind"))?,
            len: u32::from_le_bytes(len) as usize,
        })
    }

    /// # Panics
    /// If the body is 4 GiB or more: bodies are bounded by far less.
    pub(super) fn bytes(self) -> [u8; HEADER_BYTES] {
        let len = u32::try_from(self.len).expect("a bounded body");
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.tag as u8;
        bytes[4..].copy_from_slice(&len.to_le_bytes());
        bytes
    }
}

/// A whole message.
pub(super) fn message(tag: Tag, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let mut message = Vec::with_capacity(HEADER_BYTES + len);
    message.extend(Header { tag, len }.bytes());
    message.extend(body);
    message
}

/// A reason to say no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The peer broke a rule of the protocol, or the agent cannot go on: the connection is over.
    Fatal(String),
    /// As the seam says it.
    Setup(SetupError),
}

impl From<Malformed> for Refusal {
    fn from(why: Malformed) -> Self {
        Self::Fatal(why.to_string())
    }
}

impl From<Unsupported> for Refusal {
    fn from(why: Unsupported) -> Self {
        Self::Setup(why.into())
    }
}

/// The body of `hello`, and the front of `welcome`.
pub(super) fn greeting() -> Vec<u8> {
    let mut body = MAGIC.to_vec();
    body.extend(VERSION.to_le_bytes());
    body
}

/// A whole message that gives `pieces` of a ring back.
pub(super) fn credit(pieces: u32) -> [u8; CREDIT_BYTES] {
    let (tag, len) = (Tag::Credit, CREDIT_BYTES - HEADER_BYTES);
    let mut bytes = [0; CREDIT_BYTES];
    bytes[..HEADER_BYTES].copy_from_slice(&Header { tag, len }.bytes());
    bytes[HEADER_BYTES..].copy_from_slice(&pieces.to_le_bytes());
    bytes
}

/// The pieces that the message at the front of `bytes` gives back; `None` if it is of another kind, or not all there.
pub(super) fn read_credit(bytes: &[u8]) -> Result<Option<u32>, Malformed> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    match Header::read(*header)? {
        Header {
            tag: Tag::Credit,
            len: 4,
        } => Ok(rest.first_chunk().map(|pieces| u32::from_le_bytes(*pieces))),
        Header {
            tag: Tag::Credit, ..
        } => Err(Malformed("a credit of another length")),
        _ => Ok(None),
    }
}

/// The body of `rings`: the answer to the peer's words, and the words for a ring of one's own.
pub(super) fn put_rings(to: &mut Vec<u8>, answer: &[u8], words: &[u8]) {
    put_block(to, answer);
    put_block(to, words);
}

pub(super) fn read_rings(body: &[u8]) -> Result<[&[u8]; 2], Malformed> {
    let mut from = Reader::new(body);
    let rings = [from.block(RING_WORDS_MAX)?, from.block(RING_WORDS_MAX)?];
    from.end()?;
    Ok(rings)
}

/// What follows a greeting of this version.
pub(super) fn read_greeting(body: &[u8]) -> Result<Reader<'_>, String> {
    let mut from = Reader::new(body);
    let (magic, version) = (from.array(), from.u16());
    match (magic, version) {
        (Ok(MAGIC), Ok(VERSION)) => Ok(from),
        (Ok(MAGIC), Ok(other)) => Err(format!(
            "the other side speaks version {other} of the protocol of operators, this one version {VERSION}; both need the same dpb"
        )),
        _ => Err("the other side does not speak dpb's protocol of operators".to_owned()),
    }
}

pub(super) fn put_refusal(to: &mut Vec<u8>, refusal: &Refusal) {
    let (kind, numbers, text) = match refusal {
        Refusal::Fatal(text) => (0, [0, 0], text.clone()),
        Refusal::Setup(SetupError::Unsupported(why)) => (1, [0, 0], why.reason.clone()),
        Refusal::Setup(SetupError::TooDeep { asked, depth_max }) => {
            (2, [u64::from(*asked), u64::from(*depth_max)], String::new())
        }
        Refusal::Setup(SetupError::OutOfMemory { len }) => (3, [*len as u64, 0], String::new()),
        Refusal::Setup(SetupError::TooLittleMemory {
            needed_bytes,
            available_bytes,
        }) => (4, [*needed_bytes, *available_bytes], String::new()),
        Refusal::Setup(SetupError::NoThread { reason }) => (5, [0, 0], reason.clone()),
        Refusal::Setup(other) => (6, [0, 0], other.to_string()),
    };
    to.push(kind);
    numbers.iter().for_each(|n| to.extend(n.to_le_bytes()));
    put_text(to, &text, TEXT_BYTES_MAX);
}

pub(super) fn read_refusal(body: &[u8]) -> Result<Refusal, Malformed> {
    let mut from = Reader::new(body);
    let kind = from.u8()?;
    let numbers = [from.u64()?, from.u64()?];
    let text = from.words(TEXT_BYTES_MAX)?;
    from.end()?;
    let small = |n: u64| u32::try_from(n).map_err(|_| Malformed("a depth beyond any"));
    Ok(Refusal::Setup(match kind {
        0 => return Ok(Refusal::Fatal(text)),
        1 => SetupError::Unsupported(Unsupported { reason: text }),
        2 => SetupError::TooDeep {
            asked: small(numbers[0])?,
            depth_max: small(numbers[1])?,
        },
        3 => SetupError::OutOfMemory {
            len: usize::try_from(numbers[0]).unwrap_or(usize::MAX),
        },
        4 => SetupError::TooLittleMemory {
            needed_bytes: numbers[0],
            available_bytes: numbers[1],
        },
        5 => SetupError::NoThread { reason: text },
        6 => SetupError::Parameter(text),
        _ => return Err(Malformed("a refusal of no kind")),
    }))
}

pub(super) fn put_properties(to: &mut Vec<u8>, properties: &Properties) {
    let (kind, text) = match &properties.evidence {
        Evidence::Measured => (0, ""),
        Evidence::Emulated { by } => (1, by.as_str()),
        Evidence::Simulated { model } => (2, model.as_str()),
        Evidence::Published { source } => (3, source.as_str()),
        // No backend's figures are predictions, and the other end refuses it.
        Evidence::Predicted { model, .. } => (4, model.as_str()),
    };
    to.push(kind);
    put_text(to, text, TEXT_BYTES_MAX);
    let mut made_of = Some(&properties.made_of);
    for _ in 0..INNER_MAX {
        let Some(parts) = made_of else { break };
        let (executor, threads) = match parts.executor {
            Executor::Caller => (0, 0),
            Executor::Workers { threads } => (1, threads.get()),
            Executor::Device => (2, 0),
            Executor::Model => (3, 0),
        };
        to.push(executor);
        to.extend(threads.to_le_bytes());
        for part in [&parts.library, &parts.device] {
            to.push(part.is_some().into());
            put_text(to, part.as_deref().unwrap_or(""), TEXT_BYTES_MAX / 2);
        }
        let inner = parts.inner.as_deref();
        put_text(to, inner.map_or("", |inner| &inner.name), NAME_BYTES_MAX);
        made_of = inner.map(|inner| &inner.made_of);
    }
}

/// Reads what [`put_properties`] wrote: the rest of a message.
pub(super) fn read_properties(from: &mut Reader<'_>) -> Result<Properties, Malformed> {
    let (kind, text) = (from.u8()?, from.words(TEXT_BYTES_MAX)?);
    let evidence = match kind {
        0 => Evidence::Measured,
        1 => Evidence::Emulated { by: text },
        2 => Evidence::Simulated { model: text },
        3 => Evidence::Published { source: text },
        _ => return Err(Malformed("evidence of no kind")),
    };
    let properties = Properties::of_this_cpu().with_evidence(evidence);
    let made_of = read_made_of(from, &properties.made_of, 0)?;
    Ok(with_parts(properties, made_of))
}

/// `properties` of another make.
fn with_parts(mut properties: Properties, made_of: MadeOf) -> Properties {
    properties.made_of = made_of;
    properties
}

/// `blank` is any: it is filled in.
fn read_made_of(from: &mut Reader<'_>, blank: &MadeOf, depth: usize) -> Result<MadeOf, Malformed> {
    let mut made_of = blank.clone();
    let (executor, threads) = (from.u8()?, from.u32()?);
    made_of.executor = match (executor, NonZeroU32::new(threads)) {
        (0, None) => Executor::Caller,
        (1, Some(threads)) => Executor::Workers { threads },
        (2, None) => Executor::Device,
        (3, None) => Executor::Model,
        _ => return Err(Malformed("an executor of no kind")),
    };
    let mut part = || {
        let is_some = from.bool()?;
        let text = from.words(TEXT_BYTES_MAX)?;
        Ok(is_some.then_some(text))
    };
    (made_of.library, made_of.device) = (part()?, part()?);
    let name = from.words(NAME_BYTES_MAX)?;
    // What lies deeper than anything that there is was left out.
    let has_inner = !name.is_empty() && depth + 1 < INNER_MAX;
    made_of.inner = match has_inner {
        true => Some(Box::new(Inner {
            name,
            made_of: read_made_of(from, blank, depth + 1)?,
        })),
        false => None,
    };
    Ok(made_of)
}

pub(super) fn put_limits(to: &mut Vec<u8>, limits: &Limits) {
    to.extend(limits.depth_max.get().to_le_bytes());
    let sizes = [
        limits.input_bytes_max,
        limits.item_bytes_max,
        limits.items_max,
    ];
    sizes.iter().for_each(|size| put_size(to, *size));
}

pub(super) fn read_limits(from: &mut Reader<'_>) -> Result<Limits, Malformed> {
    let depth_max = NonZeroU32::new(from.u32()?).ok_or(Malformed("a depth of zero"))?;
    let mut limits = Limits::new(depth_max);
    limits.input_bytes_max = from.size()?;
    limits.item_bytes_max = from.size()?;
    limits.items_max = from.size()?;
    // Nothing is done inside the caller's `submit`, whatever the agent's backend does.
    limits.synchronous = false;
    Ok(limits)
}

/// An operator as an agent prepared it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) number: Number,
    pub(super) limits: Limits,
    /// Most bytes that the slots of a job may have together.
    pub(super) output_bytes_max: usize,
    pub(super) shape: OutputShape,
    pub(super) in_place: Result<usize, NotInPlace>,
    /// True if it has a table that changes.
    pub(super) has_control: bool,
}

pub(super) fn put_facts(to: &mut Vec<u8>, facts: &Facts) {
    to.extend(facts.number);
    put_limits(to, &facts.limits);
    put_size(to, facts.output_bytes_max);
    match facts.shape {
        OutputShape::Fixed(bytes) => {
            to.push(0);
            put_size(to, bytes);
        }
        OutputShape::Variable => {
            to.push(1);
            put_size(to, 0);
        }
    }
    let (is_in_place, offset, why) = match &facts.in_place {
        Ok(offset) => (true, *offset, ""),
        Err(why) => (false, 0, &*why.reason),
    };
    to.push(is_in_place.into());
    put_size(to, offset);
    put_text(to, why, TEXT_BYTES_MAX);
    to.push(facts.has_control.into());
}

pub(super) fn read_facts(body: &[u8]) -> Result<Facts, Malformed> {
    let mut from = Reader::new(body);
    let number = from.array()?;
    let limits = read_limits(&mut from)?;
    let output_bytes_max = from.size()?;
    let shape = match (from.u8()?, from.size()?) {
        (0, bytes) if bytes <= output_bytes_max => OutputShape::Fixed(bytes),
        (1, 0) => OutputShape::Variable,
        _ => return Err(Malformed("outputs of no shape")),
    };
    let (is_in_place, offset) = (from.bool()?, from.size()?);
    let why = from.words(TEXT_BYTES_MAX)?;
    let facts = Facts {
        number,
        limits,
        output_bytes_max,
        shape,
        in_place: match is_in_place {
            true => Ok(offset),
            false => Err(NotInPlace::new(why)),
        },
        has_control: from.bool()?,
    };
    from.end()?;
    Ok(facts)
}

/// The body of `changed`.
pub(super) fn put_changed(to: &mut Vec<u8>, changed: Result<u64, ChangeError>) {
    let (kind, number) = match changed {
        Ok(version) => (0, version),
        Err(ChangeError::Malformed { at }) => (1, at as u64),
        Err(ChangeError::Full) => (2, 0),
        Err(ChangeError::Device(code)) => (3, u64::from(code.cast_unsigned())),
        // Of a newer kind, which has no number here.
        Err(_) => (3, 0),
    };
    to.push(kind);
    to.extend(number.to_le_bytes());
}

pub(super) fn read_changed(body: &[u8]) -> Result<Result<u64, ChangeError>, Malformed> {
    let mut from = Reader::new(body);
    let (kind, number) = (from.u8()?, from.u64()?);
    from.end()?;
    let error = match kind {
        0 => return Ok(Ok(number)),
        1 => ChangeError::Malformed {
            at: usize::try_from(number).unwrap_or(usize::MAX),
        },
        2 => ChangeError::Full,
        3 => ChangeError::Device((number as u32).cast_signed()),
        _ => return Err(Malformed("a change of no kind")),
    };
    Ok(Err(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes);
        bytes
    }

    fn properties() -> Vec<Properties> {
        let model = Properties::of_model("two lanes".into(), "cpu/best", Properties::of_this_cpu());
        let device = Properties::of_device(Some("a stand-in".into()))
            .with_library("DPDK 24.11.1")
            .with_device("crypto_aesni_mb");
        vec![
            Properties::of_this_cpu(),
            Properties::of_workers(NonZeroU32::MIN),
            Properties::of_wrapper("sim/default", model.clone()),
            model,
            device,
        ]
    }

    fn facts() -> [Facts; 2] {
        let mut limits = Limits::new(NonZeroU32::MIN);
        limits.input_bytes_max = 5;
        let fixed = Facts {
            number: [7; 16],
            limits,
            output_bytes_max: 64,
            shape: OutputShape::Fixed(4),
            in_place: Err(NotInPlace::new("a digest")),
            has_control: true,
        };
        let variable = Facts {
            shape: OutputShape::Variable,
            in_place: Ok(16),
            has_control: false,
            ..fixed.clone()
        };
        [fixed, variable]
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for properties in properties() {
            let bytes = put(|to| put_properties(to, &properties));
            let mut from = Reader::new(&bytes);
            assert_eq!(read_properties(&mut from), Ok(properties));
            assert_eq!(from.end(), Ok(()));
        }
        for facts in facts() {
            let bytes = put(|to| put_facts(to, &facts));
            assert_eq!(read_facts(&bytes), Ok(facts));
        }
        let reason = "no engine".to_owned();
        let refusals = [
            Refusal::Fatal(reason.clone()),
            Refusal::Setup(SetupError::Unsupported(Unsupported {
                reason: reason.clone(),
            })),
            Refusal::Setup(SetupError::TooDeep {
                asked: 9,
                depth_max: 8,
            }),
            Refusal::Setup(SetupError::OutOfMemory { len: 7 }),
            Refusal::Setup(SetupError::TooLittleMemory {
                needed_bytes: 2,
                available_bytes: 1,
            }),
            Refusal::Setup(SetupError::NoThread {
                reason: reason.clone(),
            }),
            Refusal::Setup(SetupError::Parameter(reason)),
        ];
        for refusal in refusals {
            let bytes = put(|to| put_refusal(to, &refusal));
            assert_eq!(read_refusal(&bytes), Ok(refusal));
        }
        let errors = [
            ChangeError::Malformed { at: 3 },
            ChangeError::Full,
            ChangeError::Device(-5),
        ];
        for changed in errors.into_iter().map(Err).chain([Ok(u64::MAX)]) {
            let bytes = put(|to| put_changed(to, changed));
            assert_eq!(read_changed(&bytes), Ok(changed));
        }
    }

    #[test]
    fn words_of_a_peer_reach_nobody_raw() {
        let reason = "\u{1b}]0;owned\u{7}\nall is well".to_owned();
        let bytes = put(|to| put_refusal(to, &Refusal::Fatal(reason)));
        match read_refusal(&bytes) {
            Ok(Refusal::Fatal(why)) => {
                assert!(why.contains("all is well"), "{why}");
                assert!(!why.contains(char::is_control), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn headers_are_told_from_noise() {
        for tag in Tag::ALL {
            let header = Header { tag, len: 70_000 };
            assert_eq!(Header::read(header.bytes()), Ok(header));
        }
        for noise in [*b"GET / HT", [0; 8], [28, 0, 0, 0, 1, 0, 0, 0], [17; 8]] {
            assert!(Header::read(noise).is_err());
        }
    }

    #[test]
    fn another_version_is_told_by_both_numbers() {
        let mut body = greeting();
        assert!(read_greeting(&body).is_ok());
        body[4] += 1;
        let why = read_greeting(&body).expect_err("another");
        for version in [VERSION, VERSION + 1] {
            assert!(why.contains(&format!("version {version}")), "{why}");
        }
        assert!(read_greeting(b"SSH-2.0-").is_err());
        assert!(read_greeting(b"").is_err());
    }

    #[test]
    fn no_part_of_a_message_is_one() {
        for properties in properties() {
            let bytes = put(|to| put_properties(to, &properties));
            for len in 0..bytes.len() {
                let read = read_properties(&mut Reader::new(&bytes[..len]));
                assert!(read.is_err(), "{properties:?}, {len} bytes");
            }
        }
        for facts in facts() {
            let bytes = put(|to| put_facts(to, &facts));
            (0..bytes.len()).for_each(|len| assert!(read_facts(&bytes[..len]).is_err()));
        }
    }

    #[test]
    fn credits_and_words_of_rings_are_read_as_they_were_written() {
        for pieces in [0, 1, u32::MAX] {
            let bytes = credit(pieces);
            assert_eq!(read_credit(&bytes), Ok(Some(pieces)));
            for len in 0..bytes.len() {
                assert_eq!(read_credit(&bytes[..len]), Ok(None), "{len} bytes");
            }
        }
        let long = message(Tag::Credit, &[0; 5]);
        assert!(read_credit(&long).is_err());
        assert_eq!(read_credit(&message(Tag::Job, &[0; 4])), Ok(None));
        for words in [[&b""[..], b""], [b"here", b""], [b"", &[7; RING_WORDS_MAX]]] {
            let bytes = put(|to| put_rings(to, words[0], words[1]));
            assert_eq!(read_rings(&bytes), Ok(words));
            (0..bytes.len()).for_each(|len| assert!(read_rings(&bytes[..len]).is_err()));
        }
        let long = put(|to| put_rings(to, &[7; RING_WORDS_MAX + 1], b""));
        assert!(read_rings(&long).is_err());
    }

    proptest! {
        #[test]
        fn hostile_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_facts(&bytes);
            let _ = read_refusal(&bytes);
            let _ = read_changed(&bytes);
            let _ = read_greeting(&bytes);
            let _ = read_rings(&bytes);
            let _ = read_credit(&bytes);
            let _ = read_properties(&mut Reader::new(&bytes));
        }
    }
}
