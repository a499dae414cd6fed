//! What a carrier says of the TCP connection behind one of its streams, for `TCP_INFO`: words of
//! its slot, which the program reads. A few are written at a time, so that they need not agree.

use crate::slot::{OwnSlot, PeerSlot};

/// Figures of a connection over a network, as in `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Smoothed round trip, microseconds; 0 while it is not known.
    pub rtt: u32,
    /// How much it varies, microseconds.
    pub rtt_variation: u32,
    /// Retransmission time-out, microseconds.
    pub rto: u32,
    /// Congestion window, bytes.
    pub congestion_window: u32,
    /// Slow start threshold, bytes; `u32::MAX` for none.
    pub slow_start_threshold: u32,
    /// Largest segment sent, bytes of text.
    pub send_mss: u32,
    /// Largest segment received, bytes of text.
    pub receive_mss: u32,
    /// Segments sent again, since the beginning.
    pub retransmissions: u32,
    /// Bytes under way.
    pub in_flight: u32,
    /// Bytes the peer has room for.
    pub send_window: u32,
    /// Bytes that TCP has and has not sent yet.
    pub unsent: u32,
    /// Bit 0: timestamps, 1: selective acknowledgements, 2: window scale, 3: ECN, as in
    /// `tcpi_options`; bits 8 to 11 and 12 to 15: our and the peer's window scale.
    pub options: u32,
}

pub(crate) const WORDS: usize = 12;

impl Figures {
    fn words(&self) -> [u32; WORDS] {
        let Figures {
            rtt,
            rtt_variation,
            rto,
            congestion_window,
            slow_start_threshold,
            send_mss,
            receive_mss,
            retransmissions,
            in_flight,
            send_window,
            unsent,
            options,
        } = *self;
        [
            rtt,
            rtt_variation,
            rto,
            congestion_window,
            slow_start_threshold,
            send_mss,
            receive_mss,
            retransmissions,
            in_flight,
            send_window,
            unsent,
            options,
        ]
    }
}

impl PeerSlot<'_> {
    /// What was said of the connection last; all zero when nothing was.
    pub fn figures(&self) -> Figures {
        let word = |n| self.figure(n);
        Figures {
            rtt: word(0),
            rtt_variation: word(1),
            rto: word(2),
            congestion_window: word(3),
            slow_start_threshold: word(4),
            send_mss: word(5),
            receive_mss: word(6),
            retransmissions: word(7),
            in_flight: word(8),
            send_window: word(9),
            unsent: word(10),
            options: word(11),
        }
    }
}

impl OwnSlot<'_> {
    /// Says what is known of the connection.
    pub fn set_figures(&self, figures: &Figures) {
        for (n, value) in figures.words().into_iter().enumerate() {
            self.set_figure(n, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Geometry};

    #[test]
    fn every_figure_has_its_own_word() {
        let (_file, arena) = Arena::create(7, Geometry::default()).unwrap();
        let holder = arena.enter(1).unwrap();
        let slot = arena.own(arena.allocate(holder, 0).unwrap());
        assert_eq!(slot.figures(), Figures::default());
        let figures = Figures {
            rtt: 1,
            rtt_variation: 2,
            rto: 3,
            congestion_window: 4,
            slow_start_threshold: 5,
            send_mss: 6,
            receive_mss: 7,
            retransmissions: 8,
            in_flight: 9,
            send_window: 10,
            unsent: 11,
            options: 12,
        };
        slot.set_figures(&figures);
        assert_eq!(slot.figures(), figures);
        assert_eq!((slot.writer_armed(), slot.generation()), (0, 1));
    }
}
