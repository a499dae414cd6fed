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
    /// `tcpi_options`; bits 8 to 11 and 12 to 15: the peer's and our window scale.
    pub options: u32,
    /// Its state, by its number in Linux (`TCP_ESTABLISHED` is 1); 0 while it is not known.
    pub state: u32,
    /// Smallest round trip of the last minutes, microseconds.
    pub rtt_min: u32,
    /// Bytes that we offer room for.
    pub receive_window: u32,
    /// Segments sent, the lower 32 bits.
    pub segments_sent: u32,
    /// Segments received, the lower 32 bits.
    pub segments_received: u32,
    /// Kilobytes (1000) a second at which data leaves; `u32::MAX`: as fast as the windows allow.
    pub pacing_rate: u32,
    /// Bytes that arrived out of order.
    pub out_of_order: u32,
    /// Bytes that the peer has reported with selective acknowledgements.
    pub sacked: u32,
    /// `tcpi_ca_state`: 0 open, 1 disorder, 3 recovery, 4 loss.
    pub loss_state: u32,
    /// Milliseconds since the last payload arrived; 0 before the first.
    pub since_received: u32,
    /// The congestion control in use: its place among [`crate::options::CONGESTION`], plus one.
    pub congestion_control: u32,
    /// What it says of itself, as the words of Linux's structure for it (`TCP_CC_INFO`).
    pub control_state: [u32; 5],
    /// Microseconds with something to send, the lower and the upper half.
    pub busy: [u32; 2],
    /// Of them with the peer's window full.
    pub window_limited: [u32; 2],
    /// Of them with the send buffer full, all of it under way.
    pub buffer_limited: [u32; 2],
}

/// Those that have words of their own in every slot; the others are where a carrier's slot, which
/// is no socket of a program, has no options.
pub(crate) const WORDS: usize = 12;
const ALL: usize = 34;

const _: () = assert!(ALL - WORDS <= crate::layout::slot::OPTION_COUNT);

impl Figures {
    fn words(&self) -> [u32; ALL] {
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
            state,
            rtt_min,
            receive_window,
            segments_sent,
            segments_received,
            pacing_rate,
            out_of_order,
            sacked,
            loss_state,
            since_received,
            congestion_control,
            control_state: [state0, state1, state2, state3, state4],
            busy: [busy, busy_high],
            window_limited: [window, window_high],
            buffer_limited: [buffer, buffer_high],
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
            state,
            rtt_min,
            receive_window,
            segments_sent,
            segments_received,
            pacing_rate,
            out_of_order,
            sacked,
            loss_state,
            since_received,
            congestion_control,
            state0,
            state1,
            state2,
            state3,
            state4,
            busy,
            busy_high,
            window,
            window_high,
            buffer,
            buffer_high,
        ]
    }
}

impl PeerSlot<'_> {
    /// What was said of the connection last; all zero when nothing was.
    pub fn figures(&self) -> Figures {
        let word = |n: usize| match n.checked_sub(WORDS) {
            None => self.figure(n),
            Some(more) => self.option(more),
        };
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
            state: word(12),
            rtt_min: word(13),
            receive_window: word(14),
            segments_sent: word(15),
            segments_received: word(16),
            pacing_rate: word(17),
            out_of_order: word(18),
            sacked: word(19),
            loss_state: word(20),
            since_received: word(21),
            congestion_control: word(22),
            control_state: [23, 24, 25, 26, 27].map(word),
            busy: [28, 29].map(word),
            window_limited: [30, 31].map(word),
            buffer_limited: [32, 33].map(word),
        }
    }
}

impl OwnSlot<'_> {
    /// Says what is known of the connection.
    pub fn set_figures(&self, figures: &Figures) {
        for (n, value) in figures.words().into_iter().enumerate() {
            match n.checked_sub(WORDS) {
                None => self.set_figure(n, value),
                Some(more) => self.set_option(more, value),
            }
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
            state: 13,
            rtt_min: 14,
            receive_window: 15,
            segments_sent: 16,
            segments_received: 17,
            pacing_rate: 18,
            out_of_order: 19,
            sacked: 20,
            loss_state: 21,
            since_received: 22,
            congestion_control: 23,
            control_state: [24, 25, 26, 27, 28],
            busy: [29, 30],
            window_limited: [31, 32],
            buffer_limited: [33, 34],
        };
        slot.set_figures(&figures);
        assert_eq!(slot.figures(), figures);
        assert_eq!((slot.writer_armed(), slot.generation()), (0, 1));
    }
}
