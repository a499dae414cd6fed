//! A poller waits for descriptors of the kernel besides its sockets.

use gannet::{Host, Interest, Poller, TcpListener, TcpStream};
use std::io::{PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

fn host(network: &str, n: u8) -> Host {
    let network = format!("beside-{network}-{}", std::process::id());
    let address = format!("10.0.0.{n}/24");
    Host::builder().channel(&network, &address).build().unwrap()
}

fn byte_of(mut pipe: &PipeReader) -> u8 {
    let mut byte = [0];
    pipe.read_exact(&mut byte).unwrap();
    byte[0]
}

#[test]
fn a_descriptor_ends_the_wait_for_as_long_as_it_can_be_read() {
    let host = host("descriptor", 1);
    let poller = Poller::new(&host);
    let (reader, mut writer) = std::io::pipe().unwrap();
    poller.add_descriptor(reader.as_fd()).unwrap();
    let mut events = Vec::new();
    let wrote = std::thread::spawn(move || {
        writer.write_all(b"x").unwrap();
        writer
    });
    for _ in 0..2 {
        assert_eq!(poller.sleep(&mut events, None).unwrap(), 0);
    }
    assert_eq!(byte_of(&reader), b'x');
    let mut writer = wrote.join().unwrap();
    writer.write_all(b"y").unwrap();
    assert_eq!(poller.wait(&mut events, None).unwrap(), 0);
    assert_eq!(byte_of(&reader), b'y');
}

#[test]
fn sleeping_hears_of_sockets_too() {
    let (a, b) = (host("sockets", 1), host("sockets", 2));
    let listener = TcpListener::bind(&a, "10.0.0.1:80").unwrap();
    let poller = Poller::new(&a);
    poller.add(&listener, 7, Interest::READABLE).unwrap();
    let client = std::thread::spawn(move || TcpStream::connect(&b, "10.0.0.1:80").unwrap());
    let mut events = Vec::new();
    assert_eq!(poller.sleep(&mut events, None).unwrap(), 1);
    assert_eq!(events.first().map(|event| event.token), Some(7));
    let _accepted = listener.accept().unwrap();
    client.join().unwrap();
    let nothing = poller.sleep(&mut events, Some(Duration::from_millis(1)));
    assert_eq!(nothing.unwrap(), 0);
}
