//! Two processes over a channel: what an application sees.

mod processes;

use gannet::{Host, Interest, Poller, TcpListener, TcpStream, UdpSocket};
use gannet_base::Rng;
use processes::{Other, listen, network, role as my_role, say};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first process is 10.0.0.1, the other 10.0.0.2.
const HERE: &str = "10.0.0.1/24";
const THERE: &str = "10.0.0.2:80";

fn host(network: &str) -> Host {
    let host = Host::builder().channel(network, HERE);
    host.build().unwrap()
}

/// FNV-1a.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The entry of the other process: see `processes`. In the first one it has nothing to do.
#[test]
fn role() {
    let Some((role, network)) = my_role() else {
        return;
    };
    let host = || {
        let host = Host::builder().channel(&network, "10.0.0.2/24");
        host.build().unwrap()
    };
    match role.as_str() {
        "echo" => echo(&host()),
        "reset" => reset(&host()),
        "silent" => silent(&host()),
        "sink" => sink(&host()),
        "blocks" => blocks(&host()),
        "farewell" => farewell(&host()),
        "udp_echo" => udp_echo(&host()),
        "udp_count" => udp_count(&host()),
        "meet" => meet(&host()),
        other => panic!("no role {other:?}"),
    }
}

/// Sends everything back, a thread for each connection.
fn echo(host: &Host) {
    let listener = TcpListener::bind(host, THERE).unwrap();
    say("ready");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || {
                let _ = io::copy(&mut &stream, &mut &stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    listen();
    std::process::exit(0);
}

#[test]
fn echo_of_random_sizes_is_what_was_sent() {
    const TOTAL: usize = 24 << 20;
    let network = network("echo");
    let other = Other::start("echo", &network);
    let host = host(&network);
    let stream = TcpStream::connect(&host, THERE).unwrap();
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            let mut rng = Rng::new(seed);
            let (mut left, mut sum) = (TOTAL, 0);
            let mut data = vec![0; 300_000];
            while left > 0 {
                let max = [100, 3000, data.len()][rng.below(3) as usize];
                let n = (1 + rng.below(max as u64) as usize).min(left);
                rng.fill(&mut data[..n]);
                (&stream).write_all(&data[..n]).unwrap();
                sum = hash(sum, &data[..n]);
                left -= n;
            }
            stream.shutdown(Shutdown::Write).unwrap();
            sum
        });
        let mut rng = Rng::new(!seed);
        let (mut got, mut sum) = (0, 0);
        let mut data = vec![0; 300_000];
        loop {
            let max = [100, 3000, data.len()][rng.below(3) as usize];
            let n = (&stream).read(&mut data[..max]).unwrap();
            if n == 0 {
                break;
            }
            sum = hash(sum, &data[..n]);
            got += n;
        }
        assert_eq!((got, sum), (TOTAL, sent.join().unwrap()));
    });
    let info = stream.info().unwrap();
    assert_eq!(info.retransmissions, 0, "memory loses nothing");
    assert_eq!(info.bytes_received, TOTAL as u64);
    other.end();
}

#[test]
fn a_thousand_connections_at_once() {
    let network = network("thousand");
    let other = Other::start("sink", &network);
    let host = host(&network);
    let mut streams = Vec::new();
    for index in 0..1000u32 {
        let mut stream = TcpStream::connect(&host, THERE).unwrap();
        stream.write_all(&index.to_be_bytes()).unwrap();
        streams.push(stream);
    }
    for (index, stream) in streams.iter_mut().enumerate() {
        stream.write_all(b"?").unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        let expected = (index as u32).to_be_bytes();
        assert_eq!((&answer[..4], answer[4]), (&expected[..], b'?'));
    }
    other.end();
}

/// One thread, one poller: echoes every connection.
fn sink(host: &Host) {
    let listener = TcpListener::bind(host, THERE).unwrap();
    listener.set_nonblocking(true).unwrap();
    let poller = Poller::new(host);
    poller.add(&listener, u64::MAX, Interest::READABLE).unwrap();
    let waker = poller.waker();
    say("ready");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    std::thread::spawn(move || {
        listen();
        stopped.store(true, Ordering::Relaxed);
        waker.wake();
    });
    let (mut streams, mut events, mut buffer) = (Vec::new(), Vec::new(), [0; 4096]);
    while !stop.load(Ordering::Relaxed) {
        poller.wait(&mut events, None).unwrap();
        for event in &events {
            if event.token == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    poller
                        .add(&stream, streams.len() as u64, Interest::READABLE)
                        .unwrap();
                    streams.push(Some(stream));
                }
                continue;
            }
            let place = &mut streams[event.token as usize];
            let mut stream = place.as_ref().unwrap();
            match stream.read(&mut buffer) {
                Ok(0) => *place = None,
                Ok(n) => stream.write_all(&buffer[..n]).unwrap(),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }
}

