//! Systems that are refused: two ends that do not understand each other, parameters that change nothing, numbers that no part has.

use dpb_sim::system::shipped::SHIPPED;
use dpb_sim::system::{Description, System, WaysOut};

use super::{pair, prepare};

/// The reason why a text is no system.
fn refusal(text: &str) -> Option<String> {
    let description: Result<Description, _> = text.parse();
    let assembled = description.and_then(|it| System::assemble(&it, &prepare, 1, 1).map(drop));
    assembled.err().map(|why| why.to_string())
}

/// Two hosts that do all that hosts do.
fn system() -> String {
    let card = |host: &str| {
        format!(
            r#"
            [[card]]
            host = "{host}"
            shared = [{{ name = "memory", byte_ps = 50 }}]
            stage = [{{ name = "crc", job_ns = 100, byte_ps = 10, crosses = [{{ over = "memory" }}] }}]
            digest = {{ operator = "crc32c", framing = "mark" }}
            "#
        )
    };
    pair(
        r#"
        listen = [
            { port = 5001, application = "receive" },
            { port = 80, application = "answer", request_bytes = 100, answer_bytes = 1000 },
        ]
        serve = [{ port = 53 }]
        "#,
        r#"
        connect = [
            { to = "server", port = 5001, application = "send", bytes = 1000 },
            { to = "server", port = 80, application = "ask", requests = 5, request_bytes = 100, answer_bytes = 1000 },
        ]
        offer = [{ to = "server", port = 53, rate_per_s = 1000, count = 10, bytes = 22 }]
        "#,
        &(card("server") + &card("client")),
    )
}

/// Replaces the first of a text, and holds the refusal to these words.
fn check(cases: &[(&str, &str, &str)]) {
    let whole = system();
    assert_eq!(refusal(&whole), None);
    for (from, to, said) in cases {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole, "{from}");
        let why = refusal(&text);
        assert!(
            why.as_ref().is_some_and(|why| why.contains(said)),
            "{to}: {why:?}"
        );
    }
}

#[test]
fn what_changes_nothing_is_refused() {
    check(&[
        (
            "\"send\", bytes = 1000",
            "\"send\", bytes = 1000, requests = 3",
            "send: requests would change nothing",
        ),
        (
            "requests = 5",
            "requests = 5, bytes = 3",
            "ask: bytes would change nothing",
        ),
        (
            "\"receive\"",
            "\"receive\", answer_bytes = 3",
            "receive: answer_bytes would change nothing",
        ),
        (
            "requests = 5",
            "requests = 5, think = \"exponential\"",
            "think without think_us would change nothing",
        ),
        (
            "port = 53",
            "port = 53, waiting = 5",
            "waiting would change nothing",
        ),
        (
            "framing = \"mark\"",
            "byte_ps = 500",
            "unknown field `byte_ps`",
        ),
        (
            "framing = \"mark\"",
            "record = \"records.jsonl\"",
            "unknown field `record`",
        ),
    ]);
}

#[test]
fn ends_that_do_not_understand_each_other_are_refused() {
    check(&[
        (
            "port = 5001, application = \"send\"",
            "port = 5002, application = \"send\"",
            "port 5002 of `server`, at which it does not listen",
        ),
        (
            "requests = 5, request_bytes = 100",
            "requests = 5, request_bytes = 200",
            "ask with answer and the same request_bytes",
        ),
        (
            "port = 80, application = \"ask\"",
            "port = 5001, application = \"ask\"",
            "to ask, which does receive there",
        ),
        (
            "port = 5001, application = \"send\"",
            "port = 80, application = \"send\"",
            "to send, which does answer there",
        ),
        (
            "port = 80, application = \"answer\"",
            "port = 5001, application = \"answer\"",
            "`server` listens at port 5001 twice",
        ),
        (
            "name = \"client\"",
            "name = \"client\"\n digest = { operator = \"crc32c\" }",
            "`client` computes digests, and so does its card",
        ),
        (
            ", framing = \"mark\"",
            "",
            "crc32c with framing mark behind frames of the one and crc32c with framing length",
        ),
        (
            "digest = { operator = \"crc32c\", framing = \"mark\" }",
            "",
            "crc32c with framing mark behind frames of the one and no digest",
        ),
        (
            "digest = { operator = \"crc32c\", framing = \"mark\" }",
            "digest = { operator = \"sha256\", framing = \"mark\" }",
            "sha256 with framing mark",
        ),
    ]);
    // An offer is held to it as a connection is.
    let text = system().replace("connect = [", "connect = []\n nothing = [");
    let text = text.replacen(", framing = \"mark\"", "", 1);
    let start = text.find("nothing = [").expect("it is there");
    let end = start + text[start..].find("        ]\n").expect("a list") + "        ]\n".len();
    let text = text[..start].to_owned() + &text[end..];
    let why = refusal(&text).expect("two framings");
    assert!(why.contains("at port 53"), "{why}");
}

