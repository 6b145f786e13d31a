//! Real rules over real and generated payloads: the paths agree with PCRE2 on which rules match.

use dpb_core::{Batch, BatchOut, Input, Items, UnsupportedRules, spec};
use dpb_operators::cpu::Implementation;
use dpb_operators::registry;
use dpb_operators::security::rxpmatch::{Match, Rule, Rules};
use pcre2::bytes::{Regex, RegexBuilder};

/// Of the OWASP Core Rule Set; the file says more.
const CRS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/crs.rules");
/// The sets that are built in.
const SETS: [&str; 3] = ["ips", "url", "q13"];

/// A rule as PCRE2 reads it; `None` if it does not.
fn peer(rule: &Rule) -> Option<Regex> {
    let expression = std::str::from_utf8(&rule.expression).ok()?;
    let flags = rule.flags;
    RegexBuilder::new()
        .caseless(flags.caseless)
        .dotall(flags.dot_all)
        .multi_line(flags.multi_line)
        .extended(flags.extended)
        .build(expression)
        .ok()
}

/// Payloads that do not end in a line feed, before which PCRE2's `$` matches too.
fn payloads(input: &Input) -> Vec<Vec<u8>> {
    let batch = input.batch().expect("items lie inside");
    let end = |item: &[u8]| item.trim_ascii_end().to_vec();
    (0..batch.len()).map(|i| end(batch.item(i))).collect()
}

/// The ids that a path gives for each payload.
fn ids(parameters: &str, path: Implementation, payloads: &[Vec<u8>]) -> Vec<Vec<u32>> {
    let entry = registry::find("rxpmatch").expect("registered");
    let spec = entry.case(parameters).expect("a rule file").spec;
    let mut kernel = entry.direct(&spec, path).expect("any CPU");
    let mut each = |payload: &Vec<u8>| {
        let slot = kernel.dst_len(payload.len());
        let (mut dst, mut outcomes) = (vec![0; slot], Vec::with_capacity(1));
        let batch = Batch::new(payload, &Items::One).expect("one item");
        let out = BatchOut::new(&mut dst, &Items::One, &mut outcomes).expect("one slot");
        kernel.run(batch, out).expect("runs");
        let len = outcomes[0].expect("room for all") as usize;
        let matches = dst[..len].as_chunks::<{ Match::BYTES }>().0.iter();
        matches
            .map(|found| u32::from_le_bytes(found[..4].try_into().expect("four bytes")))
            .collect()
    };
    payloads.iter().map(&mut each).collect()
}

/// Both of our paths and PCRE2 agree; how many matches there are.
fn assert_agree(parameters: &str, rules: &Rules, payloads: &[Vec<u8>]) -> usize {
    let peers: Vec<(u32, Option<Regex>)> = rules
        .rules()
        .iter()
        .map(|rule| (rule.id, peer(rule)))
        .collect();
    let read = peers.iter().filter(|(_, peer)| peer.is_some()).count();
    assert!(
        read * 10 >= peers.len() * 9,
        "PCRE2 reads {read} of the rules"
    );
    let mut total = 0;
    for path in [Implementation::Tables, Implementation::Portable] {
        for (payload, ids) in payloads.iter().zip(ids(parameters, path, payloads)) {
            for (id, peer) in &peers {
                // A match that PCRE2 gives up on says nothing.
                let Some(Ok(right)) = peer.as_ref().map(|peer| peer.is_match(payload)) else {
                    continue;
                };
                let is_there = ids.binary_search(id).is_ok();
                let text = payload.escape_ascii();
                assert_eq!(is_there, right, "{path}, rule {id} on \"{text}\"");
                total += usize::from(right);
            }
        }
    }
    total
}

#[test]
fn owasps_rules_match_where_pcre2_says() {
    let text = std::fs::read(CRS).expect("is there");
    let rules = Rules::parse(&text, UnsupportedRules::Skip).expect("rules");
    assert!(rules.rules().len() > 80, "{:?}", rules.skipped());
    let parameters = format!("rules={CRS},unsupported=skip");
    let entry = registry::find("rxpmatch").expect("registered");
    let mut all = Vec::new();
    for set in SETS {
        let case = entry
            .case(&format!("{parameters},set={set}"))
            .expect("rules");
        let workload = entry.workload(&case).expect("its own spec");
        all.extend(payloads(&workload.plain(1, 300, 40)));
    }
    // Attacks by the dozen: the rules themselves, and what they were written against.
    all.extend(
        text.split(|byte| *byte == b'\n')
            .map(|line| line.trim_ascii_end().to_vec()),
    );
    assert!(assert_agree(&parameters, &rules, &all) > 1000);
}

#[test]
fn our_own_rules_match_where_pcre2_says() {
    let entry = registry::find("rxpmatch").expect("registered");
    for set in SETS {
        let parameters = format!("set={set}");
        let case = entry.case(&parameters).expect("built in");
        let spec::RxpMatch { rules, .. } = registry::own(&case.spec);
        let rules = Rules::parse(rules.bytes(), UnsupportedRules::Refuse).expect("all regular");
        let workload = entry.workload(&case).expect("its own spec");
        let mut all = payloads(&workload.plain(2, 1000, 200));
        all.extend(payloads(&workload.plain(3, 64, 400)));
        assert!(assert_agree(&parameters, &rules, &all) > 20, "{set}");
    }
}

/// Quantifiers behind all that can stand in front of them, and classes that look like ranges or names.
#[test]
fn what_pcre2_refuses_is_refused() {
    let atoms = [
        "a", ".", "[a]", "^", "$", r"\b", r"\B", r"\A", r"\z", "(^)", r"(?:\b)", r"\d", "(?i)",
    ];
    let quantifiers = ["", "*", "+", "?", "{2}", "{1,}", "*?"];
    let quantified = atoms.map(|atom| quantifiers.map(|quantifier| [atom, quantifier].concat()));
    let pieces = [
        "a",
        "-",
        r"\s",
        r"\-",
        "[:alpha:]",
        ":",
        ".",
        "[.a.]",
        "=",
        "[",
        r"\\",
        "^",
    ];
    let classes = pieces.iter().flat_map(|a| {
        let pairs = pieces.iter().map(move |b| [*a, *b].concat());
        pairs.flat_map(|pair| pieces.map(|c| format!("[{pair}{c}]")))
    });
    let mut refused = 0;
    for expression in quantified.into_iter().flatten().chain(classes) {
        let rule = format!("1:/{expression}/");
        let ours = Rules::parse(rule.as_bytes(), UnsupportedRules::Refuse).map(|_| ());
        let theirs = RegexBuilder::new().build(&expression).map(|_| ());
        if let Err(why) = theirs {
            assert!(ours.is_err(), "{expression}: {why}");
            refused += 1;
        }
    }
    assert!(refused > 50, "{refused}");
}
