//! Payloads by seed: ordinary traffic, and here and there what a rule looks for.

use dpb_core::random::SplitMix64;
use regex_syntax::hir::{ClassBytes, Hir, HirKind};

use super::RuleSet;
use super::plan::{bytes, is_anchored};
use super::rules::Rules;

/// The average length of payloads of which one has what a rule looks for; at least one payload of a batch has it.
const PLANT_BYTES: usize = 4096;
const PLANT_ITEMS: usize = 16;

/// `count` payloads of `len` bytes each, as `set` says, for these rules.
pub(super) fn payloads(
    set: RuleSet,
    rules: &Rules,
    seed: u64,
    (len, count): (usize, usize),
) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let mut bytes = Vec::with_capacity(len * count);
    for item in 0..count {
        let start = bytes.len();
        let end = start + len;
        while bytes.len() < end {
            match set {
                RuleSet::Ips => request(&mut random, &mut bytes),
                RuleSet::Url => url(&mut random, &mut bytes),
                RuleSet::Q13 => comment(&mut random, &mut bytes),
            }
        }
        bytes.truncate(end);
        let rounds = len.div_ceil(PLANT_BYTES);
        for round in 0..rounds {
            if (item + round).is_multiple_of(PLANT_ITEMS) {
                plant(rules, &mut random, &mut bytes[start..]);
            }
        }
    }
    bytes
}

/// Writes a string that a rule matches over part of a payload that it fits in.
fn plant(rules: &Rules, random: &mut SplitMix64, payload: &mut [u8]) {
    if rules.rules().is_empty() {
        return;
    }
    let rule = &rules.rules()[random.below(rules.rules().len())];
    let mut sample = Vec::new();
    if !put_sample(&rule.hir, random, payload.len(), &mut sample) {
        return;
    }
    let room = payload.len() - sample.len();
    let at = match is_anchored(&rule.hir) {
        true => 0,
        false => random.below(room + 1),
    };
    payload[at..][..sample.len()].copy_from_slice(&sample);
}

/// Appends a string of `hir`'s, as if assertions held; false if there is none of at most `len_max` bytes.
fn put_sample(hir: &Hir, random: &mut SplitMix64, len_max: usize, sample: &mut Vec<u8>) -> bool {
    if sample.len() > len_max {
        return false;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => sample.extend(&literal.0),
        HirKind::Class(class) => match bytes(class).and_then(|class| member(&class, random)) {
            Some(byte) => sample.push(byte),
            None => return false,
        },
        HirKind::Capture(capture) => return put_sample(&capture.sub, random, len_max, sample),
        HirKind::Concat(parts) => {
            let mut put = |part| put_sample(part, random, len_max, sample);
            return parts.iter().all(&mut put) && sample.len() <= len_max;
        }
        HirKind::Alternation(branches) => {
            let branch = &branches[random.below(branches.len())];
            return put_sample(branch, random, len_max, sample);
        }
        HirKind::Repetition(repetition) => {
            let more = repetition
                .max
                .map_or(4, |max| (max - repetition.min).min(4));
            let count = repetition.min as usize + random.below(more as usize + 1);
            for _ in 0..count {
                if !put_sample(&repetition.sub, random, len_max, sample) {
                    return false;
                }
            }
        }
    }
    sample.len() <= len_max
}

/// A byte of `class`, a printable one if there is any.
fn member(class: &ClassBytes, random: &mut SplitMix64) -> Option<u8> {
    let all = || {
        class
            .ranges()
            .iter()
            .flat_map(|range| range.start()..=range.end())
    };
    let is_printable = |byte: &u8| (b' '..=b'~').contains(byte);
    let count = all().filter(is_printable).count();
    match count {
        0 => {
            let count = all().count();
            (count > 0).then(|| all().nth(random.below(count)))?
        }
        _ => all().filter(is_printable).nth(random.below(count)),
    }
}

const WORDS: &[&str] = &[
    "account", "archive", "article", "assets", "basket", "blog", "book", "catalog", "category",
    "checkout", "city", "client", "comment", "contact", "content", "country", "customer", "detail",
    "download", "event", "feed", "forum", "gallery", "garden", "group", "health", "help",
    "history", "home", "image", "index", "item", "journal", "kitchen", "language", "latest",
    "library", "list", "mail", "market", "media", "member", "message", "museum", "music", "news",
    "note", "offer", "order", "page", "photo", "place", "player", "post", "price", "product",
    "profile", "project", "quality", "question", "recipe", "report", "review", "river", "school",
    "search", "season", "section", "service", "setting", "shop", "sport", "station", "story",
    "street", "student", "subject", "support", "table", "team", "theme", "ticket", "topic",
    "travel", "user", "video", "village", "weather", "window", "winter", "world", "writer",
];
const HOSTS: &[&str] = &[
    "www", "cdn", "static", "img", "api", "shop", "m", "news", "media", "login", "my", "files",
];
const ZONES: &[&str] = &["example.com", "example.net", "example.org"];
const FILES: &[&str] = &[
    ".html", ".js", ".css", ".png", ".jpg", ".json", ".php", "", "", "/",
];
const AGENTS: &[&str] = &[
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/604.1",
    "curl/8.8.0",
];

