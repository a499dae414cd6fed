//! The client (RFC 7413 sections 4.2.1 and 4.2.2): data that goes with the SYN where the server is
//! known to take it, else after the handshake.

use core::net::SocketAddr;

use alloc::boxed::Box;

use gannet_base::Instant;
use gannet_link::{Checksum, Driver, Pool};
use gannet_wire::tcp::{FastOpenCookie, HEADER_LEN, Options, SackBlocks};

use super::cookie;
use super::servers::Key;
use crate::ip::{Ip, Path};
use crate::tcp::api::memory_share;
use crate::tcp::connection::{Connection, Cx, State};
use crate::tcp::counters::TcpEvent;
use crate::tcp::engine::Tcp;
use crate::tcp::error::ConnectError;
use crate::tcp::handshake::{self, Opening};
use crate::tcp::output;
use crate::tcp::segment::Segment;
use crate::tcp::send_queue::SendQueue;
use crate::tcp::socket::TcpId;

/// What was written before the connection was open.
#[derive(Debug)]
pub(in crate::tcp) struct Early {
    /// The bytes, from ISS + 1 on.
    pub(in crate::tcp) queue: SendQueue,
    /// What the first SYN says about Fast Open.
    asks: Option<FastOpenCookie>,
    /// What the server accepts, as far as it is known; 0: not.
    mss: u16,
    /// Bytes that left with the first SYN.
    pub(in crate::tcp) sent: u32,
}

/// What a SYN-ACK says about Fast Open.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct News {
    key: Key,
    cookie: Option<FastOpenCookie>,
    mss: u16,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    None,
    Taken,
    Failed,
}

impl Tcp {
    /// As [`Tcp::connect`], with data that may go with the SYN (RFC 7413): with
    /// [`crate::FastOpenConfig::client`], when the server gave us a cookie before. Else it follows
    /// the handshake. How many bytes were taken: as many as the send buffer holds.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect_with_data<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        (local, remote): (Option<SocketAddr>, SocketAddr),
        data: &[u8],
    ) -> Result<(TcpId, usize), ConnectError> {
        let id = self.begin(ip, local, remote)?;
        let entry = self.table.at_mut(id.index);
        let key = entry.map(|e| key_of(&e.conn));
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.1
        //# Any client attempting TFO MUST first request a cookie from the server
        //# with the following steps:
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
        //# To open a TFO connection, the client MUST have obtained a cookie from
        //# the server:
        let key = key.filter(|_| self.config.fast_open.client);
        let advice = key.and_then(|key| self.servers.advice(&key, now));
        let mut taken = 0;
        self.with(ip, now, id.index, |conn, cx| {
            let mut opening = Opening::active(cx, conn);
            let early = Early::new(&opening, conn, cx, (data, advice));
            taken = early.as_ref().map_or(0, |e| e.queue.len() as usize);
            opening.early = early.map(Box::new);
            conn.state = State::SynSent(opening);
            handshake::send_syn(conn, cx);
        });
        Ok((id, taken))
    }

    /// A SYN-ACK said something about Fast Open.
    pub(in crate::tcp) fn learn(&mut self, now: Instant, news: &News) {
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
        //# If the SYN-ACK has a Fast Open option, an MSS option, or both,
        //# update the corresponding cookie and MSS information in the cookie
        //# cache.
        if let Some(cookie) = news.cookie {
            self.servers.gave(&news.key, cookie, news.mss);
        }
        match news.verdict {
            Verdict::None => {}
            Verdict::Taken => {
                self.counters.add(TcpEvent::FastOpenTaken);
                self.servers.took(&news.key);
            }
            Verdict::Failed => self.servers.failed(&news.key, now),
        }
    }
}

impl Early {
    /// Copies as much of `data` as may be queued.
    fn new<D: Driver>(
        opening: &Opening,
        conn: &Connection,
        cx: &mut Cx<'_, D>,
        (data, advice): (&[u8], Option<(FastOpenCookie, u16)>),
    ) -> Option<Self> {
        let endpoint = cx.ip.endpoint(conn.path.link)?;
        let sums = endpoint.capabilities().checksum == Checksum::Software;
        let mut queue = SendQueue::new(opening.iss + 1, sums);
        let pool = &mut endpoint.pool;
        let most = conn.settings.send_buffer.min(memory_share(pool, 0));
        while let Some(rest) = data.get(queue.len() as usize..).filter(|r| !r.is_empty()) {
            let left = most.saturating_sub(queue.len());
            if left == 0 || queue.append(pool, rest, left) == 0 {
                break;
            }
        }
        let (asks, mss) = advice.map_or((None, 0), |(cookie, mss)| (Some(cookie), mss));
        Some(Early {
            queue,
            asks,
            mss,
            sent: 0,
        })
    }

