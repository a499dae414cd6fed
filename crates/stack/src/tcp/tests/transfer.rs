//! Two stacks, a stream each way, and what must hold of every segment they send.

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use gannet_base::{Instant, Rng};
use gannet_link::{Endpoint, Medium};
use gannet_wire::tcp::{self, Flags, Options};

use super::recorder::{Loss, Recorder, Sent};
use super::resent::Resent;
use crate::Config;
use crate::tcp::{ListenerId, RecvError, SendError, Shutdown, TcpId, TcpInfo};
use crate::testing::{A, B, Pair, Simulated, Wire, WireConfig, WireDriver};

/// A pair whose ends record.
pub(super) fn recorded<D: Simulated>(
    seed: u64,
    (left, right): (Endpoint<D>, Endpoint<D>),
    channel: bool,
    change: impl Fn(&mut Config),
) -> Pair<Recorder<D>> {
    let left = Endpoint::new(left.pool, Recorder::new(left.driver, seed));
    let right = Endpoint::new(right.pool, Recorder::new(right.driver, !seed));
    let peers = if channel {
        (Some(B), Some(A))
    } else {
        (None, None)
    };
    Pair::join(seed, (left, right), peers, change)
}

/// One stream: what is still to be written, what must still be read.
struct Stream {
    data: Vec<u8>,
    written: usize,
    read: usize,
    shut: bool,
    ended: bool,
}

impl Stream {
    fn new(rng: &mut Rng, len: usize) -> Self {
        let mut data = std::vec![0; len];
        rng.fill(&mut data);
        Stream {
            data,
            written: 0,
            read: 0,
            shut: false,
            ended: false,
        }
    }
}

/// What is known of one direction from the segments that were sent.
#[derive(Clone, Copy, Default)]
struct Seen {
    iss: Option<u32>,
    /// Relative to the ISS: behind the highest number sent.
    max: u32,
    /// Right edge of the window that the other side promised, relative to this side's ISS.
    edge: u32,
    scale: Option<u8>,
    /// Highest acknowledgement of the other side's numbers.
    segments: u64,
}

/// Two hosts and their streams.
pub(super) struct Transfer {
    pub(super) pair: Pair<Recorder<WireDriver>>,
    pub(super) client: TcpId,
    pub(super) server: Option<TcpId>,
    listener: ListenerId,
    streams: [Stream; 2],
    seen: [Seen; 2],
    resent: [Resent; 2],
    rng: Rng,
    seed: u64,
    header: usize,
}

impl Transfer {
    /// `lens`: bytes from the client and from the server.
    pub(super) fn new(seed: u64, wire: &WireConfig, lens: (usize, usize), start: Instant) -> Self {
        Self::with(seed, wire, lens, start, |_| {})
    }

    pub(super) fn with(
        seed: u64,
        wire: &WireConfig,
        lens: (usize, usize),
        start: Instant,
        change: impl Fn(&mut Config),
    ) -> Self {
        let mut pair = recorded(seed, Wire::ends(seed, wire), false, change);
        pair.now = start;
        let mut rng = Rng::new(seed);
        let at = SocketAddr::new(B, 80);
        let listener = pair.b.tcp_listen(at, 8).expect("free");
        for (host, link) in [(&mut pair.a, pair.link_a), (&mut pair.b, pair.link_b)] {
            let endpoint = host.link_mut(link).expect("a link");
            endpoint.driver.sent = Some(Vec::new());
        }
        let client = pair.a.tcp_connect(start, None, at).expect("a route");
        Transfer {
            pair,
            client,
            server: None,
            listener,
            streams: [lens.0, lens.1].map(|len| Stream::new(&mut rng, len)),
            seen: [Seen::default(); 2],
            resent: [(); 2].map(|()| Resent::new(seed, wire.delay)),
            rng,
            seed,
            header: match wire.medium {
                Medium::Ethernet => 14,
                Medium::Ip => 0,
            },
        }
    }

    pub(super) fn lose(&mut self, at_a: Loss, at_b: Loss) {
        self.pair
            .a
            .link_mut(self.pair.link_a)
            .expect("a link")
            .driver
            .loss = at_a;
        self.pair
            .b
            .link_mut(self.pair.link_b)
            .expect("a link")
            .driver
            .loss = at_b;
    }

