//! Sends a file without copying it on the way: it is read straight into memory that the receiver
//! reads directly. Both ends print a hash of what passed.
//!
//! ```text
//! cargo run --release --example file_transfer -- receive 10.0.0.1/24 copy.bin
//! cargo run --release --example file_transfer -- send 10.0.0.2/24 10.0.0.1 original.bin
//! ```

use gannet::{Host, TcpListener, TcpStream};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;
use std::time::Instant;

const PORT: u16 = 2000;
const USAGE: &str = "Sends a file to another process over Gannet.

Usage:
  file_transfer receive ADDRESS/PREFIX FILE
  file_transfer send ADDRESS/PREFIX RECEIVER FILE

Both join the network `examples` of your own processes, for example as
10.0.0.1/24 and 10.0.0.2/24. Both print a hash (FNV-1a, 64 bits) of the bytes.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["receive", address, file] => receive(address, file),
        ["send", address, receiver, file] => send(address, receiver, file),
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

fn send(address: &str, receiver: &str, file: &str) -> io::Result<()> {
    let mut file = open(file, |path| File::open(path))?;
    let host = Host::builder().channel("examples", address).build()?;
    let stream = TcpStream::connect(&host, (receiver, PORT))?;
    let mut passed = Passed::new();
    loop {
        let mut block = stream.take_block()?;
        let len = file.read(&mut block)?;
        if len == 0 {
            break;
        }
        passed.add(&block[..len]);
        stream.send_block(block, len)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // The receiver says how much arrived: then it is there.
    let mut confirmed = [0; 8];
    (&stream).read_exact(&mut confirmed)?;
    passed.print("sent");
    if u64::from_be_bytes(confirmed) == passed.bytes {
        Ok(())
    } else {
        Err(io::Error::other("the receiver counted other bytes"))
    }
}

fn receive(address: &str, file: &str) -> io::Result<()> {
    let mut file = BufWriter::new(open(file, |path| File::create(path))?);
    let host = Host::builder().channel("examples", address).build()?;
    let listener = TcpListener::bind(&host, ("0.0.0.0", PORT))?;
    println!("waiting at {address}, port {PORT}");
    let (stream, _) = listener.accept()?;
    let mut passed = Passed::new();
    let mut piece = vec![0; 64 << 10];
    while let Some(block) = stream.recv_block()? {
        let mut at = 0;
        while at < block.len() {
            let n = block.read_at(at, &mut piece);
            passed.add(&piece[..n]);
            file.write_all(&piece[..n])?;
            at += n;
        }
    }
    file.flush()?;
    (&stream).write_all(&passed.bytes.to_be_bytes())?;
    passed.print("received");
    Ok(())
}

fn open(path: &str, with: impl FnOnce(&str) -> io::Result<File>) -> io::Result<File> {
    with(path).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Count, hash and time of what passed.
struct Passed {
    start: Instant,
    bytes: u64,
    hash: u64,
}

impl Passed {
    fn new() -> Passed {
        Passed {
            start: Instant::now(),
            bytes: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for &byte in bytes {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn print(&self, what: &str) {
        let Passed { start, bytes, hash } = self;
        let seconds = start.elapsed().as_secs_f64();
        let rate = *bytes as f64 * 8.0 / 1e9 / seconds;
        println!("{what} {bytes} bytes, hash {hash:016x}, {seconds:.3} s, {rate:.2} Gbit/s");
    }
}
