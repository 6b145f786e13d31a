//! Rule files, expressions, and both engines against a definition written out and against the crate regex.

use std::collections::BTreeSet;
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::{Batch, BatchOut, Items, UnsupportedRules};
use proptest::prelude::*;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::live::Matcher;
use super::*;
use crate::direct::{Direct, direct};

fn read(text: &str) -> Result<Rules, RuleError> {
    Rules::parse(text.as_bytes(), UnsupportedRules::Refuse)
}

fn loaded(rules: Rules) -> Arc<Loaded> {
    Arc::new(rules.into())
}

/// The matches that a kernel finds in each item.
fn found(kernel: &mut dyn Direct, items: &[&[u8]]) -> Vec<Vec<Match>> {
    let (src, ends): (Vec<u8>, Vec<u32>) = (
        items.concat(),
        items
            .iter()
            .scan(0, |end, item| {
                *end += item.len() as u32;
                Some(*end)
            })
            .collect(),
    );
    let offsets = std::iter::once(0).chain(ends).collect();
    let items = Items::Offsets(offsets);
    let batch = Batch::new(&src, &items).expect("inside");
    let slot = kernel.dst_len(0);
    let mut dst = vec![0; slot * batch.len()];
    let mut outcomes = Vec::with_capacity(batch.len());
    let slots = Items::fixed(slot as u32, batch.len() as u32);
    let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("inside");
    kernel.run(batch, out).expect("runs");
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let read = |(i, len): (usize, &Result<u32, JobError>)| {
        let len = len.expect("a slot that fits") as usize;
        let (matches, rest) = dst[i * slot..][..len].as_chunks::<8>();
        assert!(rest.is_empty());
        let of = |bytes: &[u8; 8]| Match {
            id: word(&bytes[..4]),
            end: word(&bytes[4..]),
        };
        matches.iter().map(of).collect()
    };
    outcomes.iter().enumerate().map(read).collect()
}

/// A kernel with these rules.
fn live<M: Matcher>(matcher: M, rules: &Rules) -> Box<dyn Direct> {
    let rules_max = rules.rules().len();
    direct(Live::of(matcher, rules_max, UnsupportedRules::Refuse))
}

/// Each path, by its name: Hyperscan too, if it is there and takes the rules.
fn kernels(rules: &Arc<Loaded>) -> Vec<(&'static str, Box<dyn Direct>)> {
    fn kernel<M: Matcher>(rules: &Arc<Loaded>) -> Result<Box<dyn Direct>, SetupError> {
        M::new(rules).map(|matcher| live(matcher, rules))
    }
    let mut kernels = vec![
        ("portable", kernel::<Oracle>(rules).expect("takes all")),
        ("tables", kernel::<Engine>(rules).expect("takes all")),
    ];
    if let Ok(kernel) = kernel::<ByHyperscan>(rules) {
        kernels.push(("hyperscan", kernel));
    }
    kernels
}

/// All paths say `right` of `items`.
fn assert_found(rules: &Arc<Loaded>, items: &[&[u8]], right: &[Vec<Match>]) {
    for (name, kernel) in &mut kernels(rules) {
        // Twice, for the second time states are known.
        for round in 0..2 {
            let found = found(&mut **kernel, items);
            for ((item, found), right) in items.iter().zip(&found).zip(right) {
                let item = item.escape_ascii();
                assert_eq!(found, right, "{name}, round {round}: \"{item}\"");
            }
        }
    }
}

