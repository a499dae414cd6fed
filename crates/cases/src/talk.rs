//! What a case has at hand: addresses, sockets made ready, and where it says what it saw.

use crate::far::{self, Peer, Side};
use crate::show;
use crate::sys::{self, Addr, Got, Message, Ret};
use libc::{AF_INET, AF_INET6, POLLIN, SOCK_DGRAM, SOCK_STREAM};
use std::cell::Cell;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};

/// How long anything that must happen is waited for, in milliseconds.
pub(crate) const SOON: i32 = 3000;
/// How long something that must not happen is waited for, in milliseconds.
pub(crate) const WHILE: i32 = 40;

/// The addresses the cases use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    /// The program in which one end of the connections is, if it is another.
    pub(crate) peer: Option<Peer>,
}

/// One case's view of the world.
pub(crate) struct Talk {
    pub(crate) at: Addresses,
    /// Where observations go as they are made, so that a crash loses none.
    out: i32,
    said: Cell<bool>,
}

impl Talk {
    pub(crate) fn new(at: Addresses, out: i32) -> Self {
        far::report_to(out);
        Self {
            at,
            out,
            said: Cell::new(false),
        }
    }

    /// Adds to the observation.
    pub(crate) fn say(&self, text: impl Display) {
        let separator = if self.said.replace(true) { "; " } else { "" };
        let text = text.to_string().replace(['\n', '\t'], " ");
        sys::write(self.out, format!("{separator}{text}").as_bytes());
    }

    /// Adds the result of a call.
    pub(crate) fn saw(&self, call: &str, result: impl Display) {
        self.say(format!("{call} {result}"));
    }

    /// Adds the result of a call that makes a descriptor; the descriptor.
    pub(crate) fn made(&self, call: &str, ret: Ret) -> i32 {
        self.saw(call, ret.made());
        ret.fd()
    }

    /// Adds `poll`'s result and bits.
    pub(crate) fn polled(&self, (ret, revents): (Ret, Vec<i16>)) {
        let each: Vec<String> = revents.iter().map(|&bits| show::poll_bits(bits)).collect();
        self.say(format!("poll {ret} {}", each.join(" ")));
    }

    /// Adds `epoll_wait`'s result, and data and events of each.
    pub(crate) fn epolled(&self, (ret, events): (Ret, Vec<(u64, u32)>)) {
        let each: Vec<String> = events
            .iter()
            .map(|&(data, bits)| format!(" {data}:{}", show::epoll_bits(bits)))
            .collect();
        self.say(format!("epoll {ret}{}", each.concat()));
    }

    /// Adds what `recvmsg` gave.
    pub(crate) fn message(&self, message: &Message) {
        let flags = show::message_flags(message.flags);
        let fds = message.descriptors.len();
        let fds = if fds == 0 {
            String::new()
        } else {
            format!(" fds {fds}")
        };
        self.say(format!("recvmsg {} flags {flags}{fds}", message.got));
    }

    /// What must work so that the case means something; otherwise the observation ends here.
    pub(crate) fn must(&self, what: &str, ret: Ret) -> i32 {
        if let Ret::Errno(_) = ret {
            self.saw(&format!("set-up failed: {what}"), ret);
            self.end();
        }
        ret.fd()
    }

    /// The observation is complete.
    pub(crate) fn end(&self) -> ! {
        if self.at.peer.is_some() && !far::used() {
            self.say(far::ONE_PROCESS);
        }
        sys::write(self.out, b"\n");
        sys::exit(0)
    }

    pub(crate) fn tcp(&self) -> i32 {
        let ret = sys::socket(AF_INET, SOCK_STREAM, 0);
        self.must("socket", ret)
    }

    pub(crate) fn tcp6(&self) -> i32 {
        let ret = sys::socket(AF_INET6, SOCK_STREAM, 0);
        self.must("socket", ret)
    }

    pub(crate) fn udp(&self) -> i32 {
        let ret = sys::socket(AF_INET, SOCK_DGRAM, 0);
        self.must("socket", ret)
    }

    pub(crate) fn udp6(&self) -> i32 {
        let ret = sys::socket(AF_INET6, SOCK_DGRAM, 0);
        self.must("socket", ret)
    }

    /// A non-blocking TCP socket.
    pub(crate) fn tcp_nonblocking(&self) -> i32 {
        let ret = sys::socket(AF_INET, SOCK_STREAM | libc::SOCK_NONBLOCK, 0);
        self.must("socket", ret)
    }

    /// Our IPv4 address, any port.
    pub(crate) fn any(&self) -> Addr {
        Addr::v4(self.at.v4, 0)
    }

    /// Our IPv6 address, any port.
    pub(crate) fn any6(&self) -> Addr {
        Addr::v6(self.at.v6, 0)
    }

    /// Binds to an address; the address it has now.
    pub(crate) fn bound(&self, fd: i32, to: Addr) -> Addr {
        self.must("bind", sys::bind(fd, to));
        self.name(fd)
    }

    /// `getsockname` that must work.
    pub(crate) fn name(&self, fd: i32) -> Addr {
        let (ret, name) = sys::getsockname(fd);
        self.must("getsockname", ret);
        name
    }