    /// The initial sequence number of a side.
    pub(super) fn iss(&self, side: usize) -> u32 {
        self.seen[side].iss.expect("begun")
    }

    /// Bytes arrive no faster than one in so many nanoseconds.
    pub(super) fn rate(&mut self, per_byte: u64) {
        let Transfer { pair, .. } = self;
        for (host, link) in [(&mut pair.a, pair.link_a), (&mut pair.b, pair.link_b)] {
            let driver = &mut host.link_mut(link).expect("a link").driver;
            driver.per_byte = per_byte;
            driver.sent = None;
        }
    }

    /// One round of both applications: random amounts are written and read.
    fn applications(&mut self) {
        let Transfer {
            pair, streams, rng, ..
        } = self;
        let now = pair.now;
        let mut buffer = std::vec![0; 1 + rng.below(70_000) as usize];
        for side in 0..2 {
            let (host, id) = match side {
                0 => (&mut pair.a, Some(self.client)),
                _ => (&mut pair.b, self.server),
            };
            let Some(id) = id else { continue };
            let out = &mut streams[side];
            while out.written < out.data.len() {
                let most = (1 + rng.below(20_000) as usize).min(out.data.len() - out.written);
                let part = &out.data[out.written..out.written + most];
                // half of the writes try the short way first
                if most.is_multiple_of(2)
                    && let Some(n) = host.tcp_join(id, part)
                {
                    out.written += n;
                    continue;
                }
                match host.tcp_send(now, id, part) {
                    Ok(n) => out.written += n,
                    Err(SendError::WouldBlock | SendError::NotConnected) => break,
                    Err(e) => panic!("{e:?}; seed {}", self.seed),
                }
            }
            if out.written == out.data.len() && !out.shut {
                out.shut = host.tcp_shutdown(now, id, Shutdown::Write).is_ok();
            }
            let input = &mut streams[1 - side];
            while !input.ended {
                match host.tcp_recv(now, id, &mut buffer) {
                    Ok(0) => {
                        assert_eq!(
                            input.read,
                            input.data.len(),
                            "cut short; seed {}",
                            self.seed
                        );
                        input.ended = true;
                    }
                    Ok(n) => {
                        let expected = input.data.get(input.read..input.read + n);
                        assert_eq!(
                            expected,
                            Some(&buffer[..n]),
                            "other bytes; seed {}",
                            self.seed
                        );
                        input.read += n;
                    }
                    Err(RecvError::WouldBlock | RecvError::NotConnected) => break,
                    Err(e) => panic!("{e:?} at {}; seed {}", input.read, self.seed),
                }
            }
        }
    }

    /// Looks at every segment sent since the last look.
    fn judge(&mut self) {
        let mut all = Vec::new();
        for side in 0..2 {
            let (host, link) = match side {
                0 => (&mut self.pair.a, self.pair.link_a),
                _ => (&mut self.pair.b, self.pair.link_b),
            };
            host.check_tcp();
            let driver = &mut host.link_mut(link).expect("a link").driver;
            let sent = driver.sent.replace(Vec::new()).unwrap_or_default();
            all.extend(sent.into_iter().map(|(order, sent)| (order, side, sent)));
        }
        all.sort_by_key(|(order, ..)| *order);
        for (_, side, sent) in all {
            self.judge_one(side, &sent);
        }
        for side in 0..2 {
            if let Some(info) = self.info(side) {
                self.resent[side].judged(&info);
            }
        }
    }

    /// The connection's end at a side.
    fn info(&self, side: usize) -> Option<TcpInfo> {
        match side {
            0 => self.pair.a.tcp_info(self.client),
            _ => self.pair.b.tcp_info(self.server?),
        }
    }

    fn judge_again(&mut self, side: usize, numbers: (u32, u32), max: u32, at: Instant) {
        let info = self.info(side);
        let info = info.expect("whoever sends again is there");
        self.resent[side].judge(numbers, max, at, &info);
    }

