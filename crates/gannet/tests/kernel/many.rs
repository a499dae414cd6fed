//! A thousand connections at once between Gannet and the kernel.

use crate::lan::{GANNET, Join, Lan, PATIENCE, not_root, wait};
use gannet::{Event, Interest, Poller, TcpStream as Ours};
use rustix::event::epoll;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream as Theirs};
use std::time::Instant;

const CONNECTIONS: usize = 1000;
/// Bytes each way on each connection: enough for several writes.
const BYTES: usize = 20_000;

fn message(number: usize) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    gannet_base::Rng::new(number as u64).fill(&mut bytes);
    bytes
}

/// A thousand of the kernel's descriptors and more.
fn allow_descriptors() {
    let limits = getrlimit(Resource::Nofile);
    let wanted = limits.maximum.unwrap_or(8192).min(8192);
    let current = Some(limits.current.unwrap_or(wanted).max(wanted));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current,
            maximum: limits.maximum,
        },
    )
    .unwrap();
}

/// A kernel server that echoes on every connection with one thread and epoll, until `count` of them
/// have ended.
fn kernel_echo(listener: &TcpListener, count: usize) {
    let events = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let watch = |fd: &dyn std::os::fd::AsFd, number: u64| {
        let data = epoll::EventData::new_u64(number);
        epoll::add(&events, fd.as_fd(), data, epoll::EventFlags::IN).unwrap();
    };
    listener.set_nonblocking(true).unwrap();
    watch(listener, u64::MAX);
    let mut streams: HashMap<u64, Theirs> = HashMap::new();
    let (mut next, mut ended) = (0, 0);
    let mut buffer = vec![0; 65_536];
    while ended < count {
        let mut space = Vec::with_capacity(256);
        epoll::wait(&events, rustix::buffer::spare_capacity(&mut space), None).unwrap();
        for event in &space {
            let number = event.data.u64();
            if number == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    watch(&stream, next);
                    streams.insert(next, stream);
                    next += 1;
                }
                continue;
            }
            // Answers fit into the socket's buffer, so that blocking writes do not wait.
            // A closed socket can still be told of while another test's child process has a copy of
            // its descriptor, between fork and exec.
            let Some(mut stream) = streams.get(&number) else {
                continue;
            };
            let n = stream.read(&mut buffer).unwrap();
            if n == 0 {
                streams.remove(&number);
                ended += 1;
            } else {
                stream.write_all(&buffer[..n]).unwrap();
            }
        }
    }
}

/// One of our connections to the kernel's echo.
struct Caller {
    stream: Ours,
    message: Vec<u8>,
    sent: usize,
    back: Vec<u8>,
}