    /// A TCP address at which nobody listens, and nobody will while the case runs.
    pub(crate) fn dead(&self) -> Addr {
        let fd = self.tcp();
        let any = self.any();
        self.bound(fd, any)
    }

    /// The same for UDP: bound once, and closed.
    pub(crate) fn dead_udp(&self) -> Addr {
        let fd = self.udp();
        let any = self.any();
        let address = self.bound(fd, any);
        sys::close(fd);
        address
    }

    /// A listener, and where it listens.
    pub(crate) fn listener(&self) -> (i32, Addr) {
        self.listener_with(16)
    }

    /// A listener with a backlog, and where it listens.
    pub(crate) fn listener_with(&self, backlog: i32) -> (i32, Addr) {
        let fd = self.tcp_for(Side::Accepts, AF_INET);
        let any = match self.at.peer.filter(|peer| peer.side == Side::Accepts) {
            Some(peer) => Addr::v4(peer.v4, 0),
            None => self.any(),
        };
        let address = self.bound(fd, any);
        self.must("listen", sys::listen(fd, backlog));
        (fd, address)
    }

    /// An IPv6 listener, and where it listens.
    pub(crate) fn listener6(&self) -> (i32, Addr) {
        let fd = self.tcp_for(Side::Accepts, AF_INET6);
        let any = self.any6();
        let address = self.bound(fd, any);
        self.must("listen", sys::listen(fd, 16));
        (fd, address)
    }

    /// A socket connected to an address.
    pub(crate) fn connected(&self, to: Addr) -> i32 {
        let fd = self.tcp_for(Side::Connects, to.family());
        self.must("connect", sys::connect(fd, to));
        fd
    }

    /// A TCP socket for the end that is in the other program if `side` is, else one of ours.
    fn tcp_for(&self, side: Side, family: i32) -> i32 {
        let ret = match self.at.peer.filter(|peer| peer.side == side) {
            Some(_) => sys::far_socket(family, SOCK_STREAM, 0),
            None => sys::socket(family, SOCK_STREAM, 0),
        };
        self.must("socket", ret)
    }

    /// The two ends of a TCP connection, of which the other program has one: ours first.
    pub(crate) fn ours_and_theirs(&self) -> (i32, i32) {
        let (client, server) = self.pair();
        match far::number(client) {
            Some(_) => (server, client),
            None => (client, server),
        }
    }

    /// Two ends of a TCP connection: who connected, who accepted.
    pub(crate) fn pair(&self) -> (i32, i32) {
        let (listener, address) = self.listener();
        let ends = self.pair_at(listener, address);
        sys::close(listener);
        ends
    }

    /// The same over IPv6.
    pub(crate) fn pair6(&self) -> (i32, i32) {
        let (listener, address) = self.listener6();
        let ends = self.pair_at(listener, address);
        sys::close(listener);
        ends
    }

    /// Two ends of a TCP connection over a listener.
    pub(crate) fn pair_at(&self, listener: i32, address: Addr) -> (i32, i32) {
        let client = self.connected(address);
        ready(listener, POLLIN);
        let server = self.must("accept", sys::accept(listener));
        (client, server)
    }

    /// Two UDP sockets and their addresses.
    pub(crate) fn udps(&self) -> ((i32, Addr), (i32, Addr)) {
        (self.udp_bound(), self.udp_bound())
    }

    /// A bound UDP socket and its address.
    pub(crate) fn udp_bound(&self) -> (i32, Addr) {
        let fd = self.udp();
        let any = self.any();
        (fd, self.bound(fd, any))
    }

    /// Two UDP sockets connected to each other.
    pub(crate) fn udps_connected(&self) -> (i32, i32) {
        let ((a, at_a), (b, at_b)) = self.udps();
        self.must("connect", sys::connect(a, at_b));
        self.must("connect", sys::connect(b, at_a));
        (a, b)
    }
}

/// Waits until one of the events is there, or nobody can wait any longer.
pub(crate) fn ready(fd: i32, events: i16) -> bool {
    sys::poll(&[(fd, events)], SOON).0 == Ret::Value(1)
}

/// Waits for something to read, then `recv`s it.
pub(crate) fn take(fd: i32, len: usize) -> Got {
    ready(fd, POLLIN);
    sys::recv(fd, len, 0)
}

/// Waits until `FIONREAD` says that this much is there.
pub(crate) fn queued(fd: i32, bytes: i32) {
    wait_for(|| sys::ioctl(fd, libc::FIONREAD, 0).1 >= bytes);
}

/// Waits until something is so, or nobody can wait any longer.
pub(crate) fn wait_for(is_so: impl Fn() -> bool) {
    for _ in 0..SOON / 2 {
        if is_so() {
            return;
        }
        pause(2);
    }
}

/// Sleeps some milliseconds: long enough for another thread or process to block in a call.
pub(crate) fn pause(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

/// Makes a descriptor non-blocking.
pub(crate) fn nonblocking(fd: i32) {
    let flags = sys::fcntl(fd, libc::F_GETFL, 0).fd();
    sys::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
}
