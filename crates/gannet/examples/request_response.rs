//! Requests and responses of a few bytes over UDP and over TCP, and how long a round trip takes.
//!
//! ```text
//! cargo run --release --example request_response -- serve 10.0.0.1/24
//! cargo run --release --example request_response -- ask 10.0.0.2/24 10.0.0.1
//! ```

use gannet::{Host, Interest, Poller, TcpListener, TcpStream, UdpSocket};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PORT: u16 = 1234;
const ROUNDS: usize = 100_000;
const USAGE: &str = "Measures round trips of 16 bytes to another process over Gannet.

Usage:
  request_response serve ADDRESS/PREFIX
  request_response ask ADDRESS/PREFIX SERVER

Both join the network `examples` of your own processes, for example as
10.0.0.1/24 and 10.0.0.2/24. The server ends with Ctrl-C.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["serve", address] => serve(address),
        ["ask", address, server] => ask(address, server),
        ["--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One thread for all sockets.
fn serve(address: &str) -> io::Result<()> {
    let host = Host::builder().channel("examples", address).build()?;
    let listener = TcpListener::bind(&host, ("0.0.0.0", PORT))?;
    let datagrams = UdpSocket::bind(&host, ("0.0.0.0", PORT))?;
    listener.set_nonblocking(true)?;
    datagrams.set_nonblocking(true)?;
    println!("serving at {address}, port {PORT}");

    let poller = Poller::new(&host);
    poller.add(&listener, 0, Interest::READABLE)?;
    poller.add(&datagrams, 1, Interest::READABLE)?;
    let mut streams = HashMap::new();
    let mut next = 2;
    let mut events = Vec::new();
    loop {
        poller.wait(&mut events, None)?;
        for event in &events {
            match event.token {
                0 => {
                    let (stream, from) = listener.accept()?;
                    println!("{from} connects");
                    stream.set_nonblocking(true)?;
                    poller.add(&stream, next, Interest::READABLE)?;
                    streams.insert(next, stream);
                    next += 1;
                }
                1 => answer_datagram(&datagrams)?,
                token => {
                    let over = streams.get(&token).is_none_or(|stream| !answer(stream));
                    if over {
                        streams.remove(&token);
                    }
                }
            }
        }
    }
}

fn answer_datagram(socket: &UdpSocket) -> io::Result<()> {
    let mut request = [0; 1024];
    let (len, from) = socket.recv_from(&mut request)?;
    socket.send_to(&request[..len], from)?;
    Ok(())
}

/// `false` when the connection is over.
fn answer(mut stream: &TcpStream) -> bool {
    let mut request = [0; 1024];
    match stream.read(&mut request) {
        Ok(0) => false,
        Ok(len) => stream.write_all(&request[..len]).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

fn ask(address: &str, server: &str) -> io::Result<()> {
    let host = Host::builder().channel("examples", address).build()?;
    let request = [7; 16];
    let mut response = [0; 16];

    let socket = UdpSocket::bind(&host, "0.0.0.0:0")?;
    socket.connect((server, PORT))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    measure("UDP", || {
        socket.send(&request)?;
        socket.recv(&mut response).map(drop)
    })?;

    let mut stream = TcpStream::connect(&host, (server, PORT))?;
    stream.set_nodelay(true)?;
    measure("TCP", || {
        stream.write_all(&request)?;
        stream.read_exact(&mut response)
    })?;
    let info = stream.info()?;
    println!(
        "TCP's own estimate: {:?}, retransmissions: {}",
        info.rtt, info.retransmissions
    );
    Ok(())
}

fn measure(what: &str, mut round: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let [median, tail] = [times[ROUNDS / 2], times[ROUNDS * 99 / 100]];
    println!("{what}: {ROUNDS} round trips, median {median:?}, 99 in 100 within {tail:?}");
    Ok(())
}