fn pick<'a>(random: &mut SplitMix64, from: &[&'a str]) -> &'a str {
    from[random.below(from.len())]
}

fn host(random: &mut SplitMix64) -> String {
    let (name, word) = (pick(random, HOSTS), pick(random, WORDS));
    format!(
        "{name}.{word}-{}.{}",
        random.below(100),
        pick(random, ZONES)
    )
}

fn path(random: &mut SplitMix64) -> String {
    let mut path = String::new();
    for _ in 0..1 + random.below(4) {
        path.push('/');
        path.push_str(pick(random, WORDS));
        if random.below(3) == 0 {
            path.push_str(&format!("-{}", random.below(10_000)));
        }
    }
    path.push_str(pick(random, FILES));
    for i in 0..random.below(4) {
        let (name, value) = (pick(random, WORDS), random.next_u64() >> 36);
        path.push(if i == 0 { '?' } else { '&' });
        path.push_str(&format!("{name}={value:x}"));
    }
    path
}

/// One request, its body for some.
fn request(random: &mut SplitMix64, bytes: &mut Vec<u8>) {
    let is_post = random.below(8) == 0;
    let method = if is_post { "POST" } else { "GET" };
    let mut text = format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\n",
        path(random),
        host(random)
    );
    text.push_str(&format!("User-Agent: {}\r\n", pick(random, AGENTS)));
    text.push_str("Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n");
    text.push_str("Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n");
    if random.below(2) == 0 {
        text.push_str(&format!(
            "Referer: https://{}{}\r\n",
            host(random),
            path(random)
        ));
    }
    let (a, b) = (random.next_u64(), random.next_u64());
    text.push_str(&format!(
        "Cookie: {}={a:016x}{b:016x}; theme=dark\r\n",
        pick(random, WORDS)
    ));
    let mut body = String::new();
    if is_post {
        for i in 0..1 + random.below(12) {
            let (name, one, two) = (
                pick(random, WORDS),
                pick(random, WORDS),
                pick(random, WORDS),
            );
            body.push_str(if i == 0 { "" } else { "&" });
            body.push_str(&format!("{name}={one}+{two}+{}", random.below(1000)));
        }
        text.push_str("Content-Type: application/x-www-form-urlencoded\r\n");
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("Connection: keep-alive\r\n\r\n");
    text.push_str(&body);
    bytes.extend(text.into_bytes());
}

/// A line.
fn url(random: &mut SplitMix64, bytes: &mut Vec<u8>) {
    let scheme = if random.below(8) == 0 {
        "http"
    } else {
        "https"
    };
    let line = format!("{scheme}://{}{}\n", host(random), path(random));
    bytes.extend(line.into_bytes());
}

/// The words of TPC-H's grammar for comments (specification, 4.2.2.14).
const COMMENTS: &[&str] = &[
    "foxes",
    "ideas",
    "theodolites",
    "pinto beans",
    "instructions",
    "dependencies",
    "excuses",
    "platelets",
    "asymptotes",
    "courts",
    "dolphins",
    "multipliers",
    "sauternes",
    "warthogs",
    "frets",
    "dinos",
    "attainments",
    "somas",
    "Tiresias",
    "patterns",
    "forges",
    "braids",
    "hockey players",
    "frays",
    "warhorses",
    "dugouts",
    "notornis",
    "epitaphs",
    "pearls",
    "tithes",
    "waters",
    "orbits",
    "gifts",
    "sheaves",
    "depths",
    "sentiments",
    "decoys",
    "realms",
    "pains",
    "grouches",
    "escapades",
    "requests",
    "accounts",
    "packages",
    "deposits",
    "sleep",
    "wake",
    "are",
    "cajole",
    "haggle",
    "nag",
    "use",
    "boost",
    "affix",
    "detect",
    "integrate",
    "furious",
    "sly",
    "careful",
    "blithe",
    "quick",
    "fluffy",
    "slow",
    "quiet",
    "ruthless",
    "thin",
    "close",
    "dogged",
    "daring",
    "brave",
    "stealthy",
    "permanent",
    "enticing",
    "idle",
    "busy",
    "regular",
    "final",
    "ironic",
    "even",
    "bold",
    "silent",
    "special",
    "express",
    "pending",
    "unusual",
    "sometimes",
    "always",
    "never",
    "about",
    "above",
    "according to",
    "across",
    "after",
    "against",
    "along",
    "among",
    "the",
];

/// A line: words of TPC-H's grammar for comments, without its sentences.
fn comment(random: &mut SplitMix64, bytes: &mut Vec<u8>) {
    for i in 0..6 + random.below(6) {
        if i > 0 {
            bytes.push(b' ');
        }
        bytes.extend(pick(random, COMMENTS).as_bytes());
    }
    bytes.extend(b".\n");
}