impl Caller {
    /// Writes and reads what goes without waiting; whether everything came back.
    fn step(&mut self) -> bool {
        while self.sent < BYTES {
            match self.stream.write(&self.message[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let mut buffer = [0; 4096];
        while self.back.len() < BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("ended after {} bytes", self.back.len()),
                Ok(n) => self.back.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(self.back == self.message, "other bytes came back");
        true
    }
}

fn to_a_kernel_server(join: Join) {
    let lan = Lan::new(join, 1500);
    lan.kernel.set("core/somaxconn", "4096");
    let (listener, address) = lan.kernel_listener();
    let start = Instant::now();
    std::thread::scope(|threads| {
        let server = threads.spawn(|| kernel_echo(&listener, CONNECTIONS));
        let poller = Poller::new(&lan.host);
        let mut callers: Vec<Caller> = (0..CONNECTIONS)
            .map(|number| {
                let stream = Ours::connect(&lan.host, address.as_str()).unwrap();
                stream.set_nonblocking(true).unwrap();
                let both = Interest::READABLE | Interest::WRITABLE;
                poller.add(&stream, number as u64, both).unwrap();
                let (message, back) = (message(number), Vec::new());
                Caller {
                    stream,
                    message,
                    sent: 0,
                    back,
                }
            })
            .collect();
        assert_eq!(lan.host.connections(), CONNECTIONS, "all at once");
        let mut events: Vec<Event> = Vec::new();
        let mut done = vec![false; CONNECTIONS];
        while done.contains(&false) {
            poller.wait(&mut events, Some(PATIENCE)).unwrap();
            assert!(!events.is_empty(), "{join:?}: nothing happens any more");
            for event in &events {
                let number = event.token as usize;
                let caller = &mut callers[number];
                if caller.step() {
                    done[number] = true;
                    poller.delete(&caller.stream).unwrap();
                } else if caller.sent == BYTES {
                    let token = event.token;
                    poller
                        .modify(&caller.stream, token, Interest::READABLE)
                        .unwrap();
                }
            }
        }
        drop(callers);
        server.join().unwrap();
    });
    report("to the kernel", join, start);
}

/// A Gannet server with one thread and a poller; a thousand kernel clients, all open at once.
fn from_kernel_clients(join: Join) {
    let lan = Lan::new(join, 1500);
    let listener = lan.gannet_listener(7);
    let start = Instant::now();
    std::thread::scope(|threads| {
        let server = threads.spawn(|| gannet_echo(&lan, &listener));
        let mut clients: Vec<Theirs> = lan.kernel.run(|| {
            (0..CONNECTIONS)
                .map(|_| Theirs::connect((GANNET, 7)).unwrap())
                .collect()
        });
        wait("every connection to be open", || {
            lan.host.connections() == CONNECTIONS
        });
        for (number, client) in clients.iter_mut().enumerate() {
            client.write_all(&message(number)).unwrap();
        }
        for (number, client) in clients.iter_mut().enumerate() {
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut back = vec![0; BYTES];
            client.read_exact(&mut back).unwrap();
            assert!(back == message(number), "other bytes came back");
        }
        drop(clients);
        server.join().unwrap();
    });
    wait("every connection to go", || lan.host.connections() == 0);
    report("from the kernel", join, start);
}

fn gannet_echo(lan: &Lan, listener: &gannet::TcpListener) {
    const LISTENER: u64 = u64::MAX;
    let poller = Poller::new(&lan.host);
    listener.set_nonblocking(true).unwrap();
    poller.add(listener, LISTENER, Interest::READABLE).unwrap();
    let mut streams: HashMap<u64, (Ours, Vec<u8>)> = HashMap::new();
    let (mut next, mut ended) = (0, 0);
    let mut events: Vec<Event> = Vec::new();
    while ended < CONNECTIONS {
        poller.wait(&mut events, Some(PATIENCE)).unwrap();
        assert!(!events.is_empty(), "nothing happens any more");
        for event in &events {
            if event.token == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    poller.add(&stream, next, Interest::READABLE).unwrap();
                    streams.insert(next, (stream, Vec::new()));
                    next += 1;
                }
                continue;
            }
            let Some((stream, held)) = streams.get_mut(&event.token) else {
                continue;
            };
            if echo(stream, held) {
                poller.delete(stream).unwrap();
                streams.remove(&event.token);
                ended += 1;
            } else {
                let interest = match held.is_empty() {
                    true => Interest::READABLE,
                    false => Interest::READABLE | Interest::WRITABLE,
                };
                poller.modify(stream, event.token, interest).unwrap();
            }
        }
    }
}

/// Sends back what can be read; true at the end of the stream.
fn echo(stream: &mut Ours, held: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16_384];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(n) => held.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    while !held.is_empty() {
        match stream.write(held) {
            Ok(n) => drop(held.drain(..n)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    false
}

fn report(what: &str, join: Join, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{CONNECTIONS} connections {what} over {join:?}: {seconds:.2} s");
}

#[test]
fn a_thousand_to_a_kernel_server() {
    if !not_root() {
        allow_descriptors();
        Join::ALL.into_iter().for_each(to_a_kernel_server);
    }
}

#[test]
fn a_thousand_kernel_clients() {
    if !not_root() {
        allow_descriptors();
        Join::ALL.into_iter().for_each(from_kernel_clients);
    }
}