    pub(in crate::tcp) fn let_go(&mut self, pool: &mut Pool) {
        self.queue.clear(pool);
    }

    /// Most bytes of a SYN's payload together with its options.
    fn limit(&self, path: &Path) -> u32 {
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3
        //# Therefore, the client MAY limit the cached MSS
        //# to 1460 bytes for IPv4 or 1440 for IPv6.
        let (default, most) = match path.destination.is_ipv6() {
            false => (536, 1460),
            true => (1220, 1440),
        };
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
        //# Include any data up to the cached server MSS or
        //# default 536 bytes.
        let mss = if self.mss == 0 { default } else { self.mss };
        let by_path = path
            .mtu
            .saturating_sub((path.ip_header_len() + HEADER_LEN) as u32);
        u32::from(mss.min(most)).min(by_path)
    }
}

/// Puts into the options of a SYN or SYN-ACK what it says about Fast Open; how many bytes of text
/// go with it.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.1
//# We
//# RECOMMEND both the client and the server to retransmit SYN and SYN-
//# ACK packets without the cookie options on timeouts.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//# To deal with network or servers dropping SYN packets with payload or
//# unknown options, when the SYN timer fires, the client SHOULD
//# retransmit a SYN packet without data and Fast Open options.
pub(in crate::tcp) fn prepare<D: Driver>(
    opening: &mut Opening,
    cx: &Cx<'_, D>,
    (path, answer): (&Path, bool),
    options: &mut Options,
) -> u32 {
    if opening.sent > 0 {
        return 0;
    }
    if answer {
        if !opening.offer.fast_open {
            return 0;
        }
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.1
        //# This SYN-ACK
        //# may contain a Fast Open option if the server currently supports
        //# TFO for this listener port.
        let ends = (path.source, path.destination);
        options.set_fast_open(&cookie::make(cx.key, ends, cx.now));
        return 0;
    }
    let Some(early) = &mut opening.early else {
        return 0;
    };
    let Some(cookie) = early.asks else {
        return 0;
    };
    options.set_fast_open(&cookie);
    if cookie == FastOpenCookie::REQUEST {
        return 0;
    }
    // the headers of IPv6 on an Ethernet leave no room for a reference to text behind all options
    if !output::has_room_for_text(path, options) {
        options.timestamps = None;
    }
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
    //# If the SYN packet does not have enough option space for the
    //# Fast Open option, abort TFO and fall back to the regular 3WHS.
    if !output::has_room_for_text(path, options) {
        options.sack = SackBlocks::NONE;
        early.asks = None;
        return 0;
    }
    let most = early.limit(path);
    let room = most.saturating_sub(options.encoded_len() as u32);
    early.queue.len().min(room)
}

fn key_of(conn: &Connection) -> Key {
    (conn.local.ip(), conn.remote)
}

/// What `seg`, which arrives in SYN-SENT, says about Fast Open.
pub(in crate::tcp) fn news(conn: &Connection, seg: &Segment) -> Option<News> {
    let State::SynSent(opening) = &conn.state else {
        return None;
    };
    let early = opening.early.as_ref()?;
    let asked = early.asks?;
    let answers = seg.syn() && seg.has_ack() && !seg.rst() && opening.is_acked_by(seg.ack);
    if !answers {
        return None;
    }
    let cookie = seg.options.fast_open();
    let cookie = cookie.filter(|c| *c != FastOpenCookie::REQUEST);
    let taken = early.sent > 0 && seg.ack.after(opening.iss + 1);
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.1
    //# We also RECOMMEND the client to record the set of servers that failed
    //# to respond to cookie requests and only attempt another cookie request
    //# after a certain period.
    let refused = cookie.is_none() && (early.sent > 0 || asked == FastOpenCookie::REQUEST);
    let verdict = match taken {
        true => Verdict::Taken,
        // (after a time-out that stands already)
        false if refused && opening.sent == 1 => Verdict::Failed,
        false => Verdict::None,
    };
    Some(News {
        key: key_of(conn),
        cookie,
        mss: seg.options.mss.unwrap_or(0),
        verdict,
    })
}

/// The server whose SYN with Fast Open gets no answer in time, or an error.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//# If the client has timed out and retransmitted only regular SYN
//# packets, it can heuristically detect paths that intentionally drop
//# SYNs with the Fast Open option or data.
pub(in crate::tcp) fn doubts(conn: &Connection) -> Option<Key> {
    let State::SynSent(opening) = &conn.state else {
        return None;
    };
    let early = opening.early.as_ref()?;
    (opening.sent == 1 && early.asks.is_some()).then(|| key_of(conn))
}
