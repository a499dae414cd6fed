//! Echo: a server that sends back what it gets, and a client that checks it.
//!
//! ```text
//! cargo run --example echo -- server 10.0.0.1/24
//! cargo run --example echo -- client 10.0.0.2/24 10.0.0.1 hello there
//! ```

use gannet::{Host, TcpListener, TcpStream};
use std::io::{self, Read, Write};
use std::process::ExitCode;

const PORT: u16 = 7;
const USAGE: &str = "Sends text to another process and gets it back, over Gannet.

Usage:
  echo server ADDRESS/PREFIX
  echo client ADDRESS/PREFIX SERVER TEXT...

Both join the network `examples` of your own processes, for example as
10.0.0.1/24 and 10.0.0.2/24. The server ends with Ctrl-C.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["server", address] => server(address),
        ["client", address, server, text @ ..] if !text.is_empty() => {
            client(address, server, &text.join(" "))
        }
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

fn server(address: &str) -> io::Result<()> {
    let host = Host::builder().channel("examples", address).build()?;
    let listener = TcpListener::bind(&host, ("0.0.0.0", PORT))?;
    println!("listening at {address}, port {PORT}");
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            let from = stream.peer_addr();
            let copied = io::copy(&mut &stream, &mut &stream);
            println!("{from:?}: {copied:?} bytes echoed");
        });
    }
    Ok(())
}

fn client(address: &str, server: &str, text: &str) -> io::Result<()> {
    let host = Host::builder().channel("examples", address).build()?;
    let mut stream = TcpStream::connect(&host, (server, PORT))?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut back = String::new();
    stream.read_to_string(&mut back)?;
    println!("{back}");
    if back == text {
        Ok(())
    } else {
        Err(io::Error::other("the echo differs from what was sent"))
    }
}
