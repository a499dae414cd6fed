//! What the application sets, per connection, or per listener for the connections it makes.

use core::time::Duration;

use super::handshake::MIN_MSS;
use super::send::Send;
use super::socket::TcpOption;
use super::user_timeout::UserTimeouts;
use super::window::Nagle;
use crate::config::{CongestionControl, TcpConfig};
use crate::ip::Path;

/// What the application set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) nagle: Nagle,
    pub(super) keep_alive: Option<Duration>,
    /// Seconds between two probes; 0: the configuration's.
    keep_alive_interval: u16,
    /// Unanswered probes before giving up; 0: the configuration's.
    keep_alive_probes: u8,
    /// Retransmissions of our SYN, and one; 0: the configuration's.
    syn_tries: u8,
    pub(super) user_timeout: UserTimeouts,
    pub(super) linger: Option<Duration>,
    pub(super) send_buffer: u32,
    /// How far it grows by itself; 0 once the application has set it.
    pub(super) send_buffer_max: u32,
    pub(super) receive_buffer: Option<u32>,
    /// Most bytes that wait to be sent; `u32::MAX`: as many as the send buffer holds.
    unsent_max: u32,
    /// Most bytes in a segment; 0: no limit.
    max_segment: u16,
    pub(super) ttl: u8,
    pub(super) tos: u8,
    /// How many connections with data in their SYN a listener lets wait for the end of the
    /// handshake; 0: it takes none.
    pub(super) fast_open: u16,
    pub(super) congestion: CongestionControl,
}

