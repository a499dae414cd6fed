//! Random bytes through every parser and the printer: nothing panics, and what is printed is one
//! line.
//! Half of the rounds begin as a good packet with a few bytes changed, so that the depths are
//! reached.

use gannet_wire::icmpv4::{Message, Quoted};
use gannet_wire::tcp::{self, Options};
use gannet_wire::{arp, checksum, ethernet, ipv4, pretty, udp, virtio_net};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// xorshift64*.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// A good frame: `protocol` in IPv4 with options, transport bytes random but for their lengths.
fn good_frame(numbers: &mut Numbers) -> Vec<u8> {
    let mut frame = numbers.bytes(14 + 24 + 60);
    let protocol = [1, 6, 17, 99][numbers.next() as usize % 4];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x46;
    frame[16..18].copy_from_slice(&[0, 84]);
    frame[20..22].fill(0);
    frame[23] = protocol;
    match protocol {
        1 => {
            frame[38] = [0, 3, 8, 11, 12][numbers.next() as usize % 5];
            frame[46] = 0x45; // the quoted packet
        }
        6 => frame[50] = 0xd0,
        17 => frame[42..44].copy_from_slice(&[0, 60]),
        _ => {}
    }
    frame[24..26].fill(0);
    let checksum = checksum::sum(&frame[14..38]).finish();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn read_everything(bytes: &[u8]) {
    let _ = ethernet::Header::parse(bytes);
    let _ = arp::Packet::parse(bytes);
    let _ = ipv4::Header::parse(bytes);
    let _ = ipv4::Header::parse_unverified(bytes, usize::MAX);
    let _ = Message::parse(bytes);
    let _ = udp::Header::parse_split(bytes, usize::MAX);
    let _ = Options::parse(bytes);
    let _ = tcp::parse_timestamps_only(bytes);
    if let Ok((header, len)) = tcp::Header::parse(bytes) {
        let options = Options::parse(tcp::options(bytes, len));
        let mut out = [0; tcp::MAX_HEADER_LEN];
        assert!(header.emit(&options, &mut out).is_some());
    }
    if let Ok(quoted) = Quoted::parse(bytes) {
        let _ = (quoted.ports(), quoted.tcp_seq());
    }
    if let Ok((header, _)) = virtio_net::Header::parse(bytes) {
        let _ = header.check(bytes.len());
    }
    for line in [
        pretty::ethernet(bytes).to_string(),
        pretty::ipv4(bytes).to_string(),
        pretty::tcp(bytes).to_string(),
    ] {
        assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
    }
}

#[test]
fn random_bytes() {
    let mut numbers = Numbers(SEED);
    for round in 0..20_000 {
        let len = numbers.next() as usize % 120;
        let bytes = numbers.bytes(len);
        let run = std::panic::catch_unwind(|| read_everything(&bytes));
        assert!(run.is_ok(), "seed {SEED:#x} round {round}: {bytes:?}");
    }
}

#[test]
fn good_frames_spoiled() {
    let mut numbers = Numbers(SEED + 1);
    for round in 0..20_000 {
        let mut frame = good_frame(&mut numbers);
        assert!(
            ipv4::Header::parse(&frame[14..]).is_ok(),
            "seed {:#x} round {round}",
            SEED + 1
        );
        for _ in 0..numbers.next() % 4 {
            let at = 12 + numbers.next() as usize % (frame.len() - 12);
            frame[at] = numbers.next() as u8;
        }
        if numbers.next().is_multiple_of(3) {
            frame.truncate(numbers.next() as usize % 98);
        }
        for start in [0, 14, 34, 38, 46] {
            let bytes = frame.get(start..).unwrap_or_default();
            let run = std::panic::catch_unwind(|| read_everything(bytes));
            assert!(run.is_ok(), "seed {:#x} round {round}: {bytes:?}", SEED + 1);
        }
    }
}
