//! Handshakes, ends of streams, and segments that do not belong.

use super::*;
use crate::tcp::config::{MILLISECOND_PS, SECOND_PS};

/// All segments that an endpoint lets out now.
fn out(endpoint: &mut Endpoint, now: u64) -> Vec<Segment> {
    std::iter::from_fn(|| endpoint.next_segment(now)).collect()
}

fn deliver(to: &mut Endpoint, now: u64, segments: &[Segment]) {
    for segment in segments {
        to.receive(now, segment);
    }
}

fn connected(client_config: Config, server_config: Config) -> (Endpoint, Endpoint) {
    let mut client = Endpoint::connect(client_config);
    let mut server = Endpoint::listen(server_config);
    let syn = out(&mut client, 0);
    assert_eq!(syn.len(), 1);
    assert!(syn[0].is_syn() && !syn[0].is_ack());
    deliver(&mut server, 10, &syn);
    let answer = out(&mut server, 10);
    assert_eq!(answer.len(), 1);
    assert!(answer[0].is_syn() && answer[0].is_ack());
    assert_eq!(answer[0].acknowledgement, 1);
    deliver(&mut client, 20, &answer);
    let last = out(&mut client, 20);
    assert_eq!(last.len(), 1);
    assert!(last[0].is_ack() && !last[0].is_syn() && last[0].payload_len == 0);
    deliver(&mut server, 30, &last);
    assert!(client.is_established() && server.is_established());
    (client, server)
}

#[test]
fn three_segments_connect() {
    let (mut client, mut server) = connected(Config::default(), Config::default());
    assert_eq!(client.sender().payload_max(), 1448);
    assert!(out(&mut client, 40).is_empty() && out(&mut server, 40).is_empty());
    assert_eq!((client.deadline(), server.deadline()), (None, None));
}

#[test]
fn options_are_those_that_both_permit() {
    let plain = Config {
        mss: 1000,
        sack: false,
        timestamps: false,
        ..Config::default()
    };
    for (client, server) in [(plain, Config::default()), (Config::default(), plain)] {
        let (client, server) = connected(client, server);
        for end in [&client, &server] {
            assert!(!end.sender().has_sack() && !end.sender().has_timestamps());
            assert_eq!(end.sender().payload_max(), 1000);
        }
    }
}

#[test]
fn an_answer_carries_the_acknowledgement_of_its_request() {
    let config = Config {
        quick_acks: 0,
        ..Config::default()
    };
    let (mut client, mut server) = connected(config, config);
    for turn in 1..100 {
        client.offer(1);
        let request = out(&mut client, turn * 100);
        assert_eq!(request.len(), 1);
        deliver(&mut server, turn * 100, &request);
        assert!(
            out(&mut server, turn * 100).is_empty(),
            "the answer is awaited"
        );
        server.offer(1);
        let answer = out(&mut server, turn * 100 + 1);
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].acknowledgement, 1 + turn);
        deliver(&mut client, turn * 100 + 2, &answer);
        assert!(out(&mut client, turn * 100 + 2).is_empty());
        assert_eq!(client.delivered_bytes(), turn);
    }
}

#[test]
fn both_streams_end() {
    let (mut client, mut server) = connected(Config::default(), Config::default());
    client.offer(10);
    client.close();
    let fin = out(&mut client, 100);
    assert_eq!(fin.len(), 1, "the FIN is on the last data");
    assert!(fin[0].is_fin() && fin[0].payload_len == 10);
    deliver(&mut server, 110, &fin);
    assert!(server.peer_has_closed() && !server.is_closed());
    // Half closed: the other direction goes on.
    server.offer(20);
    server.close();
    let answer = out(&mut server, 110);
    deliver(&mut client, 120, &answer);
    assert_eq!(client.delivered_bytes(), 20);
    assert!(client.is_closed());
    let last = out(&mut client, 120);
    assert_eq!(last.len(), 1);
    deliver(&mut server, 130, &last);
    assert!(server.is_closed());
    // The last acknowledgement is lost: the FIN comes again and is answered again.
    deliver(&mut client, 140, &answer);
    assert_eq!(out(&mut client, 140).len(), 1);
    assert_eq!(client.delivered_bytes(), 20);
}

#[test]
fn each_segment_of_the_handshake_may_be_lost() {
    let mut client = Endpoint::connect(Config::default());
    let mut server = Endpoint::listen(Config::default());
    client.offer(1);
    assert_eq!(out(&mut client, 0).len(), 1);
    assert_eq!(client.deadline(), Some(SECOND_PS));
    client.expire(SECOND_PS);
    let syn = out(&mut client, SECOND_PS);
    deliver(&mut server, SECOND_PS, &syn);
    assert_eq!(out(&mut server, SECOND_PS).len(), 1, "and is lost");
    // The client repeats its SYN and the server its answer.
    client.expire(3 * SECOND_PS);
    let syn = out(&mut client, 3 * SECOND_PS);
    deliver(&mut server, 3 * SECOND_PS, &syn);
    let answer = out(&mut server, 3 * SECOND_PS);
    assert!(answer.len() == 1 && answer[0].is_syn() && answer[0].is_ack());
    deliver(&mut client, 3 * SECOND_PS, &answer);
    // The client's acknowledgement goes with its data, and is lost; the retransmission stands in.
    let data = out(&mut client, 3 * SECOND_PS);
    assert_eq!(data.len(), 1);
    let at = client.deadline().unwrap();
    client.expire(at);
    let data = out(&mut client, at);
    deliver(&mut server, at, &data);
    assert!(server.is_established());
    assert_eq!(server.delivered_bytes(), 1);
    assert!(at < 3 * SECOND_PS + 2 * SECOND_PS + MILLISECOND_PS);
}

#[test]
fn segments_that_do_not_belong_change_nothing() {
    let mut client = Endpoint::connect(Config::default());
    let stray = Segment {
        flags: Flags::ACK,
        acknowledgement: 77,
        payload_len: 5,
        sequence: 9,
        ..Segment::default()
    };
    client.receive(0, &stray);
    assert_eq!(out(&mut client, 0).len(), 1, "the SYN");
    client.receive(0, &stray);
    assert!(!client.is_established());
    assert_eq!(client.delivered_bytes(), 0);
    let mut listening = Endpoint::listen(Config::default());
    listening.receive(0, &stray);
    assert!(out(&mut listening, 0).is_empty());
}