/// The ends of all of `hir`'s matches in `text` that start at one of `starts`: the definition, written out.
fn ends(hir: &Hir, text: &[u8], starts: &BTreeSet<usize>) -> BTreeSet<usize> {
    let word = |at: Option<&u8>| at.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let before = |at: usize| at.checked_sub(1).map(|at| &text[at]);
    let is_edge = |at: usize| word(before(at)) != word(text.get(at));
    let next = |at: usize, byte: u8| (text.get(at) == Some(&byte)).then_some(at + 1);
    match hir.kind() {
        HirKind::Empty => starts.clone(),
        HirKind::Literal(literal) => starts
            .iter()
            .filter_map(|at| literal.0.iter().try_fold(*at, |at, byte| next(at, *byte)))
            .collect(),
        // Of literals that are UTF-8.
        HirKind::Class(Class::Unicode(class)) => class
            .iter()
            .flat_map(|range| range.start()..=range.end())
            .flat_map(|one| {
                let literal = Hir::literal(one.to_string().into_bytes());
                ends(&literal, text, starts)
            })
            .collect(),
        HirKind::Class(Class::Bytes(class)) => {
            let has = |byte: u8| class.iter().any(|r| (r.start()..=r.end()).contains(&byte));
            let is_in = |at: &&usize| text.get(**at).is_some_and(|byte| has(*byte));
            starts.iter().filter(is_in).map(|at| at + 1).collect()
        }
        HirKind::Look(look) => {
            let holds = |at: &usize| match look {
                Look::Start => *at == 0,
                Look::End => *at == text.len(),
                Look::StartLF => before(*at).is_none_or(|byte| *byte == b'\n'),
                Look::EndLF => text.get(*at).is_none_or(|byte| *byte == b'\n'),
                Look::WordAscii => is_edge(*at),
                Look::WordAsciiNegate => !is_edge(*at),
                look => panic!("{look:?}"),
            };
            starts.iter().copied().filter(holds).collect()
        }
        HirKind::Concat(parts) => parts
            .iter()
            .fold(starts.clone(), |starts, part| ends(part, text, &starts)),
        HirKind::Alternation(branches) => branches
            .iter()
            .flat_map(|branch| ends(branch, text, starts))
            .collect(),
        HirKind::Repetition(repetition) => {
            let mut reached = starts.clone();
            for _ in 0..repetition.min {
                reached = ends(&repetition.sub, text, &reached);
            }
            let mut all = reached.clone();
            for _ in repetition.min..repetition.max.unwrap_or(u32::MAX) {
                reached = ends(&repetition.sub, text, &reached);
                let count = all.len();
                all.extend(&reached);
                if all.len() == count {
                    break;
                }
            }
            all
        }
        kind => panic!("{kind:?}"),
    }
}

/// By [`ends`], from every start.
fn by_definition(rules: &Rules, text: &[u8]) -> Vec<Match> {
    let starts = (0..=text.len()).collect();
    let first = |rule: &Rule| {
        let end = *ends(&rule.hir, text, &starts).first()? as u32;
        Some(Match { id: rule.id, end })
    };
    rules.rules().iter().filter_map(first).collect()
}

fn assert_by_definition(text: &str, items: &[&[u8]]) {
    let rules = loaded(read(text).unwrap_or_else(|error| panic!("{text}: {error}")));
    let right: Vec<_> = items
        .iter()
        .map(|item| by_definition(&rules, item))
        .collect();
    assert_found(&rules, items, &right);
}