#[test]
fn frames_that_pass_a_stage_by_need_no_digest_at_the_other_end() {
    let named = |ports: &str| {
        let whole = system();
        let text = whole.replacen(
            "name = \"crc\"",
            &format!("name = \"crc\", ports = [{ports}]"),
            1,
        );
        let second = "digest = { operator = \"crc32c\", framing = \"mark\" }";
        let at = text.rfind(second).expect("two cards");
        text[..at].to_owned() + &text[at + second.len()..]
    };
    // The server's card has a digest for a port that nobody connects to.
    assert_eq!(refusal(&named("443")), None);
    assert!(refusal(&named("443, 80")).is_some_and(|why| why.contains("at port 80")));
}

#[test]
fn numbers_that_no_part_has_are_refused() {
    let huge = "20000000000000000";
    let with =
        |from: &str, name: &str, value: &str| (from.to_owned(), format!("{from}{name} = {value}"));
    let of_host = |name: &str, value: &str| with("name = \"client\"\n ", name, value);
    let of_card = |name: &str, value: &str| with("host = \"server\"\n ", name, value);
    let of_stage = |name: &str, value: &str| {
        let digits = "job_ns = 100, byte_ps = 10";
        (digits.to_owned(), format!("{name} = {value}"))
    };
    let replaced = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    for ((from, to), said) in [
        (
            of_host("byte_ps", huge),
            "host `client`, byte_ps: 20000000000000000 is more than 100000000",
        ),
        (
            of_host("send_ns", "1e10"),
            "host `client`, send_ns: 10000000000 is no time from 0 to 1 s",
        ),
        (
            of_host("cores", "1000000000000"),
            "host `client`, cores: 1000000000000 is more than 65536",
        ),
        (of_card("dma_byte_ps", huge), "dma_byte_ps"),
        (of_stage("byte_ps", huge), "stage `crc`, byte_ps"),
        (of_stage("job_ns", "1e10"), "stage `crc`, job_ns"),
        (of_stage("doorbell_ns", "1e10"), "stage `crc`, doorbell_ns"),
        (of_stage("lanes", "1000000000000"), "stage `crc`, lanes"),
        (of_stage("waiting", "1000000000000"), "stage `crc`, waiting"),
        (
            replaced("byte_ps = 50 ", "byte_ps = 20000000000000000 "),
            "`memory`, byte_ps",
        ),
        (
            replaced(
                "\"send\", bytes = 1000",
                "\"send\", bytes = 4611686018427387904",
            ),
            "send, bytes",
        ),
        (
            replaced("requests = 5", "requests = 20000000000000000"),
            "bytes of all requests or answers",
        ),
        (
            replaced("requests = 5", "requests = 5, think_us = 2e9"),
            "think_us: 2000000000 is no time",
        ),
    ] {
        check(&[(&from, &to, said)]);
    }
    // More than there are ports.
    let connect =
        "{ to = \"server\", port = 5001, application = \"send\", bytes = 1 },\n".repeat(25_537);
    let connects = system().replacen("connect = [", &format!("connect = [{connect}"), 1);
    let why = refusal(&connects).expect("too many connections");
    assert!(why.contains("from 40000 to 65535"), "{why}");
    let offer =
        "{ to = \"server\", port = 53, rate_per_s = 1, count = 1, bytes = 22 },\n".repeat(15_537);
    let offers = system().replacen("offer = [", &format!("offer = [{offer}"), 1);
    let why = refusal(&offers).expect("too many sources");
    assert!(why.contains("from 50000 to 65535"), "{why}");
}

#[test]
fn systems_that_come_with_the_crate_are_none_of_these() {
    let live = ("live", include_str!("../../systems/live.toml"));
    let shipped = SHIPPED.iter().map(|it| (it.name, it.text));
    for (name, text) in shipped.chain([live]) {
        let description: Description = text.parse().expect(name);
        let assembled = System::assemble_part(&description, &prepare, 1, 1, WaysOut::default());
        assembled.map(drop).expect(name);
    }
}
