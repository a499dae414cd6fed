//! A limit of what is written and not sent yet (Linux's TCP_NOTSENT_LOWAT).

use super::peer::{ACK, Peer, SYN, mss_only, seg};
use crate::tcp::{SendError, TcpOption};

impl Peer {
    fn take(&mut self, data: &[u8]) -> Result<usize, SendError> {
        let (now, id) = (self.now, self.id());
        self.host.tcp_send(now, id, data)
    }

    fn unsent(&self) -> u32 {
        self.host.tcp_info(self.id()).expect("open").unsent
    }

    fn is_writable(&self) -> bool {
        self.host.tcp_status(self.id()).expect("open").writable
    }

    /// Open, with a peer that takes `window` bytes.
    fn with_window(window: u16) -> Peer {
        let mut p = Peer::new();
        p.connect();
        p.send(&seg(SYN | ACK, 0, 1).window(window).options(mss_only(500)));
        p
    }
}

#[test]
fn writing_stops_at_the_limit_and_is_possible_again_below_half_of_it() {
    let mut p = Peer::with_window(1000);
    p.host
        .tcp_set_option(p.id(), TcpOption::UnsentMax(Some(3000)));
    assert!(p.is_writable());
    assert_eq!(p.take(&[1; 10_000]), Ok(4000), "1000 leave, 3000 wait");
    assert_eq!((p.unsent(), p.is_writable()), (3000, false));
    assert_eq!(p.take(&[1]), Err(SendError::WouldBlock));
    p.poll();
    // room in the window for 1000 more: above half
    p.send(&seg(ACK, 1, 1001).window(1000));
    assert_eq!((p.unsent(), p.is_writable()), (2000, false));
    while p.host.tcp_take_ready().is_some() {}
    p.send(&seg(ACK, 1, 2001).window(1000));
    assert_eq!((p.unsent(), p.is_writable()), (1000, true));
    assert!(p.host.tcp_take_ready().is_some(), "the writer is called");
    // without a limit the send buffer decides
    p.host.tcp_set_option(p.id(), TcpOption::UnsentMax(None));
    assert_eq!(p.take(&[1; 10_000]), Ok(10_000));
}

/// Less than a segment would stop a sender that waits to fill one.
#[test]
fn a_segment_may_always_wait() {
    let mut p = Peer::with_window(1000);
    p.host.tcp_set_option(p.id(), TcpOption::UnsentMax(Some(1)));
    assert_eq!(p.take(&[1; 5000]), Ok(1500));
    assert!(!p.is_writable());
    assert_eq!(p.take(&[1]), Err(SendError::WouldBlock));
    p.poll();
    p.send(&seg(ACK, 1, 1001).window(1000));
    assert!(p.is_writable(), "nothing waits");
    assert_eq!(p.take(&[1; 5000]), Ok(1000));
}