#[test]
fn matches_by_hand() {
    let rules = "\
# a comment, and an empty line

7:/foo.*bar/
3:/b[a-c]{2}/i
12:/^(GET|POST) [^ ]+/
20:/x$/m
21:/y$/
30:/\\bcat\\b/
40:/a*/
";
    let rules = loaded(read(rules).expect("a rule file"));
    let m = |id, end| Match { id, end };
    let items: [(&[u8], Vec<Match>); 8] = [
        (b"", vec![m(40, 0)]),
        (b"foo BAR bar", vec![m(7, 11), m(40, 0)]),
        (b"foo BAA", vec![m(3, 7), m(40, 0)]),
        (b"foo\nbar", vec![m(40, 0)]),
        (b"GET /indes", vec![m(12, 5), m(40, 0)]),
        (b" GET /indes", vec![m(40, 0)]),
        (b"x\ny", vec![m(20, 1), m(21, 3), m(40, 0)]),
        (b"concat cat", vec![m(30, 10), m(40, 0)]),
    ];
    let (items, right): (Vec<_>, Vec<_>) = items.into_iter().unzip();
    assert_found(&rules, &items, &right);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, said) in [
        ("1:/a/\n2/b/", "line 2: not `id:/expression/flags`"),
        ("1:a/", "line 1: not `id:/expression/flags`"),
        ("1:/a", "line 1: not `id:/expression/flags`"),
        (
            "x:/a/",
            "line 1: no id before the colon: a number from 0 to 4294967295",
        ),
        (
            "+1:/a/",
            "line 1: no id before the colon: a number from 0 to 4294967295",
        ),
        (
            ":/a/",
            "line 1: no id before the colon: a number from 0 to 4294967295",
        ),
        (
            "4294967296:/a/",
            "line 1: no id before the colon: a number from 0 to 4294967295",
        ),
        ("5:/a/\n\n5:/b/", "line 3: id 5 is on line 1 already"),
        (
            "1:/a/u",
            "line 1: flag `u` is not supported; these are: i, s, m, x, H, V",
        ),
        (
            "1:/(a/",
            "line 1: `(` without `)` (at byte 1 of the expression)",
        ),
        (
            "1:/a)/",
            "line 1: `)` without `(` (at byte 2 of the expression)",
        ),
        (
            "1:/(a)\\1/",
            "line 1: backreferences are not regular (at byte 6 of the expression)",
        ),
        (
            "1:/(?=a)/",
            "line 1: lookahead is not regular (at byte 3 of the expression)",
        ),
        (
            "1:/(?<!a)/",
            "line 1: lookbehind is not regular (at byte 3 of the expression)",
        ),
        (
            "1:/a++/",
            "line 1: possessive quantifiers are not supported (at byte 3 of the expression)",
        ),
        (
            "1:/(?>a)/",
            "line 1: atomic groups are not supported (at byte 3 of the expression)",
        ),
        (
            "1:/a{3}{3}/",
            "line 1: a quantifier behind another (at byte 5 of the expression)",
        ),
        (
            "1:/*/",
            "line 1: nothing to repeat (at byte 1 of the expression)",
        ),
        (
            "1:/a{2,1}/",
            "line 1: counts out of order (at byte 2 of the expression)",
        ),
        (
            "1:/a{1,99999}/",
            "line 1: a count beyond 32767 (at byte 2 of the expression)",
        ),
        (
            "1:/[a/",
            "line 1: `[` without `]` (at byte 1 of the expression)",
        ),
        (
            "1:/[z-a]/",
            "line 1: a range out of order (at byte 5 of the expression)",
        ),
        (
            "1:/\\p{L}/",
            "line 1: Unicode properties are not supported (at byte 3 of the expression)",
        ),
        (
            "1:/\\/",
            "line 1: a backslash at the end (at byte 2 of the expression)",
        ),
        ("1:/((a{999}){999}){999}/", "line 1: takes more than 4 MiB"),
    ] {
        let error = read(text).expect_err(text);
        assert_eq!(error.to_string(), said, "{text}");
    }
    let deep = format!("1:/{}{}/", "(".repeat(5000), ")".repeat(5000));
    let said = read(&deep).expect_err("deep").to_string();
    assert!(said.contains("too deep"), "{said}");
}

#[test]
fn unsupported_rules_are_left_out_if_asked_and_lines_that_are_none_never() {
    let text = "1:/a/\n2:/(?=a)/\n3:/b/u\n4:/c/\n";
    let rules = Rules::parse(text.as_bytes(), UnsupportedRules::Skip).expect("two of them");
    let ids: Vec<u32> = rules.rules().iter().map(|rule| rule.id).collect();
    let lines: Vec<usize> = rules.skipped().iter().map(|error| error.line).collect();
    assert_eq!((ids, lines), (vec![1, 4], vec![2, 3]));
    assert!(Rules::parse(b"1:/a/\nx", UnsupportedRules::Skip).is_err());
}

