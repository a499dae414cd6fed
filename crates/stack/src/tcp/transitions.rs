//! The synchronised states of RFC 9293 section 3.3.2 and the events that move between them, as
//! data.

use super::socket::TcpState;

/// Where a connection is once both sides have exchanged SYNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    /// Over, but the application has not let go: it may still read what arrived.
    Closed,
}

use Phase::{CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, TimeWait};

/// What moves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The application will write no more.
    Close,
    /// Our FIN is acknowledged.
    FinAcked,
    /// The peer's FIN arrived in order.
    FinArrived,
    /// Twice the maximum segment lifetime has passed.
    Expired,
}

impl Phase {
    /// The state after `event`; unchanged where the event means nothing.
    pub(super) const fn after(self, event: Event) -> Phase {
        match (self, event) {
            (Established, Event::Close) => FinWait1,
            (CloseWait, Event::Close) => LastAck,
            (FinWait1, Event::FinAcked) => FinWait2,
            (Closing, Event::FinAcked) => TimeWait,
            (LastAck, Event::FinAcked) => Closed,
            (Established, Event::FinArrived) => CloseWait,
            (FinWait1, Event::FinArrived) => Closing,
            (FinWait2, Event::FinArrived) => TimeWait,
            (TimeWait, Event::Expired) => Closed,
            (unchanged, _) => unchanged,
        }
    }

    /// Whether text is still expected from the peer.
    #[inline]
    pub(super) const fn takes_text(self) -> bool {
        matches!(self, Established | FinWait1 | FinWait2)
    }

    /// Whether we may still have something to send.
    pub(super) const fn sends(self) -> bool {
        !matches!(self, FinWait2 | TimeWait | Closed)
    }

    /// The name that callers see.
    pub(super) const fn state(self) -> TcpState {
        match self {
            Established => TcpState::Established,
            FinWait1 => TcpState::FinWait1,
            FinWait2 => TcpState::FinWait2,
            CloseWait => TcpState::CloseWait,
            Closing => TcpState::Closing,
            LastAck => TcpState::LastAck,
            TimeWait => TcpState::TimeWait,
            Closed => TcpState::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    const PHASES: [Phase; 8] = [
        Established,
        FinWait1,
        FinWait2,
        CloseWait,
        Closing,
        LastAck,
        TimeWait,
        Closed,
    ];
    const EVENTS: [Event; 4] = [
        Event::Close,
        Event::FinAcked,
        Event::FinArrived,
        Event::Expired,
    ];

    /// RFC 9293 figure 5, the part below ESTAB.
    #[test]
    fn graph_of_section_3_3_2() {
        let mut graph = String::new();
        for phase in PHASES {
            for event in EVENTS {
                let next = phase.after(event);
                if next != phase {
                    graph += &std::format!("{phase:?} --{event:?}--> {next:?}\n");
                }
            }
        }
        let expected = "\
Established --Close--> FinWait1
Established --FinArrived--> CloseWait
FinWait1 --FinAcked--> FinWait2
FinWait1 --FinArrived--> Closing
FinWait2 --FinArrived--> TimeWait
CloseWait --Close--> LastAck
Closing --FinAcked--> TimeWait
LastAck --FinAcked--> Closed
TimeWait --Expired--> Closed
";
        assert_eq!(graph, expected);
    }
}