/// Some threads are quick, some think for longer than anybody spins or dozes, some only watch: each
/// must be woken, whoever leads at the time.
#[test]
fn many_threads_wait_on_one_host() {
    const ROUNDS: u64 = 300;
    let network = network("threads");
    let other = Other::start("echo", &network);
    let host = host(&network);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let host = &host;
            scope.spawn(move || {
                let mut rng = Rng::new(seed ^ thread << 32);
                let mut stream = TcpStream::connect(host, THERE).unwrap();
                let rounds = if thread < 4 { ROUNDS * 10 } else { ROUNDS };
                for round in 0..rounds {
                    let sent = (thread << 32 | round).to_be_bytes();
                    stream.write_all(&sent).unwrap();
                    let mut back = [0; 8];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(back, sent);
                    if thread >= 4 {
                        // Up to 4 ms: shorter and longer than every threshold there is.
                        let most = 1 << rng.below(13);
                        std::thread::sleep(Duration::from_micros(rng.below(most)));
                    }
                }
            });
        }
        // Watches a socket on which nothing ever happens.
        scope.spawn(|| {
            let idle = TcpStream::connect(&host, THERE).unwrap();
            let wait = Duration::from_millis(200);
            idle.set_read_timeout(Some(wait)).unwrap();
            let error = (&idle).read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        });
    });
    other.end();
}

#[test]
fn nobody_listens_refused_and_nobody_there_unreachable() {
    let network = network("refused");
    let other = Other::start("echo", &network);
    let host = host(&network);
    let refused = TcpStream::connect(&host, "10.0.0.2:81").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(refused.to_string().contains("10.0.0.2:81"), "{refused}");
    let nobody = TcpStream::connect(&host, "10.0.0.3:80").unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::HostUnreachable, "{nobody}");
    let nowhere = TcpStream::connect(&host, "192.0.2.1:80").unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::NetworkUnreachable, "{nowhere}");
    other.end();
}

/// Resets what it accepts, as soon as it has read a byte.
fn reset(host: &Host) {
    let listener = TcpListener::bind(host, THERE).unwrap();
    say("ready");
    for stream in listener.incoming().take(2) {
        let mut stream = stream.unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream.set_linger(Some(Duration::ZERO)).unwrap();
    }
    listen();
}

