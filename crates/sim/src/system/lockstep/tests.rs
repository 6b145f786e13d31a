//! Guests that are threads, and do by hand what QEMU and its plugin do.

use std::thread::JoinHandle;

use dpb_core::port::PortStats;
use dpb_core::{Operator, SetupError};

use super::super::description::Description;
use super::super::{System, WaysOut};
use super::*;
use crate::kernel::MICROSECOND_PS;

/// Frames that the simulation need not have read when the guest goes on.
const ROOM: usize = 4;

/// A port of which the other side is a list.
#[derive(Clone, Default)]
struct List(Arc<Mutex<[VecDeque<Vec<u8>>; 2]>>);

impl List {
    /// Frames that the simulation has sent, all that there are.
    fn taken(&self) -> Vec<Vec<u8>> {
        self.0.lock().expect("no panic")[0].drain(..).collect()
    }

    /// Gives a frame to the simulation, once there is room as in a socket.
    fn give(&self, frame: &[u8]) {
        loop {
            let mut lists = self.0.lock().expect("no panic");
            if lists[1].len() < ROOM {
                return lists[1].push_back(frame.to_vec());
            }
            drop(lists);
            thread::yield_now();
        }
    }
}

impl PacketPort for List {
    fn name(&self) -> &str {
        "a list"
    }

    fn packet_bytes_max(&self) -> usize {
        1514
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let lists = &mut self.0.lock().expect("no panic");
        let came = lists[1].len().min(max);
        for frame in lists[1].drain(..came) {
            let mut packet = Buf::zeroed(frame.len()).expect("memory");
            packet.copy_from_slice(&frame);
            packets.push(packet);
        }
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let taken = packets.len();
        let sent = packets.drain(..).map(|packet| packet.to_vec());
        self.0.lock().expect("no panic")[0].extend(sent);
        Ok(taken)
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }
}

/// A frame, and the end of a quantum.
type Timed = (u64, Vec<u8>);

/// The guest: it sends frames in some quanta and writes down when frames came. It runs so many quanta, and may sleep, so that it has fewer instructions.
fn guest(
    mut control: UnixStream,
    [frames, beats_in, beats_out]: [List; 3],
    to_send: Vec<Timed>,
    quanta: u64,
    sleeps: bool,
) -> Vec<Timed> {
    let mut came = Vec::new();
    let instructions = 100_000 / PIECES;
    let (mut count, mut held, mut beat) = (instructions, Vec::new(), None);
    for quantum in 0..quanta {
        for piece in 0..PIECES {
            let mut answer = [0];
            let said = control.write_all(&count.to_ne_bytes());
            // The simulation may have ended.
            if said.is_err() || control.read(&mut answer).unwrap_or(0) == 0 {
                return came;
            }
            if answer[0] == b's' {
                held.extend(frames.taken());
                beat = beat.or(beats_in.taken().pop());
            }
            assert_eq!(
                answer[0] == b's',
                piece == 0,
                "quantum {quantum}, piece {piece}"
            );
            count += match sleeps {
                true => instructions / 2,
                false => instructions + 10,
            };
        }
        // The end of the quantum.
        came.extend(held.drain(..).map(|frame| (quantum + 1, frame)));
        for (_, frame) in to_send.iter().filter(|(at, _)| *at == quantum) {
            frames.give(frame);
        }
        beats_out.give(&beat.take().expect("a beat for each quantum"));
    }
    came
}

const SYSTEM: &str = r#"
    [[real]]
    name = "a"
    lockstep_us = 100
    [[real]]
    name = "b"
    lockstep_us = 100
    [[link]]
    ends = ["a", "b"]
    latency_ns = 150_000
"#;

fn nothing(_: &str) -> Result<Arc<dyn Operator>, SetupError> {
    Err(SetupError::Parameter("nothing is computed".to_owned()))
}

struct Ran {
    came: Vec<Vec<Timed>>,
    usage: Vec<GuestUsage>,
    outcome: Result<(), String>,
}