/// Syntax where PCRE and regex-syntax part, each with a text that shows what is meant.
#[test]
fn syntax_is_pcres() {
    for (expression, item, end) in [
        (r"\<b\>", &b"a<b>"[..], Some(4)),
        (r"[a[b]+]", b"b]]", Some(2)),
        (r"[a&&b]", b"&", Some(1)),
        (r"[]a]+z", b"]az", Some(3)),
        (r"[^]a]", b"]ab", Some(3)),
        (r"[[:alpha:]_-]+1", b"a_-1", Some(4)),
        (r"[[:^digit:]]", b"1a", Some(2)),
        (r"[\w-]+!", b"a-!", Some(3)),
        (r"\x4", b"\x04", Some(1)),
        (r"\x{41}\101\0", b"AA\0", Some(3)),
        (r"\cA\e", b"\x01\x1b", Some(2)),
        (r"\Qa.b*\E+c", b"a.b**c", Some(6)),
        (r"a{,", b"a{,", Some(3)),
        (r"a{x}", b"a{x}", Some(4)),
        (r"a(?#comment)b", b"ab", Some(2)),
        (r"a(?i)b|c", b"C", Some(1)),
        (r"(a(?i)b)c", b"aBC", None),
        (r"(?x) a b # c", b"ab", Some(2)),
        (r"(?x: a\ b [ ] )c", b"a b c", Some(5)),
        (r"(?<name>a)(?P<n2>b)(?'n3'c)", b"abc", Some(3)),
        (r"\h\H\v\V\N", b" a\na.", Some(5)),
        (r"(?s-i:.)\A", b"a", None),
        (r"(?-s).", b"\n", None),
        (r"a\/b", b"a/b", Some(3)),
        (r"", b"a", Some(0)),
        (r"a||b", b"c", Some(0)),
        (r"[\b]", b"\x08", Some(1)),
        (r"(^)*a", b"ba", Some(2)),
        (r"(?m)A(\n|$)", b"A\n\nA ", Some(1)),
        (r"a(\B|a)", b"aa", Some(1)),
        (r"a??b", b"ab", Some(2)),
    ] {
        let rules = loaded(read(&format!("1:/{expression}/")).expect(expression));
        let right: Vec<Match> = end.map(|end| Match { id: 1, end }).into_iter().collect();
        let found = by_definition(&rules, item);
        assert_eq!(found, right, "{expression}");
        assert_found(&rules, &[item], &[right]);
    }
}

/// Rules that share no automaton for long: each has gaps that stay open, and states are few.
#[test]
fn automata_that_grow_are_divided_and_forgotten() {
    let mut random = SplitMix64::new(5);
    let letter = |random: &mut SplitMix64| char::from(b'a' + random.below(4) as u8);
    let mut text = String::new();
    for id in 0..24 {
        let [a, b, c, d] = [(); 4].map(|()| letter(&mut random));
        text.push_str(&format!(
            "{id}:/{a}{b}[^x]{{{},40}}{c}.{{7}}{d}y/s\n",
            id % 5
        ));
    }
    let item = |random: &mut SplitMix64| -> Vec<u8> {
        let len = random.below(400);
        (0..len).map(|_| b"abcdxy"[random.below(6)]).collect()
    };
    let items: Vec<Vec<u8>> = (0..40).map(|_| item(&mut random)).collect();
    let items: Vec<&[u8]> = items.iter().map(|item| &item[..]).collect();
    let rules = loaded(read(&text).expect("rules"));
    let (_, oracle) = &mut kernels(&rules)[0];
    let right = found(&mut **oracle, &items);
    assert!(right.iter().any(|found| found.len() > 3));
    for bytes_max in [0, 50_000, 400_000, 1 << 20] {
        let kernel = &mut live(Engine::new(&rules).with_bytes_max(bytes_max), &rules);
        // Some, then all: what was found by then is packed, the rest is found beside it, and is packed in its turn.
        for count in [13, 40, 40, 40] {
            let found = found(&mut **kernel, &items[..count]);
            assert_eq!(found, right[..count], "{bytes_max}, {count}");
        }
    }
}

/// A rule is apart from the others only if it goes on over whatever comes.
#[test]
fn rules_that_few_payloads_stay_in_are_not_apart() {
    for (rule, groups) in [
        ("(?:%u[0-9A-Fa-f]{4}){8}", 1),
        ("(?:[0-9A-Fa-f]{2}:){5,8}", 1),
        ("a.{0,4}b", 1),
        ("(?:a.*b){2}", 2),
        ("(?:[0-9A-Fa-f]{4}){8}", 2),
        ("(?:%?[0-9A-Fa-f]){8}", 2),
        ("a.{0,40}b", 2),
    ] {
        let rules = read(&format!("1:/abc/\n2:/{rule}/\n")).expect(rule);
        assert_eq!(plan::Plan::new(&rules).groups().len(), groups, "{rule}");
    }
}

/// Small expressions over few letters, in a syntax that PCRE and regex read alike.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => "[abA]",
        2 => Just(".".to_owned()),
        1 => Just("[ab]".to_owned()),
        1 => Just("[^a]".to_owned()),
        1 => Just("\\n".to_owned()),
        1 => Just("\\w".to_owned()),
        1 => Just("\\b".to_owned()),
        1 => Just("\\B".to_owned()),
        1 => Just("^".to_owned()),
        1 => Just("$".to_owned()),
        1 => Just("abab".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            1 => prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => (inner, "\\*|\\+|\\?|\\{2\\}|\\{1,3\\}|\\{2,\\}|\\*\\?")
                .prop_map(|(part, count)| format!("(?:{part}){count}")),
        ]
    })
}