#[test]
fn a_reset_is_reported_once_then_the_stream_is_over() {
    let network = network("reset");
    let other = Other::start("reset", &network);
    let host = host(&network);
    let mut stream = TcpStream::connect(&host, THERE).unwrap();
    stream.write_all(b"x").unwrap();
    let error = stream.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(error.to_string().contains(THERE), "{error}");
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    let error = stream.write(b"y").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    // The other way round: the error can be taken instead.
    let mut stream = TcpStream::connect(&host, THERE).unwrap();
    stream.write_all(b"x").unwrap();
    let patience = Instant::now() + Duration::from_secs(10);
    let taken = loop {
        match stream.take_error().unwrap() {
            Some(error) => break error,
            None => assert!(Instant::now() < patience),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(taken.kind(), ErrorKind::ConnectionReset);
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    other.end();
}

#[test]
fn after_half_a_close_the_other_half_works() {
    let network = network("half");
    let other = Other::start("echo", &network);
    let host = host(&network);
    let mut stream = TcpStream::connect(&host, THERE).unwrap();
    stream.write_all(b"first, and last").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let error = stream.write(b"more").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    let mut back = String::new();
    stream.read_to_string(&mut back).unwrap();
    assert_eq!(back, "first, and last");
    other.end();
}

/// Accepts and never says a word.
fn silent(host: &Host) {
    let listener = TcpListener::bind(host, THERE).unwrap();
    say("ready");
    let accepted = std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    listen();
    drop(accepted);
    std::process::exit(0);
}

#[test]
fn time_outs_and_nonblocking_give_would_block() {
    let network = network("timeout");
    let other = Other::start("silent", &network);
    let host = host(&network);
    let mut stream = TcpStream::connect(&host, THERE).unwrap();
    let wait = Duration::from_millis(60);
    stream.set_read_timeout(Some(wait)).unwrap();
    assert_eq!(stream.read_timeout().unwrap(), Some(wait));
    let start = Instant::now();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(start.elapsed() >= wait);

    stream.set_write_timeout(Some(wait)).unwrap();
    let much = vec![7; 64 << 20];
    let mut wrote = 0;
    let error = loop {
        match stream.write(&much[wrote..]) {
            Ok(n) => wrote += n,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(wrote > 0);

    stream.set_nonblocking(true).unwrap();
    for error in [
        stream.read(&mut [0]).unwrap_err(),
        stream.write(b"x").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    other.end();
}

#[test]
fn a_poller_finds_the_ready_among_a_hundred() {
    let network = network("poller");
    let other = Other::start("sink", &network);
    let host = host(&network);
    let poller = Poller::new(&host);
    let mut streams = Vec::new();
    for token in 0..100 {
        let stream = TcpStream::connect(&host, THERE).unwrap();
        stream.set_nonblocking(true).unwrap();
        poller.add(&stream, token, Interest::READABLE).unwrap();
        streams.push(stream);
    }
    let mut events = Vec::new();
    let none = poller.wait(&mut events, Some(Duration::from_millis(20)));
    assert_eq!(none.unwrap(), 0, "nobody has said anything");
    for token in [3u64, 99, 0, 42] {
        (&streams[token as usize]).write_all(b"x").unwrap();
        poller.wait(&mut events, None).unwrap();
        let [event] = events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((event.token, event.readable), (token, true));
        // Level-triggered: it is told again until it was read.
        assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
        let n = (&streams[token as usize]).read(&mut [0; 8]).unwrap();
        assert_eq!(n, 1);
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
    }
    poller
        .modify(&streams[5], 500, Interest::READABLE | Interest::WRITABLE)
        .unwrap();
    poller.wait(&mut events, None).unwrap();
    assert!(events[0].token == 500 && events[0].writable && !events[0].readable);
    poller.delete(&streams[5]).unwrap();
    let gone = poller.delete(&streams[5]).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);

    let waker = poller.waker();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        waker.wake();
    });
    assert_eq!(poller.wait(&mut events, None).unwrap(), 0, "woken");
    later.join().unwrap();
    other.end();
}

/// Receives blocks without copying and sends each back in a block of its own.
fn blocks(host: &Host) {
    let listener = TcpListener::bind(host, THERE).unwrap();
    say("ready");
    let (stream, _) = listener.accept().unwrap();
    while let Some(received) = stream.recv_block().unwrap() {
        let mut at = 0;
        while at < received.len() {
            let mut block = stream.take_block().unwrap();
            let n = received.read_at(at, &mut block);
            stream.send_block(block, n).unwrap();
            at += n;
        }
    }
    stream.shutdown(Shutdown::Write).unwrap();
    listen();
}

#[test]
fn blocks_travel_both_ways_uncopied() {
    let network = network("blocks");
    let other = Other::start("blocks", &network);
    let host = host(&network);
    let stream = TcpStream::connect(&host, THERE).unwrap();
    let seed = 7;
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            let (mut rng, mut sum) = (Rng::new(seed), 0);
            for _ in 0..400 {
                let mut block = stream.take_block().unwrap();
                let len = 1 + rng.below(block.len() as u64) as usize;
                rng.fill(&mut block[..len]);
                sum = hash(sum, &block[..len]);
                stream.send_block(block, len).unwrap();
            }
            // Taken and dropped unsent, it comes back to the pool.
            drop(stream.take_block().unwrap());
            stream.shutdown(Shutdown::Write).unwrap();
            sum
        });
        let (mut sum, mut held) = (0, Vec::new());
        while let Some(block) = stream.recv_block().unwrap() {
            assert!(!block.is_empty());
            sum = hash(sum, &block.to_vec());
            // Held for a while, released out of order.
            held.push(block);
            if held.len() > 8 {
                held.remove(3);
            }
        }
        assert_eq!(sum, sent.join().unwrap());
    });
    let block = stream.take_block();
    drop(block);
    other.end();
}

/// Sends what fits into the window, closes and ends at once, while the reader has hardly begun.
fn farewell(host: &Host) {
    let listener = TcpListener::bind(host, THERE).unwrap();
    say("ready");
    let (mut stream, _) = listener.accept().unwrap();
    let mut rng = Rng::new(1);
    let mut data = vec![0; 200_000];
    rng.fill(&mut data);
    stream.write_all(&data).unwrap();
}

