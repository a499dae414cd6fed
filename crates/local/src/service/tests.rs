//! Questions and answers: short, long, nonsense, with descriptors, none.

use super::*;
use crate::network::tests::Private;
use rustix::net::{accept, send, socketpair};

fn pair() -> (OwnedFd, OwnedFd) {
    let kind = SocketType::SEQPACKET;
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}

fn read(from: &OwnedFd) -> Option<Question> {
    let mut bytes = [0; 64];
    let (_, n) = rustix::net::recv(from, &mut bytes[..], RecvFlags::empty()).unwrap();
    Question::unpack(&bytes[..n])
}

#[test]
fn questions_there_and_back() {
    let all = [
        Question::Attach,
        Question::Arena(u64::MAX),
        Question::Listen(7),
        Question::Figures(8),
        Question::Enter(9),
        Question::Look,
        Question::List,
        Question::Connect(Target::Gateway(9)),
        Question::Connect(Target::Listener {
            to: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535"
                .parse()
                .unwrap(),
            host: u64::MAX,
            turn: u32::MAX,
        }),
        Question::Bind(
            "l-6-2001:db8:1111:2222:3333:4444:5555:6666-65535".into(),
            true,
        ),
    ];
    for question in all {
        let packed = question.pack();
        assert!(packed.len() <= QUESTION_MAX);
        assert_eq!(Question::unpack(&packed), Some(question));
    }
}

#[test]
fn s5_s6_questions_that_are_none() {
    let good = Question::Look.pack();
    for n in 0..good.len() {
        assert_eq!(Question::unpack(&good[..n]), None, "{n} bytes");
    }
    assert_eq!(Question::unpack(&[good.as_slice(), &[0]].concat()), None);
    assert_eq!(Question::unpack(&[0xff; 65_536]), None);
    for kind in [0u32, 8, 11, u32::MAX] {
        let bytes = [&kind.to_ne_bytes()[..], &[0; 8]].concat();
        assert_eq!(Question::unpack(&bytes), None);
    }
}

#[test]
fn s6_answers_that_are_short_long_or_late() {
    for bytes in [&b""[..], b"abc"] {
        let (here, there) = pair();
        send(&there, bytes, SendFlags::empty()).unwrap();
        drop(there);
        assert_eq!(receive(&here).err(), Some(Errno::CONNRESET));
    }
    let (here, there) = pair();
    send(&there, &[0; 2 * LONGEST], SendFlags::empty()).unwrap();
    assert_eq!(receive(&here).unwrap().text.len(), LONGEST - 4);
    sockopt::set_socket_timeout(&here, Timeout::Recv, Some(Duration::from_millis(5))).unwrap();
    assert_eq!(receive(&here).err(), Some(Errno::AGAIN));
    send(&there, b"\0\0\0\0\xff\xfe", SendFlags::empty()).unwrap();
    assert_eq!(receive(&here).unwrap().text, "\u{fffd}\u{fffd}");
}

#[test]
fn s6_more_descriptors_than_asked_for() {
    let (here, there) = pair();
    let (watched, held) = pair();
    let files = [
        there.as_fd(),
        held.as_fd(),
        held.as_fd(),
        held.as_fd(),
        held.as_fd(),
    ];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let text = [IoSlice::new(&[0; 8])];
    rustix::net::sendmsg(&there, &text, &mut control, SendFlags::empty()).unwrap();
    let answer = receive(&here).unwrap();
    assert!(answer.file.is_some());
    // All others were closed: nobody is left at the other end.
    drop(held);
    assert_eq!(
        rustix::net::recv(&watched, &mut [0; 1][..], RecvFlags::DONTWAIT),
        Ok((0, 0))
    );
}

#[test]
fn what_the_carrier_says_and_that_there_is_none() {
    let private = Private::new();
    let network = private.network;
    let host = rustix::process::getpid().as_raw_nonzero().get() as u64;
    assert_eq!(
        ask(&network, host, &Question::Look).err(),
        Some(Errno::CONNREFUSED)
    );
    assert_eq!(
        tell(&network, host, &Question::Look),
        Err(Errno::CONNREFUSED)
    );
    let [listener, _far] = listen(&network, host).unwrap();
    assert_eq!(listen(&network, host).err(), Some(Errno::ADDRINUSE));
    let cases = [
        (2, Err(Errno::NOENT)),
        (-1, Err(Errno::PROTO)),
        (i32::MIN, Err(Errno::PROTO)),
    ];
    for (errno, said) in cases.into_iter().chain([(0, Ok("text".to_string()))]) {
        let asked = std::thread::spawn(move || ask(&network, host, &Question::Look));
        let mut entry = [rustix::event::PollFd::new(
            &listener,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut entry, None).unwrap();
        let to = accept(&listener).unwrap();
        assert_eq!(read(&to), Some(Question::Look));
        let text = "text".to_string();
        let file = None;
        answer(&to, &Answer { errno, text, file }).unwrap();
        let got = asked.join().unwrap().map(|answer| answer.text);
        assert_eq!(got, said);
    }
    assert_eq!(ask_for_none(&network), Err(Errno::PROTO));
}

/// An answer without the descriptor it should bring.
fn ask_for_none(network: &Network) -> Result<(), Errno> {
    let network = *network;
    let host = u64::from(std::process::id()) + (1 << 32);
    let [listener, _far] = listen(&network, host)?;
    let asked = std::thread::spawn(move || ask_for_arena(&network, host, 7, PATIENCE).map(drop));
    let mut entry = [rustix::event::PollFd::new(
        &listener,
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut entry, None)?;
    let to = accept(&listener)?;
    assert_eq!(read(&to), Some(Question::Arena(7)));
    answer(&to, &Answer::default())?;
    asked.join().unwrap()
}