fn rule_file() -> impl Strategy<Value = String> {
    let rule = (expression(), "i?s?m?");
    prop::collection::vec(rule, 1..8).prop_map(|rules| {
        let lines = rules.iter().enumerate();
        let lines = lines.map(|(id, (expression, flags))| format!("{id}:/{expression}/{flags}\n"));
        lines.collect()
    })
}

/// Few literals with gaps between, short ones of few letters, so that they overlap and repeat.
fn sequences() -> impl Strategy<Value = String> {
    let literal = || prop::sample::select(&["a", "ab", "aba", "b", "cb", "a\\nb"][..]);
    let gap = prop::sample::select(&[".*", "[^\\n]*?", "(?s:.*)"][..]);
    let tail = (gap, literal()).prop_map(|(gap, literal)| format!("{gap}{literal}"));
    let tails = prop::collection::vec(tail, 0..4).prop_map(|tails| tails.concat());
    let flags = prop::sample::select(&["", "s"][..]);
    let rule = (literal(), tails, flags)
        .prop_map(|(first, tails, flags)| format!("/{first}{tails}/{flags}"));
    prop::collection::vec(rule, 1..5).prop_map(|rules| {
        let lines = (1..).zip(rules).map(|(id, rule)| format!("{id}:{rule}\n"));
        lines.collect()
    })
}

#[test]
fn few_literals_are_searched_for_and_nothing_else_is() {
    let is_searched = |text: &str| {
        let rules = read(text).expect("rules");
        let plan = plan::Plan::new(&rules);
        sequence::Sequences::of(&rules, &plan.rules).is_some()
    };
    assert!(is_searched("1:/special.*requests/\n"));
    assert!(is_searched("1:/.*special.*requests.*/s\n2:/x/\n"));
    for other in [
        "/^abc/",
        "/abc$/",
        "/ab.+c/",
        "/ab?c/",
        "/abc/i",
        "/a[^x]*c/",
        "/a\\nb.*c/",
        "/(ab)|c/",
    ] {
        assert!(!is_searched(&format!("1:{other}\n")), "{other}");
    }
    let many: String = (1..=5).map(|id| format!("{id}:/abc/\n")).collect();
    assert!(!is_searched(&many), "one automaton is faster");
    assert!(!is_searched(""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 600 } else { 60 }))]

    #[test]
    fn literals_with_gaps_by_definition(rules in sequences(), text in "[abc\n]{0,60}") {
        assert_by_definition(&rules, &[text.as_bytes(), b"", &text.as_bytes()[text.len() / 2..]]);
    }

    #[test]
    fn random_rules_on_random_texts(
        text in rule_file(),
        items in prop::collection::vec("[abAB \n]{0,24}", 1..20),
    ) {
        let items: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
        assert_by_definition(&text, &items);
    }

    /// The crate regex says whether there is a match at all.
    #[test]
    fn random_rules_against_regex(
        expression in expression(),
        flags in "i?s?m?",
        items in prop::collection::vec("[abAB \n]{0,24}", 1..20),
    ) {
        let flagged = match flags.as_str() {
            "" => format!("(?-u){expression}"),
            flags => format!("(?{flags}-u){expression}"),
        };
        let regex = regex::bytes::Regex::new(&flagged).expect("its syntax too");
        let rules = loaded(read(&format!("5:/{expression}/{flags}")).expect("a rule"));
        for (_, kernel) in &mut kernels(&rules) {
            let items: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
            let found = found(&mut **kernel, &items);
            for (item, found) in items.iter().zip(&found) {
                prop_assert_eq!(!found.is_empty(), regex.is_match(item));
            }
        }
    }

    #[test]
    fn any_line_is_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..40)) {
        let text = [b"1:/", &line[..], b"/"].concat();
        if let Ok(rules) = Rules::parse(&text, UnsupportedRules::Refuse) {
            let items: [&[u8]; 2] = [b"abc", &line];
            let right: Vec<_> = items.iter().map(|item| by_definition(&rules, item)).collect();
            assert_found(&loaded(rules), &items, &right);
        }
    }
}
