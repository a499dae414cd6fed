//! A neighbour that no longer answers ARP: it may come back, so a connection through it waits for
//! 100 s without progress (the least that RFC 9293 section 3.8.3 allows for R2), and not much
//! longer.

use core::net::SocketAddr;
use core::time::Duration;

use crate::tcp::{SendError, TcpError, TcpEvent, TcpId, TcpState};
use crate::testing::{A, B, Faults, Pair, WireConfig, WireDriver};
use crate::udp::UdpError;

const GRACE: Duration = Duration::from_secs(100);
/// Until the next time that the neighbour is found silent: three questions, a second each, and a
/// second's rest; and what the last retransmission took to notice.
const SOON: Duration = Duration::from_secs(10);
/// How exactly the end is measured.
const TICK: Duration = Duration::from_millis(100);

/// An open connection over an Ethernet, and its two ends.
struct Open {
    pair: Pair<WireDriver>,
    client: TcpId,
    server: TcpId,
}

impl Open {
    fn new(seed: u64) -> Self {
        let mut pair = Pair::wire(seed, &WireConfig::default());
        let at = SocketAddr::new(B, 80);
        let listener = pair.b.tcp_listen(at, 1).expect("free");
        let client = pair.a.tcp_connect(pair.now, None, at).expect("a route");
        let mut accepted = None;
        pair.run_until(|p| {
            accepted = accepted.or(p.b.tcp_accept(listener));
            accepted.is_some()
        });
        let server = accepted.expect("accepted");
        Open {
            pair,
            client,
            server,
        }
    }

    /// The neighbour answers nothing any more (`true`), or is back.
    fn silent(&mut self, silent: bool) {
        let faults = Faults {
            loss: if silent { 1_000_000 } else { 0 },
            ..Faults::default()
        };
        let link = self.pair.link_a;
        let endpoint = self.pair.a.link_mut(link).expect("a link");
        endpoint.driver.set_faults(faults);
    }

    fn send(&mut self, text: &[u8]) -> Result<usize, SendError> {
        self.pair.a.tcp_send(self.pair.now, self.client, text)
    }

    fn lives(&self) -> bool {
        let info = self.pair.a.tcp_info(self.client);
        info.is_some_and(|info| info.state == TcpState::Established)
    }

    fn pass_alive(&mut self, time: Duration, what: &str) {
        self.pair.pass(time);
        assert!(self.lives(), "{what}: given up too early");
    }

    /// Not given up before `GRACE` from now, and soon after.
    fn ends_in_time(&mut self, what: &str) {
        self.pass_alive(GRACE - TICK, what);
        self.pair.pass(TICK + SOON);
        assert!(!self.lives(), "{what}: waited for too long");
        let told = self.send(b"more");
        assert_eq!(
            told,
            Err(SendError::Failed(TcpError::HostUnreachable)),
            "{what}"
        );
    }

    /// What the server has got so far is exactly `text`.
    fn arrived(&mut self, text: &[u8], what: &str) {
        let mut space = [0; 100];
        let got = self.pair.b.tcp_recv(self.pair.now, self.server, &mut space);
        let got = got.map(|len| &space[..len]);
        assert_eq!(got, Ok(text), "{what}");
        let info = self.pair.a.tcp_info(self.client).expect("open");
        assert_eq!(info.in_flight, 0, "{what}: acknowledged");
    }
}

/// The time counts from when something was first waited for, however long nothing was before.
#[test]
fn a_hundred_seconds_without_progress() {
    for idle in [0, 1, 29, 99, 3600] {
        let what = std::format!("idle for {idle} s");
        let mut c = Open::new(idle);
        c.pair.pass(Duration::from_secs(idle));
        c.silent(true);
        assert_eq!(c.send(b"unheard"), Ok(7));
        c.ends_in_time(&what);
    }
}

/// Somebody else has found out already that the neighbour is silent, long after this connection's
/// last progress: it is waited for all the same.
#[test]
fn silent_before_anything_was_said() {
    let mut c = Open::new(2);
    c.silent(true);
    let (from, to) = (SocketAddr::new(A, 9), SocketAddr::new(B, 9));
    let other = c.pair.a.udp_bind(from).expect("free");
    c.pair.pass(2 * GRACE);
    let mut asked = 0;
    while c.pair.a.udp_send_to(c.pair.now, other, b"?", Some(to)) != Err(UdpError::HostUnreachable)
    {
        c.pair.pass(TICK);
        asked += 1;
        assert!(asked < 100, "never found silent");
    }
    assert_eq!(c.send(b"unheard"), Ok(7));
    c.ends_in_time("known to be silent");
}

/// What is written meanwhile is no progress.
#[test]
fn writing_on_does_not_put_it_off() {
    let mut c = Open::new(1);
    c.silent(true);
    for _ in 0..9 {
        assert_eq!(c.send(b"unheard"), Ok(7));
        c.pass_alive(Duration::from_secs(10), "writing");
    }
    c.pair.pass(Duration::from_secs(10) + SOON);
    assert!(!c.lives());
}

/// Back before the time is over: everything arrives, as soon as the neighbour is asked again
/// rather than when the backed-off retransmission is due, and the next silence counts anew.
#[test]
fn a_neighbour_that_comes_back_is_taken_up() {
    for away in [1, 5, 30, 90, 95] {
        let what = std::format!("away for {away} s");
        let mut c = Open::new(away);
        c.silent(true);
        assert_eq!(c.send(b"late"), Ok(4));
        c.pass_alive(Duration::from_secs(away), &what);
        c.silent(false);
        c.pass_alive(SOON, &what);
        c.arrived(b"late", &what);
        c.silent(true);
        assert_eq!(c.send(b"unheard"), Ok(7));
        c.ends_in_time(&what);
    }
}

/// Half open: the peer has our SYN-ACK, its acknowledgement is lost, and its link with it. When it
/// is back it is connected.
#[test]
fn a_neighbour_that_was_answered_is_not_forgotten() {
    let mut pair = Pair::wire(3, &WireConfig::default());
    let at = SocketAddr::new(B, 80);
    let listener = pair.b.tcp_listen(at, 1).expect("free");
    let client = pair.a.tcp_connect(pair.now, None, at).expect("a route");
    let is_open = |p: &Pair<WireDriver>| {
        let status = p.a.tcp_status(client).expect("ours");
        status.state == TcpState::Established
    };
    let silent = |p: &mut Pair<WireDriver>, loss| {
        let faults = Faults {
            loss,
            ..Faults::default()
        };
        let link = p.link_a;
        let endpoint = p.a.link_mut(link).expect("a link");
        endpoint.driver.set_faults(faults);
    };
    while !is_open(&pair) {
        let answered = pair.b.tcp_counters().get(TcpEvent::Sent) > 0;
        silent(&mut pair, if answered { 1_000_000 } else { 0 });
        pair.pass(Duration::from_micros(50));
    }
    pair.pass(Duration::from_secs(20));
    silent(&mut pair, 0);
    assert_eq!(pair.a.tcp_send(pair.now, client, b"here"), Ok(4));
    pair.pass(Duration::from_secs(20));
    let server = pair.b.tcp_accept(listener).expect("connected");
    let mut text = [0; 9];
    assert_eq!(pair.b.tcp_recv(pair.now, server, &mut text), Ok(4));
}
