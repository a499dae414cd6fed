//! Programs behind a carrier and hosts without one, over a channel.

mod carried;

use carried::{Program, carry, config, native, network, until};
use gannet::{TcpListener, TcpStream, UdpSocket};
use gannet_local::datagram::{HEADER, Header, What};
use gannet_local::service::Question;
use gannet_local::slot::{Kind, PeerSlot, flags};
use gannet_local::{Hindrance, Opt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Bytes that tell their place.
fn pattern(len: usize) -> Vec<u8> {
    let byte = |n: usize| (n ^ n >> 8 ^ n >> 16) as u8;
    (0..len).map(byte).collect()
}

#[test]
fn a_native_host_reaches_a_listener_of_the_program() {
    let network = network("inward");
    let config = config(&network, "10.1.0.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    assert!(program.settings.contains("address 10.1.0.1\n"));
    assert!(program.settings.contains("route 10.1.0.0/24\n"));
    let listener = program.listen(at("0.0.0.0:80"));

    let client = std::thread::spawn({
        let network = network.clone();
        move || {
            let host = native(&network, "10.1.0.2/24");
            let mut stream = TcpStream::connect(&host, "10.1.0.1:80").unwrap();
            let sent = pattern(3 << 20);
            let writer = std::thread::spawn({
                let (mut stream, sent) = (stream.try_clone().unwrap(), sent.clone());
                move || {
                    stream.write_all(&sent).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                }
            });
            let mut back = Vec::new();
            stream.read_to_end(&mut back).unwrap();
            writer.join().unwrap();
            assert!(back == sent, "the bytes come back as they were");
        }
    });

    let socket = listener.accept();
    let slot = program.arena().peer(socket.slot);
    assert_eq!(slot.local(), at("10.1.0.1:80"));
    assert_eq!(slot.remote().ip(), at("10.1.0.2:0").ip());
    let mut piece = vec![0; 50_000];
    loop {
        match socket.receive(&mut piece) {
            Ok(n) => socket.send(&piece[..n]).unwrap(),
            Err(end) => {
                assert_eq!(end, Hindrance::End);
                break;
            }
        }
    }
    let gateway = program.peers.get(slot.peer_name().host).unwrap();
    let figures = gateway.peer(slot.peer_name().slot).figures();
    assert!(figures.send_mss > 500 && figures.congestion_window > 0);
    socket.close();
    client.join().unwrap();
    until("only the listener is left", || program.slots() == 1);
    assert_eq!(slots_in_use(&gateway), 0);
}

/// Of another program's memory: which slots are taken stands in a part of it that is not mapped.
fn slots_in_use(other: &gannet_local::Arena) -> usize {
    let all = 0..other.geometry().slots;
    all.filter(|n| other.peer(*n).kind().is_some()).count()
}

#[test]
fn listeners_that_share_a_port_take_turns() {
    let network = network("turns");
    let config = config(&network, "10.1.0.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let listeners = [(); 3].map(|()| program.listen_as(at("0.0.0.0:80"), true));
    let host = native(&network, "10.1.0.2/24");
    let connect = |_| TcpStream::connect(&host, "10.1.0.1:80").unwrap();
    let clients: Vec<TcpStream> = (0..9).map(connect).collect();
    for listener in &listeners {
        let mut accepted: Vec<_> = (0..3).map(|_| listener.accept()).collect();
        accepted.drain(..).for_each(carried::Socket::close);
    }
    drop(clients);
}

/// The carrier does not see whether the program sleeps before it has the program's answer; what it
/// wrote until then must wake a program that looked before and fell asleep.
#[test]
fn bytes_that_came_before_the_answer_wake_the_program() {
    let network = network("late");
    let config = config(&network, "10.1.0.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let listener = program.listen(at("0.0.0.0:80"));
    let host = native(&network, "10.1.0.2/24");
    let mut client = TcpStream::connect(&host, "10.1.0.1:80").unwrap();
    client.write_all(b"early").unwrap();
    let socket = listener.accept_late(|theirs, own| {
        until("the bytes are in the ring", || theirs.produced() == 5);
        own.arm_reader();
    });
    let mut wait = [PollFd::new(&socket.fd, PollFlags::IN)];
    let long = Timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut wait, Some(&long)), Ok(1), "a wake-up");
    let mut bytes = [0; 9];
    assert_eq!(socket.receive(&mut bytes), Ok(5));
    assert_eq!(&bytes[..5], b"early");
}

/// `MSG_MORE`: what more follows waits for it.
#[test]
fn what_more_follows_leaves_with_it() {
    let network = network("more");
    let config = config(&network, "10.1.13.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let host = native(&network, "10.1.13.2/24");
    let listener = TcpListener::bind(&host, "10.1.13.2:9").unwrap();
    let (local, to) = (at("10.1.13.1:40000"), at("10.1.13.2:9"));
    let socket = program.open(Kind::Stream, local, to).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    // On a machine that stops for long a time-out sends the first part alone: not every time.
    let together = (0..10).any(|_| {
        let more = |on: bool| {
            socket.with(|stream| match on {
                true => drop(stream.slot().set_flags(flags::MORE)),
                false => stream.slot().clear_flags(flags::MORE),
            });
        };
        more(true);
        socket.send(b"head, ").unwrap();
        std::thread::sleep(Duration::from_millis(30));
        more(false);
        socket.send(b"body").unwrap();
        let mut got = [0; 10];
        let first = stream.read(&mut got).unwrap();
        stream.read_exact(&mut got[first..]).unwrap();
        assert_eq!(&got, b"head, body");
        first == 10
    });
    assert!(together);
    socket.close();
}

/// `TCP_CORK`: what is corked leaves when the cork is taken off, when the direction ends, when it
/// fills segments, and at last when it has waited for long enough.
#[test]
fn corked_bytes_leave_in_the_end() {
    let network = network("corked");
    let config = config(&network, "10.1.5.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let host = native(&network, "10.1.5.2/24");
    let listener = TcpListener::bind(&host, "10.1.5.2:9").unwrap();
    let (local, to) = (at("10.1.5.1:40000"), at("10.1.5.2:9"));
    let socket = program.open(Kind::Stream, local, to).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut expect = |sent: &[u8]| {
        let mut got = vec![0; sent.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == sent);
    };

    socket.set(Opt::Cork, 1);
    socket.send(b"head, ").unwrap();
    socket.send(b"body").unwrap();
    socket.set(Opt::Cork, 0);
    expect(b"head, body");

    socket.set(Opt::Cork, 1);
    socket.send(b"never uncorked").unwrap();
    expect(b"never uncorked");
    let much = pattern(200_000);
    socket.send(&much).unwrap();
    expect(&much);

    socket.send(b"the end").unwrap();
    socket.with(|stream| stream.finish());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "the end");
    socket.close();
}

#[test]
fn the_program_reaches_native_hosts_or_hears_why_not() {
    let network = network("outward");
    let config = config(&network, "10.1.1.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let host = native(&network, "10.1.1.2/24");
    let listener = TcpListener::bind(&host, "10.1.1.2:9").unwrap();

    let local = at("10.1.1.1:40000");
    let socket = program.open(Kind::Stream, local, at("10.1.1.2:9")).unwrap();
    let (mut stream, from) = listener.accept().unwrap();
    assert_eq!(from, local);
    socket.set(Opt::NoDelay, 1);
    socket.send(b"question").unwrap();
    socket.with(|stream| stream.finish());
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "question");
    stream.write_all(b"answer").unwrap();
    drop(stream);
    assert_eq!(socket.receive_all().unwrap(), b"answer");
    socket.close();

    for (to, errno) in [
        ("10.1.1.2:10", libc::ECONNREFUSED),
        ("10.1.1.77:9", libc::EHOSTUNREACH),
        ("192.0.2.1:9", libc::ENETUNREACH),
    ] {
        let outcome = program.open(Kind::Stream, local, at(to));
        assert_eq!(outcome.err(), Some(errno), "{to}");
    }
}

#[test]
fn resets_pass_both_ways_with_their_reason() {
    let network = network("resets");
    let config = config(&network, "10.1.2.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let host = native(&network, "10.1.2.2/24");
    let listener = TcpListener::bind(&host, "10.1.2.2:9").unwrap();
    let open = |port| {
        let local = SocketAddr::new(at("10.1.2.1:0").ip(), port);
        program.open(Kind::Stream, local, at("10.1.2.2:9")).unwrap()
    };

    let socket = open(40_001);
    let (stream, _) = listener.accept().unwrap();
    stream.set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    let mut out = [0; 8];
    assert_eq!(socket.receive(&mut out), Err(Hindrance::Reset));
    let name = program.arena().peer(socket.slot).peer_name();
    let gateway = program.peers.get(name.host).unwrap();
    let end: PeerSlot<'_> = gateway.peer(name.slot);
    assert_eq!(end.reason(), libc::ECONNRESET);
    socket.close();

    let socket = open(40_002);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"never read").unwrap();
    until("bytes", || socket.with(|stream| stream.waiting()) > 0);
    socket.close();
    let error = stream.read(&mut out).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    until("nothing is left", || {
        program.slots() == 0 && slots_in_use(&gateway) == 0
    });
}

#[test]
fn what_is_not_read_is_not_lost_and_stops_the_sender() {
    let network = network("pressure");
    let config = config(&network, "10.1.3.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let host = native(&network, "10.1.3.2/24");
    let listener = TcpListener::bind(&host, "10.1.3.2:9").unwrap();
    let local = at("10.1.3.1:40000");
    let socket = program.open(Kind::Stream, local, at("10.1.3.2:9")).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let all = pattern(20 << 20);

    stream.set_nonblocking(true).unwrap();
    let mut written = 0;
    let mut stuck = 0;
    until("no room is left", || {
        match stream.write(&all[written..]) {
            Ok(n) => {
                written += n;
                stuck = 0;
            }
            Err(_) => stuck += 1,
        }
        stuck > 200
    });
    assert!(written < all.len(), "the sender was stopped");
    stream.set_nonblocking(false).unwrap();
    let rest = all[written..].to_vec();
    let writer = std::thread::spawn(move || {
        stream.write_all(&rest).unwrap();
    });
    let got = socket.receive_all().unwrap();
    writer.join().unwrap();
    assert!(got == all);
}

#[test]
fn datagrams_are_records_and_so_are_their_errors() {
    let network = network("datagrams");
    let config = config(&network, "10.1.4.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let host = native(&network, "10.1.4.2/24");
    let peer = UdpSocket::bind(&host, "10.1.4.2:53").unwrap();
    let nobody = at("0.0.0.0:0");
    let socket = program
        .open(Kind::Datagrams, at("10.1.4.1:0"), nobody)
        .unwrap();
    let local = program.arena().peer(socket.slot).local();
    assert_ne!(local.port(), 0, "the carrier chose a port");

    let send = |header: Header, body: &[u8]| {
        let record = [&header.pack()[..], body].concat();
        socket.send(&record).unwrap();
    };
    send(Header::data(at("10.1.4.2:53"), 5), b"hello");
    let mut out = [0; 2000];
    let (n, from) = peer.recv_from(&mut out).unwrap();
    assert_eq!((&out[..n], from), (&b"hello"[..], local));
    peer.send_to(&pattern(1200), from).unwrap();
    let next = || {
        let mut out = vec![0; 4000];
        let n = socket.receive(&mut out).unwrap();
        out.truncate(n);
        let head = Header::unpack(out.first_chunk::<HEADER>().unwrap()).unwrap();
        (head, out.split_off(HEADER))
    };
    let (head, body) = next();
    assert_eq!(head, Header::data(at("10.1.4.2:53"), 1200));
    assert!(body == pattern(1200));

    let connect = Header {
        what: What::Connect,
        ..Header::data(at("10.1.4.2:54"), 0)
    };
    send(connect, b"");
    send(Header::data(at("10.1.4.2:54"), 1), b"x");
    let (head, _) = next();
    assert_eq!(
        (head.what, head.code),
        (What::Error, libc::ECONNREFUSED as u32)
    );
}

#[test]
fn two_programs_meet_directly_and_their_carriers_introduce_them() {
    let network = network("direct");
    let (one, two) = (
        config(&network, "10.1.5.1/24"),
        config(&network, "10.1.5.2/24"),
    );
    carry(one.clone());
    carry(two.clone());
    let (a, b) = (Program::attach(&one), Program::attach(&two));
    let listener = b.listen(at("10.1.5.2:80"));
    let there = a.open_directly(at("10.1.5.1:40000"), at("10.1.5.2:80"));
    there.send(b"before it is accepted").unwrap();
    let here = listener.accept();
    let mut out = [0; 100];
    let n = here.receive(&mut out).unwrap();
    assert_eq!(&out[..n], b"before it is accepted");
    there.wait_until_open().unwrap();
    here.send(b"answer").unwrap();
    let n = there.receive(&mut out).unwrap();
    assert_eq!(&out[..n], b"answer");
    // Let go of while the other end is still there: its carrier frees it afterwards.
    there.close();
    assert_eq!(here.receive(&mut out), Err(Hindrance::End));
    here.close();
    a.ask(Question::Look).unwrap();
    b.ask(Question::Look).unwrap();
    until("both are freed", || a.slots() == 0 && b.slots() == 1);
}

#[test]
fn questions_that_stall_or_are_nonsense_hold_up_nobody() {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
    let network = network("questions");
    let config = config(&network, "10.1.6.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let name = gannet_local::name::carrier(&config.network().unwrap(), config.host).unwrap();
    let connect = |text: &[u8]| {
        let kind = SocketType::SEQPACKET;
        let flags = SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::connect(&fd, &name).unwrap();
        if !text.is_empty() {
            rustix::net::send(&fd, text, SendFlags::empty()).unwrap();
        }
        fd
    };
    let mut silent: Vec<_> = (0..300).map(|_| connect(b"")).collect();
    silent.push(connect(b"nonsense"));
    silent.push(connect(&[7; 60]));
    silent.push(connect(&[9; 12]));
    assert!(program.ask(Question::Look).is_ok());
    assert_eq!(
        program.ask(Question::Arena(12345)).err(),
        Some(rustix::io::Errno::CONNREFUSED)
    );
    let outcome = program.ask(Question::Listen(5)).err();
    assert_eq!(outcome, Some(rustix::io::Errno::INVAL));
    let listing = program.ask(Question::List).unwrap().file.unwrap();
    let text = std::io::read_to_string(std::fs::File::from(listing)).unwrap();
    assert!(text.starts_with("gannet-listing 1\nhost number="), "{text}");
}

/// `TCP_NOTSENT_LOWAT`: what the peer's window does not take stays with the program, but for the
/// little that it allows, and room is told when less than half of that waits.
#[test]
fn little_waits_to_be_sent_where_the_program_wants_it_so() {
    const LOW: u32 = 16_384;
    let network = network("unsent");
    let config = config(&network, "10.1.0.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let host = native(&network, "10.1.0.2/24");
    let listener = TcpListener::bind(&host, "10.1.0.2:80").unwrap();
    let socket = program.open(Kind::Stream, at("10.1.0.1:40000"), at("10.1.0.2:80"));
    let socket = socket.unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    socket.set(Opt::NOT_SENT_LOW_WATER, LOW);
    let (mut sent, mut idle) = (0, 0);
    while idle < 300 {
        match socket.with(|stream| stream.send_slice(&[7; 1000])) {
            Ok(n) => (sent, idle) = (sent + n, 0),
            Err(Hindrance::Wait) => idle += 1,
            Err(other) => panic!("{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(u64::from(idle > 0)));
    }
    let slot = program.arena().own(socket.slot);
    let gateway = program.peers.get(slot.peer_name().host).unwrap();
    let carriers = slot.peer_name().slot;
    program.ask(Question::Figures(carriers)).unwrap();
    let waits = socket.with(|stream| stream.unread());
    let waits = waits + u64::from(gateway.peer(carriers).figures().unsent);
    assert!((1..=LOW.into()).contains(&waits), "{waits} of {sent}");
    assert!(!socket.with(|stream| stream.readiness().writable));
    slot.arm_writer();
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; sent];
        stream.read_exact(&mut all).unwrap();
        stream
    });
    let mut wait = [PollFd::new(&socket.fd, PollFlags::IN)];
    let long = Timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut wait, Some(&long)), Ok(1), "woken");
    slot.disarm_writer();
    until("room", || socket.with(|stream| stream.readiness().writable));
    reader.join().unwrap();
}

/// Behind the peer's end a reset takes nothing away from reading, and is told all the same.
#[test]
fn a_reset_behind_the_peers_end_is_told() {
    let network = network("late-reset");
    let config = config(&network, "10.1.0.1/24");
    carry(config.clone());
    let program = Program::attach(&config);
    let host = native(&network, "10.1.0.2/24");
    let listener = TcpListener::bind(&host, "10.1.0.2:80").unwrap();
    let socket = program.open(Kind::Stream, at("10.1.0.1:40000"), at("10.1.0.2:80"));
    let socket = socket.unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(socket.receive(&mut [0; 9]), Err(Hindrance::End));
    assert!(!socket.with(|stream| stream.readiness().failed));
    stream.set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    until("the reset", || {
        socket.with(|stream| stream.readiness().failed)
    });
    let errno = socket.with(|stream| stream.reset_errno());
    assert_eq!(errno, rustix::io::Errno::PIPE.raw_os_error());
    assert_eq!(socket.receive(&mut [0; 9]), Err(Hindrance::End));
}