#[test]
fn what_a_process_sent_before_its_end_is_read_to_the_end() {
    let network = network("farewell");
    let other = Other::start("farewell", &network);
    let host = host(&network);
    let mut stream = TcpStream::connect(&host, THERE).unwrap();
    let mut first = [0; 10];
    stream.read_exact(&mut first).unwrap();
    other.end();
    // Long enough for its end to be noticed.
    std::thread::sleep(Duration::from_millis(150));
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let mut expected = vec![0; 200_000];
    Rng::new(1).fill(&mut expected);
    assert_eq!(hash(hash(0, &first), &rest), hash(0, &expected));
    let error = stream.write(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(error.to_string().contains("peer gone"), "{error}");
    assert_eq!(
        stream.write(b"x").unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
}

#[test]
fn a_killed_peer_ends_a_blocked_read_with_an_error() {
    let network = network("killed");
    let mut other = Other::start("silent", &network);
    let host = host(&network);
    let mut stream = TcpStream::connect(&host, THERE).unwrap();
    let mut second = TcpStream::connect(&host, THERE).unwrap();
    let listener = TcpListener::bind(&host, "0.0.0.0:99").unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let error = stream.read(&mut [0]).unwrap_err();
            (error, Instant::now())
        });
        let second = scope.spawn(|| {
            let error = second.read(&mut [0]).unwrap_err();
            (error, Instant::now())
        });
        std::thread::sleep(Duration::from_millis(50));
        other.kill();
        let killed = Instant::now();
        for reader in [first, second] {
            let (error, noticed) = reader.join().unwrap();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert!(error.to_string().contains("peer gone"), "{error}");
            // The mark is 100 ms; a loaded machine may be slower.
            assert!(noticed - killed < Duration::from_secs(2));
        }
    });
    // A new process takes the name over, and is found.
    let other = Other::start("echo", &network);
    let mut stream = TcpStream::connect(&host, THERE).unwrap();
    stream.write_all(b"again").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"again");
    drop(listener);
    other.end();
}

fn udp_echo(host: &Host) {
    let socket = UdpSocket::bind(host, THERE).unwrap();
    say("ready");
    std::thread::spawn(move || {
        let mut buffer = [0; 9000];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..len], from).unwrap();
        }
    });
    listen();
    std::process::exit(0);
}

#[test]
fn datagrams_come_back() {
    let network = network("udp");
    let other = Other::start("udp_echo", &network);
    let host = host(&network);
    let socket = UdpSocket::bind(&host, "0.0.0.0:0").unwrap();
    let mut buffer = [0; 9000];
    for len in [0, 1, 96, 1400, 8192] {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        assert_eq!(socket.send_to(&data, THERE).unwrap(), len);
        assert_eq!(socket.peek(&mut buffer).unwrap(), len);
        let (n, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..n], from), (&data[..], THERE.parse().unwrap()));
    }
    socket.connect(THERE).unwrap();
    assert_eq!(socket.peer_addr().unwrap(), THERE.parse().unwrap());
    assert_eq!(socket.send(b"connected").unwrap(), 9);
    assert_eq!(socket.recv(&mut buffer).unwrap(), 9);
    socket.set_nonblocking(true).unwrap();
    let error = socket.recv(&mut buffer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    other.end();
}

/// Checks that datagrams come in order and without a gap, slower than they are sent.
fn udp_count(host: &Host) {
    let socket = UdpSocket::bind(host, THERE).unwrap();
    say("ready");
    let mut buffer = vec![0; 64 << 10];
    let mut places = [gannet::Datagram::EMPTY; 64];
    let mut expected = 0u32;
    loop {
        let count = socket.recv_batch(&mut buffer, &mut places).unwrap();
        for place in &places[..count] {
            let number: [u8; 4] = buffer[place.offset..place.offset + 4].try_into().unwrap();
            if u32::from_be_bytes(number) == u32::MAX {
                return say(expected);
            }
            assert_eq!(u32::from_be_bytes(number), expected);
            expected += 1;
        }
        if expected % 4096 < 64 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn no_datagram_is_lost_on_a_channel() {
    const COUNT: u32 = 200_000;
    let network = network("udpstream");
    let mut other = Other::start("udp_count", &network);
    let host = host(&network);
    let socket = UdpSocket::bind(&host, "0.0.0.0:0").unwrap();
    socket.connect(THERE).unwrap();
    let mut sent = 0;
    while sent < COUNT {
        let until = (sent + 32).min(COUNT);
        let batch: Vec<u8> = (sent..until)
            .flat_map(|n| n.to_be_bytes().into_iter().chain([0; 124]))
            .collect();
        sent += socket.send_batch(&batch, 128).unwrap() as u32;
    }
    socket.send(&u32::MAX.to_be_bytes()).unwrap();
    assert_eq!(other.hear(), COUNT.to_string());
    other.end();
}

/// Connects to the first process while that connects here.
fn meet(host: &Host) {
    let listener = TcpListener::bind(host, THERE).unwrap();
    say("ready");
    listen();
    let mut stream = TcpStream::connect(host, "10.0.0.1:80").unwrap();
    stream.write_all(b"from there").unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let mut text = [0; 9];
    accepted.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"from here");
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn two_that_connect_to_each_other_at_once_both_succeed() {
    for _ in 0..10 {
        let network = network("meet");
        let mut other = Other::start("meet", &network);
        let host = host(&network);
        let listener = TcpListener::bind(&host, "10.0.0.1:80").unwrap();
        other.tell("go");
        let mut stream = TcpStream::connect(&host, THERE).unwrap();
        stream.write_all(b"from here").unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        let mut text = [0; 10];
        accepted.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"from there");
        accepted.write_all(b"x").unwrap();
        other.end();
    }
}