fn run(to_send: [Vec<Timed>; 2], quanta: [u64; 2], sleeps: bool) -> Ran {
    let description: Description = SYSTEM.parse().expect("a system");
    let mut threads: Vec<JoinHandle<Vec<Timed>>> = Vec::new();
    let mut all = Vec::new();
    for (to_send, quanta) in to_send.into_iter().zip(quanta) {
        let (control, other) = UnixStream::pair().expect("sockets");
        let lists = [(); 3].map(|()| List::default());
        let [frames, beats_in, beats_out] = lists.clone().map(|list| Box::new(list) as _);
        all.push(GuestWays {
            control,
            frames,
            beats_in,
            beats_out,
            quantum_ps: 100 * MICROSECOND_PS,
        });
        threads.push(thread::spawn(move || {
            guest(other, lists, to_send, quanta, sleeps)
        }));
    }
    let lockstep = Lockstep::new(all, || false).expect("sockets");
    let mut ways = WaysOut::default();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let way = Box::new(lockstep.end(number));
        ways.real.insert(name.to_owned(), way);
    }
    let system = System::assemble_part(&description, &nothing, 1, 1, ways);
    let mut system = system.expect("a system");
    let mut outcome = Ok(());
    let mut end_ps = 0;
    while outcome.is_ok() && !lockstep.has_ended() {
        end_ps += 250 * MICROSECOND_PS;
        outcome = system.run_until(end_ps).map_err(|why| why.to_string());
    }
    let usage = [0, 1].map(|number| lockstep.usage(number).expect("a guest"));
    drop((system, lockstep));
    Ran {
        came: threads
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect(),
        usage: usage.into(),
        outcome,
    }
}

fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![number; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame
}

#[test]
fn frames_come_at_the_end_of_the_quantum_in_which_they_arrive() {
    let to_send = || {
        let a = [0, 0, 3, 7]
            .into_iter()
            .zip(1..)
            .map(|(at, number)| (at, frame(number)));
        [a.collect(), vec![(2, frame(100))]]
    };
    let ran = run(to_send(), [20, 12], false);
    assert_eq!(ran.outcome, Ok(()));
    // Sent at the end of quantum q, at (q + 1) · 100 µs; 150 µs and the cards' microseconds later it lies in the second quantum behind that.
    let came = |sent: &[Timed]| -> Vec<Timed> {
        sent.iter()
            .map(|(at, frame)| (at + 1 + 2, frame.clone()))
            .collect()
    };
    let [a, b] = to_send();
    assert_eq!(ran.came[1], came(&a));
    assert_eq!(ran.came[0], came(&b));
    assert_eq!((ran.usage[0].received, ran.usage[1].sent), (4, 4));
    assert_eq!((ran.usage[1].received, ran.usage[0].sent), (1, 1));
    // The last quantum's end is known by the guest's.
    assert_eq!([ran.usage[0].quanta, ran.usage[1].quanta], [19, 11]);
    let again = run(to_send(), [20, 12], false);
    assert_eq!((again.came, again.usage), (ran.came, ran.usage));
}

#[test]
fn frames_beyond_a_sockets_room_are_of_the_same_quantum() {
    let a: Vec<Timed> = (1..=10 * ROOM as u8)
        .map(|number| (3, frame(number)))
        .collect();
    let ran = run([a.clone(), Vec::new()], [10, 10], false);
    assert_eq!(ran.outcome, Ok(()));
    let came: Vec<Timed> = a.into_iter().map(|(at, frame)| (at + 3, frame)).collect();
    assert_eq!(ran.came[1], came);
}

#[test]
fn frames_to_a_guest_that_has_ended_are_counted() {
    let a = (0..10).map(|at| (at, frame(at as u8))).collect();
    let ran = run([a, Vec::new()], [15, 5], false);
    assert_eq!(ran.outcome, Ok(()));
    let usage = ran.usage[1];
    assert_eq!(usage.sent + usage.lost, 10);
    assert!(usage.lost >= 5, "{usage:?}");
}

#[test]
fn a_guest_that_sleeps_is_found() {
    let ran = run([Vec::new(), Vec::new()], [10, 10], true);
    let why = ran.outcome.expect_err("it slept");
    assert!(why.contains("idle=poll"), "{why}");
}
