//! What waits to be sent: a limit of it (Linux's TCP_NOTSENT_LOWAT), and for how long it waited.

use core::time::Duration;

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

/// Milliseconds with something to send, and of them with the window full, and the buffer.
fn times(p: &Peer) -> [u128; 3] {
    let times = p.host.tcp_info(p.id()).expect("open").busy.times(p.now);
    [times.busy, times.window_limited, times.buffer_limited].map(|time| time.as_millis())
}

#[test]
fn time_is_counted_by_what_holds_sending_back() {
    let mut p = Peer::with_window(1000);
    p.now += Duration::from_millis(500);
    assert_eq!(times(&p), [0, 0, 0], "nothing to send");
    assert_eq!(p.take(&[1; 3000]), Ok(3000));
    p.now += Duration::from_millis(100);
    assert_eq!(times(&p), [100, 100, 0], "the window is full");
    p.send(&seg(ACK, 1, 1001).window(5000));
    p.now += Duration::from_millis(50);
    p.send(&seg(ACK, 1, 3001).window(5000));
    p.now += Duration::from_millis(900);
    assert_eq!(times(&p), [150, 100, 0], "all is acknowledged");
    p.host.tcp_set_option(p.id(), TcpOption::SendBuffer(4096));
    assert_eq!(p.take(&[1; 9000]), Ok(4096));
    p.now += Duration::from_millis(30);
    assert_eq!(times(&p), [180, 100, 30], "all of the buffer is under way");
    p.send(&seg(ACK, 1, 7097).window(9000));
    assert_eq!(p.take(&[1; 100]), Ok(100));
    p.now += Duration::from_millis(20);
    assert_eq!(times(&p), [200, 100, 30], "the application has no more");
}

/// What is laid down at rest comes back.
#[test]
fn a_connection_that_rests_keeps_its_times() {
    let mut p = Peer::with_window(1000);
    assert_eq!(p.take(&[1; 2000]), Ok(2000));
    p.now += Duration::from_millis(100);
    p.send(&seg(ACK, 1, 1001).window(9000));
    p.send(&seg(ACK, 1, 2001).window(9000));
    let before = times(&p);
    assert_eq!(before, [100, 100, 0]);
    p.pass(Duration::from_secs(60));
    assert_eq!(times(&p), before);
    assert_eq!(p.take(&[1; 100]), Ok(100));
    p.now += Duration::from_millis(10);
    assert_eq!(times(&p), [110, 100, 0]);
}