impl Settings {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Settings {
            nagle: match config.nodelay {
                true => Nagle::Off,
                false => Nagle::default(),
            },
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
            //# If keep-alives are
            //# included, the application MUST be able to turn them on or off for
            //# each TCP connection (MUST-24), and they MUST default to off (MUST-
            //# 25).
            keep_alive: None,
            keep_alive_interval: 0,
            keep_alive_probes: 0,
            syn_tries: 0,
            user_timeout: UserTimeouts::default(),
            linger: None,
            send_buffer: config.send_buffer,
            send_buffer_max: config.send_buffer_max,
            receive_buffer: None,
            unsent_max: u32::MAX,
            max_segment: config.max_segment.map_or(0, limit),
            ttl: Path::TTL,
            tos: 0,
            fast_open: match config.fast_open.server {
                true => config.fast_open.pending_max,
                false => 0,
            },
            congestion: config.congestion,
        }
    }

    pub(super) fn set(&mut self, option: TcpOption) {
        match option {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.4
            //# However, there MUST be a way for an application to disable the Nagle algorithm on
            //# an individual connection (MUST-17).
            TcpOption::NoDelay(true) => self.nagle = Nagle::Off,
            TcpOption::NoDelay(false) => self.nagle = Nagle::default(),
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
            //# This interval MUST be configurable (MUST-27) and MUST default to no less than two
            //# hours (MUST-28).
            TcpOption::KeepAlive(idle) => {
                // a time of 0 would be over before it began
                self.keep_alive = idle.map(|i| i.max(Duration::from_secs(1)));
            }
            TcpOption::KeepAliveInterval(time) => {
                let seconds = time.map_or(0, |time| time.as_secs().max(1));
                self.keep_alive_interval = u16::try_from(seconds).unwrap_or(u16::MAX);
            }
            TcpOption::KeepAliveProbes(most) => {
                self.keep_alive_probes = most.map_or(0, |most| most.max(1));
            }
            TcpOption::SynRetries(most) => {
                self.syn_tries = most.map_or(0, |most| most.saturating_add(1));
            }
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
            //# (d) An application MUST (MUST-21) be able to set the value for R2 for a particular
            //# connection.
            TcpOption::UserTimeout(most) => self.user_timeout.set(most),
            TcpOption::AdvertiseUserTimeout(time) => self.user_timeout.advertise(time),
            TcpOption::SendBuffer(bytes) => {
                self.send_buffer = bytes.clamp(4096, 1 << 30);
                self.send_buffer_max = 0;
            }
            TcpOption::ReceiveBuffer(bytes) => {
                self.receive_buffer = Some(bytes.clamp(2048, 1 << 30));
            }
            TcpOption::UnsentMax(most) => self.unsent_max = most.unwrap_or(u32::MAX),
            TcpOption::MaxSegment(most) => self.max_segment = most.map_or(0, limit),
            TcpOption::Linger(time) => self.linger = time,
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2
            //# Time to Live (TTL): The TTL value used to send TCP segments MUST be configurable
            //# (MUST-49).
            TcpOption::TimeToLive(hops) => self.ttl = hops.max(1),
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.9
            //# The application layer MUST be able to specify the Differentiated Services field for
            //# segments that are sent on a connection (MUST-48).
            // the two bits beside it are TCP's own (RFC 3168)
            TcpOption::TypeOfService(tos) => self.tos = tos & !ECN,
            TcpOption::FastOpen(most) => self.fast_open = most,
            TcpOption::CongestionControl(control) => self.congestion = control,
        }
    }

    /// Bytes that a write may queue.
    #[inline]
    pub(super) fn room(&self, send: &Send) -> u32 {
        /// Where segments are long, part of one is enough to make progress.
        const LEAST: u32 = 4096;
        let most = self.unsent_max.max(send.mss.min(LEAST));
        send.room().min(most.saturating_sub(send.unsent()))
    }

    /// Whether so little waits to be sent that a writer is called.
    // Linux: half of the mark, so that there is a pause between "full" and "room again".
    #[inline]
    pub(super) fn wants_more(&self, send: &Send) -> bool {
        self.unsent_max == u32::MAX || send.unsent() < self.unsent_max.div_ceil(2)
    }

    /// Between two keep-alive probes.
    pub(super) fn keep_alive_interval(&self, config: &TcpConfig) -> Duration {
        match self.keep_alive_interval {
            0 => config.keep_alive_interval,
            seconds => Duration::from_secs(seconds.into()),
        }
    }

    /// Whether so many unanswered keep-alive probes are enough, when nothing was heard for so long.
    // As Linux has it (tcp(7), TCP_USER_TIMEOUT): a time that the application set stands for the
    // number of probes.
    pub(super) fn is_given_up(&self, probes: u8, silent: Duration, config: &TcpConfig) -> bool {
        match (
            self.user_timeout.set_by_application(),
            self.keep_alive_probes,
        ) {
            (Some(most), _) => probes > 0 && silent >= most,
            (None, 0) => probes >= config.keep_alive_probes,
            (None, most) => probes >= most,
        }
    }

    /// Retransmissions of our SYN.
    pub(super) fn syn_retries(&self, config: &TcpConfig) -> u8 {
        self.syn_tries.checked_sub(1).unwrap_or(config.syn_retries)
    }

    /// Most bytes in a segment, without options.
    pub(super) fn max_segment(&self) -> u32 {
        match self.max_segment {
            0 => u32::MAX,
            most => most.into(),
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2
    //# Generally, an application SHOULD NOT change the Diffserv field value during the course of a
    //# connection (SHLD-23).
    // nothing but the option changes it, and its description says so
    /// Puts into the path what concerns IP; whether that changed anything.
    pub(super) fn mark(&self, path: &mut Path) -> bool {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.9
        //# TCP implementations SHOULD pass the current Differentiated Services field value without
        //# change to the IP layer, when it sends segments on the connection (SHLD-22).
        let before = core::mem::replace(&mut path.ttl, self.ttl);
        let service = core::mem::replace(&mut path.tos, self.tos);
        (before, service) != (self.ttl, self.tos)
    }
}

/// The bits of the type of service that are not Differentiated Services (RFC 3168 section 5).
const ECN: u8 = 3;

/// A limit of a segment's length that leaves room for options and something behind them.
fn limit(most: u16) -> u16 {
    most.max(MIN_MSS)
}
