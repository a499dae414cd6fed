//! What a host is told of the settings.

use super::knob::Knob;
use super::loaded::Settings;
use crate::HostBuilder;
use gannet_stack::{
    CongestionControl, EcnMode, MtuProbing, Pacing, SynCookies, TcpConfig, UdpConfig,
};
use std::time::Duration;

impl Settings {
    /// The settings of TCP, of UDP, of waiting and of links that are made. Links, addresses and the
    /// network are for the caller: [`Settings::link`], [`Settings::place`],
    /// [`Settings::network`].
    #[must_use]
    pub fn apply(&self, builder: HostBuilder) -> HostBuilder {
        let builder = builder
            .tcp(self.tcp())
            .udp(self.udp())
            .spin(self.time(Knob::Spin));
        match self.size(Knob::Mtu) {
            0 => builder,
            mtu => builder.mtu(mtu),
        }
    }

    /// A time.
    #[must_use]
    pub fn time(&self, knob: Knob) -> Duration {
        Duration::from_nanos(self.number(knob))
    }

    /// Whether it is switched on.
    #[must_use]
    pub fn flag(&self, knob: Knob) -> bool {
        self.number(knob) != 0
    }

    fn size(&self, knob: Knob) -> u32 {
        u32::try_from(self.number(knob)).unwrap_or(u32::MAX)
    }

    fn small(&self, knob: Knob) -> u8 {
        u8::try_from(self.number(knob)).unwrap_or(u8::MAX)
    }

    /// TCP's part.
    #[must_use]
    pub fn tcp(&self) -> TcpConfig {
        let (send, receive) = (self.size(Knob::SendBuffer), self.size(Knob::ReceiveBuffer));
        TcpConfig {
            send_buffer: send,
            send_buffer_max: self.size(Knob::SendBufferMax).max(send),
            receive_buffer: receive,
            receive_buffer_max: self.size(Knob::ReceiveBufferMax).max(receive),
            window_scaling: self.flag(Knob::WindowScaling),
            timestamps: self.flag(Knob::Timestamps),
            sack: self.flag(Knob::Sack),
            nodelay: self.flag(Knob::NoDelay),
            initial_window: self.small(Knob::InitialWindow),
            max_segment: u16::try_from(self.number(Knob::MaxSegment))
                .ok()
                .filter(|&most| most > 0),
            delayed_ack: self.time(Knob::DelayedAck),
            initial_rto: self.time(Knob::InitialRto),
            min_rto: self.time(Knob::MinRto),
            syn_retries: self.small(Knob::SynRetries),
            syn_ack_retries: self.small(Knob::SynAckRetries),
            data_retries: self.small(Knob::DataRetries),
            syn_backlog: self.size(Knob::SynBacklog) as usize,
            time_wait: self.time(Knob::TimeWait),
            fin_wait_2: self.time(Knob::FinWait2),
            challenge_interval: self.time(Knob::ChallengeInterval),
            rest_after: self.time(Knob::RestAfter),
            keep_alive_idle: self.time(Knob::KeepAliveIdle),
            keep_alive_interval: self.time(Knob::KeepAliveInterval),
            keep_alive_probes: self.small(Knob::KeepAliveProbes),
            ..self.choices()
        }
    }

    /// The settings that are words.
    fn choices(&self) -> TcpConfig {
        let default = TcpConfig::default();
        TcpConfig {
            congestion: pick(&CongestionControl::ALL, self.number(Knob::Congestion))
                .unwrap_or(default.congestion),
            pacing: match self.flag(Knob::Pacing) {
                true => Pacing::On,
                false => Pacing::Off,
            },
            ecn: pick(&ECN, self.number(Knob::Ecn)).unwrap_or(default.ecn),
            mtu_probing: pick(&PROBING, self.number(Knob::MtuProbing))
                .unwrap_or(default.mtu_probing),
            syn_cookies: pick(&COOKIES, self.number(Knob::SynCookies))
                .unwrap_or(default.syn_cookies),
            ..default
        }
    }

    /// UDP's part.
    #[must_use]
    pub fn udp(&self) -> UdpConfig {
        UdpConfig {
            receive_buffer: self.size(Knob::UdpReceiveBuffer),
            send_buffer: self.size(Knob::UdpSendBuffer),
        }
    }
}

// In the order of the words in the table.
const ECN: [EcnMode; 3] = [EcnMode::Off, EcnMode::Passive, EcnMode::Active];
const PROBING: [MtuProbing; 3] = [MtuProbing::Never, MtuProbing::BlackHole, MtuProbing::Always];
const COOKIES: [SynCookies; 3] = [SynCookies::Off, SynCookies::OnOverflow, SynCookies::Always];

fn pick<T: Copy>(all: &[T], place: u64) -> Option<T> {
    all.get(usize::try_from(place).ok()?).copied()
}
