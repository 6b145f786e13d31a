//! Bytes of undecided flows go out in batches, and what a rule finds comes back.

use dpb_core::Span;

use super::*;

fn settings() -> Settings {
    Settings {
        has_rules: true,
        ..Settings::default()
    }
}

/// Twenty bytes that no reader knows.
const NOISE: &[u8] = b"\x81\x02\x99\x04\x05\x06\x07secret-word\x00\x01";

#[test]
fn candidates_are_what_was_said_and_come_once() {
    let mut wire = Wire::with(9999, settings());
    wire.open();
    assert_eq!(wire.client(0, NOISE), Got::Inspect);
    assert_eq!(wire.server(0, NOISE), Got::Inspect);
    assert_eq!(wire.client(NOISE.len(), b"more"), Got::Inspect);
    // Behind a gap nothing is handed out.
    assert_eq!(wire.server(NOISE.len() + 5, b"late"), Got::Inspect);
    let mut seen = Vec::new();
    let mut see = |wire: &mut Wire| {
        seen.clear();
        wire.recognizer
            .candidates(|one| seen.push((one.flow, one.direction, one.bytes.to_vec())));
        seen.clone()
    };
    let up = (1, Direction::Up, [NOISE, b"more"].concat());
    let down = (1, Direction::Down, NOISE.to_vec());
    assert_eq!(see(&mut wire), [up, down]);
    assert!(see(&mut wire).is_empty());
    wire.server(NOISE.len(), b"12345");
    // The side that has said more, and no other.
    let down = (1, Direction::Down, [NOISE, b"12345late"].concat());
    assert_eq!(see(&mut wire), [down]);
    // A rule decides; later packets are known.
    let list = Applications::built_in();
    let application = list.named("steam");
    let now_ms = wire.now_ms;
    let verdict = (wire.recognizer).matched(&mut wire.mark, Protocol::Unknown, application, now_ms);
    let label = verdict.expect("undecided").label;
    assert_eq!(
        (label.evidence, label.application),
        (Evidence::Rule, application)
    );
    assert_eq!(wire.client(400, b"x"), Got::Known(label));
    let again = (wire.recognizer).matched(&mut wire.mark, Protocol::Unknown, None, now_ms);
    assert_eq!(again, None);
}

#[test]
fn candidates_make_a_job() {
    let mut wire = Wire::with(9999, settings());
    let mut marks = Vec::new();
    for _ in 0..5 {
        wire.next(9999);
        assert_eq!(wire.datagram(Direction::Down, NOISE), Got::Inspect);
        assert_eq!(wire.datagram(Direction::Down, NOISE), Got::Inspect);
        marks.push(wire.mark);
    }
    let said = [NOISE, NOISE].concat();
    let mut gather = |bytes: usize, items_max: usize| {
        let mut buffer = vec![0; bytes];
        let (mut spans, mut flows) = (Vec::new(), Vec::new());
        (wire.recognizer).gather(&mut buffer, 4, items_max, &mut spans, &mut flows);
        assert_eq!(flows, vec![(1, Direction::Down); spans.len()]);
        let item = |span: &Span| {
            let (start, len) = (span.start as usize, span.len as usize);
            assert_eq!(span.buf, 4);
            buffer[start..start + len].to_vec()
        };
        spans.iter().map(item).collect::<Vec<_>>()
    };
    // Two of five flows fit, and no more than one may come; the others wait for their turn.
    assert_eq!(gather(100, 9), vec![said.clone(); 2]);
    assert_eq!(gather(100, 1), vec![said.clone(); 1]);
    assert!(gather(100, 0).is_empty() && gather(0, 9).is_empty());
    // A start that no buffer of this length takes is cut.
    assert_eq!(gather(30, 9), [&said[..30]]);
    assert_eq!(gather(100, 9), [said]);
    assert!(gather(100, 9).is_empty());
}

/// Of a stream in single bytes rules see a pass of what is held now and then, and all of it in the end.
#[test]
fn single_bytes_do_not_bring_a_pass_each() {
    let mut wire = Wire::with(80, settings());
    wire.open();
    let mut stream = b"GET /".to_vec();
    stream.resize(5000, b'a');
    let (mut count, mut last) = (0, 0);
    for (at, byte) in stream.iter().enumerate() {
        assert_eq!(wire.client(at, &[*byte]), Got::Inspect);
        wire.recognizer.candidates(|one| {
            count += 1;
            last = one.bytes.len();
        });
        assert!(at < last + (last / 8).max(64), "{last} at {at}");
    }
    assert!(count < 100, "{count}");
    // With its end all is seen that is left.
    assert!(last < 5000, "{last}");
    let fin = Flags::FIN.with(Flags::ACK);
    wire.send(Direction::Up, 5000, fin, b"");
    wire.recognizer.candidates(|one| last = one.bytes.len());
    assert_eq!(last, 5000);
}

#[test]
fn a_list_that_nobody_reads_does_not_grow() {
    let limits = Limits {
        undecided_max: 2,
        ..Limits::default()
    };
    let mut wire = Wire::with(
        9999,
        Settings {
            limits,
            ..settings()
        },
    );
    for _ in 0..100 {
        wire.next(9999);
        wire.open();
        assert_eq!(wire.client(0, NOISE), Got::Inspect);
        wire.end();
    }
    let mut count = 0;
    wire.recognizer.candidates(|_| count += 1);
    assert_eq!(count, 0);
    wire.next(9999);
    wire.open();
    wire.client(0, NOISE);
    wire.recognizer.candidates(|_| count += 1);
    assert_eq!(count, 1);
}