    fn judge_one(&mut self, side: usize, sent: &Sent) {
        let at = self.header + 20;
        if self.header > 0 && sent.inline[12..14] != [8, 0] {
            return; // ARP
        }
        let (header, len) = tcp::Header::parse(&sent.inline[at..]).expect("a header");
        let options = Options::parse(tcp::options(&sent.inline[at..], len));
        let payload = (sent.len() - at - len) as u32;
        let seed = self.seed;
        let syn = header.flags.contains(Flags::SYN);
        let [ours, theirs] = match side {
            0 => self.seen,
            _ => [self.seen[1], self.seen[0]],
        };
        let (mut ours, mut theirs) = (ours, theirs);
        let iss = *ours.iss.get_or_insert(header.seq);
        let seq = header.seq.wrapping_sub(iss);
        let fin = header.flags.contains(Flags::FIN);
        let end = seq + payload + u32::from(syn) + u32::from(fin);
        ours.segments += 1;
        if syn {
            ours.scale = options.window_scale;
        } else if !header.flags.contains(Flags::RST) {
            // a probe, or a FIN, may lie one beyond
            assert!(
                end <= ours.edge + 1,
                "beyond the window: {end} {}; seed {seed}",
                ours.edge
            );
        }
        if seq < ours.max && seq < end && !syn {
            self.judge_again(side, (seq, end.min(ours.max)), ours.max, sent.at);
        }
        ours.max = ours.max.max(end);
        if header.flags.contains(Flags::ACK) {
            let ack = header.ack.wrapping_sub(theirs.iss.expect("they began"));
            assert!(
                ack <= theirs.max,
                "acknowledges what was not sent; seed {seed}"
            );
            let both = ours.scale.zip(theirs.scale);
            let shift = both.map_or(0, |(o, _)| if syn { 0 } else { o });
            for &(left, right) in options.sack.as_slice() {
                let [left, right] = [left, right].map(|n| n.wrapping_sub(theirs.iss.unwrap_or(0)));
                self.resent[1 - side].report(left, right, sent.at);
            }
            theirs.edge = theirs.edge.max(ack + (u32::from(header.window) << shift));
        }
        self.seen = match side {
            0 => [ours, theirs],
            _ => [theirs, ours],
        };
    }

    /// Until everything was read on both sides. The time it took.
    pub(super) fn run(&mut self) -> Duration {
        let start = self.pair.now;
        let end = start + Duration::from_secs(3600);
        while !self.streams.iter().all(|s| s.ended) {
            if self.server.is_none() {
                self.server = self.pair.b.tcp_accept(self.listener);
            }
            self.applications();
            self.pair.settle();
            self.judge();
            self.applications();
            self.pair.settle();
            self.judge();
            let before = self.pair.now;
            let more = self.pair.step();
            let moved = more || self.pair.now > before;
            assert!(
                moved && self.pair.now < end,
                "no progress; {}",
                self.describe()
            );
        }
        self.pair.now.saturating_duration_since(start)
    }

    /// Until the server has read `bytes`. The time it took.
    pub(super) fn run_until_read(&mut self, bytes: usize) -> Duration {
        let start = self.pair.now;
        while self.streams[0].read < bytes {
            if self.server.is_none() {
                self.server = self.pair.b.tcp_accept(self.listener);
            }
            self.applications();
            self.pair.settle();
            self.applications();
            assert!(self.pair.step(), "{}", self.describe());
        }
        self.pair.now.saturating_duration_since(start)
    }

    /// Both let go; when 2 MSL are over nothing is left.
    pub(super) fn finish(&mut self) {
        let now = self.pair.now;
        self.pair.a.tcp_close(now, self.client);
        self.pair.b.tcp_close(now, self.server.expect("accepted"));
        self.pair.pass(Duration::from_secs(900));
        for (host, link) in [
            (&self.pair.a, self.pair.link_a),
            (&self.pair.b, self.pair.link_b),
        ] {
            assert_eq!(host.tcp_connections(), 0, "seed {}", self.seed);
            let pool = &host.link(link).expect("a link").pool;
            pool.invariants();
            assert!(
                pool.free_blocks() + 1 >= pool.blocks(),
                "seed {}",
                self.seed
            );
        }
    }

    fn describe(&self) -> std::string::String {
        let read = self
            .streams
            .each_ref()
            .map(|s| (s.written, s.read, s.data.len()));
        let (a, b) = (self.info(0), self.info(1));
        std::format!(
            "seed {} at {}: {read:?} {a:#?} {b:#?}",
            self.seed,
            self.pair.now
        )
    }
}
