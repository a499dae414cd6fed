//! What passes a host's links can be written down.

use gannet::{Host, TcpListener, TcpStream};
use std::io::{Read, Write};
use std::path::Path;

/// Section header blocks of pcapng begin with this (draft-ietf-opsawg-pcapng section 4.1).
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

fn host(network: &str, address: &str, captures: &Path) -> Host {
    let builder = Host::builder().channel(network, address).capture(captures);
    builder.build().unwrap()
}

#[test]
fn a_channel_is_captured_with_its_payload() {
    let directory = tempfile::tempdir().unwrap();
    let (near, far) = (directory.path().join("near"), directory.path().join("far"));
    for side in [&near, &far] {
        std::fs::create_dir(side).unwrap();
    }
    let network = format!("capture-{}", std::process::id());
    {
        let a = host(&network, "10.0.0.1/24", &near);
        let b = host(&network, "10.0.0.2/24", &far);
        let listener = TcpListener::bind(&b, "10.0.0.2:80").unwrap();
        let mut stream = TcpStream::connect(&a, "10.0.0.2:80").unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        stream.write_all(b"words to be found again").unwrap();
        accepted.read_exact(&mut [0; 23]).unwrap();
    }
    for (side, peer) in [(&near, "10.0.0.2"), (&far, "10.0.0.1")] {
        let file = side.join(format!("channel-{network}-{peer}.pcapng"));
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.starts_with(&SECTION_HEADER));
        let words = b"words to be found again";
        assert!(bytes.windows(words.len()).any(|w| w == words), "{peer}");
    }
}

#[test]
fn a_directory_that_does_not_exist_is_named() {
    let network = format!("capture-none-{}", std::process::id());
    let builder = Host::builder().channel(&network, "10.0.0.1/24");
    let error = builder.capture("/no/such/directory").build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    let text = error.to_string();
    assert!(
        text.contains("/no/such/directory") && text.contains("try:"),
        "{text}"
    );
}
