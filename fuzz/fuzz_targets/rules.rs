//! Rule files from arbitrary bytes: what can be read is matched in what follows it, on every path as the oracle says.
#![no_main]

use dpb_core::{Batch, BatchOut, Items, Material, OpSpec, UnsupportedRules, spec};
use dpb_operators::cpu::Implementation;
use dpb_operators::registry;
use libfuzzer_sys::fuzz_target;

/// A rule file of that many bytes may be as slow to compile as it likes.
const RULES_BYTES_MAX: usize = 200;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    // A zero byte ends the rules; the payloads behind it have the same length each.
    let end = input.iter().position(|byte| *byte == 0);
    let (rules, payloads) = input.split_at(end.unwrap_or(input.len()));
    if rules.len() <= RULES_BYTES_MAX {
        check(rules, payloads.get(1..).unwrap_or_default());
    }
});

fn check(rules: &[u8], payloads: &[u8]) {
    let spec = OpSpec::from(spec::RxpMatch {
        rules: Material::public(rules),
        unsupported: UnsupportedRules::Skip,
    });
    let entry = registry::find("rxpmatch").expect("registered");
    let Ok(workload) = entry.workload(&spec) else {
        return;
    };
    let len = payloads.len() / 10 + 1;
    let count = payloads.len() / len;
    let items = Items::fixed(len as u32, count as u32);
    let batch = Batch::new(payloads, &items).expect("inside");
    // Hyperscan is not ours, and not right about every rule.
    for path in [Implementation::Tables, Implementation::Portable] {
        let mut kernel = entry.direct(&spec, path).expect("any CPU");
        let slot = kernel.dst_len(len);
        let mut dst = vec![0; slot * count];
        let mut outcomes = Vec::with_capacity(count);
        let slots = Items::fixed(slot as u32, count as u32);
        let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("its slots");
        kernel.run(batch, out).expect("runs");
        for (i, outcome) in outcomes.iter().enumerate() {
            let output = outcome.map(|len| &dst[i * slot..][..len as usize]);
            if let Err(wrong) = workload.check(batch.item(i), output, slot) {
                panic!("{path}, item {i}: {wrong}");
            }
        }
    }
}

/// Rules of every kind, with payloads that some of them match.
fn seeds() -> Vec<Vec<u8>> {
    let seeds: [(&str, &str); 6] = [
        (
            "1:/foo.*bar/\n2:/b[a-c]{2}/i\n",
            "foo and bar, BAC, foo\nbar",
        ),
        (
            "7:/^(GET|POST) [^ ]+/m\n9:/\\bcat\\b/s\n",
            "GET /\nPOST /x concat cat",
        ),
        ("3:/(?i:a(?-i)b|[[:alpha:]_-]+1)$/\n", "aB ab a_-1"),
        ("4:/\\x41\\101\\Qa.b\\E\\h\\D{2,5}?z/x\n", "AAa.b  xyz"),
        ("5:/(?=a)/\n6:/a++/\n8:/(a)\\1/\n10:/a*/\n", "aaa"),
        (
            "1:/a[^b]{3,9}c/\n2:/c.{7}d/s\n3:/\\xff+/\n",
            "axxxxcxxxxxxxd",
        ),
    ];
    let seed = |(rules, payloads): (&str, &str)| [rules, "\0", payloads].concat().into_bytes();
    seeds.into_iter().map(seed).collect()
}
