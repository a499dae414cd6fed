//! The answer to segments that nobody waits for.

use core::net::SocketAddr;

use gannet_link::Driver;
use gannet_wire::tcp::Flags;
use gannet_wire::tcp::Options;

use super::bare::send_or_hold;
use super::connection::Cx;
use super::counters::TcpEvent;
use super::header::Outgoing;
use super::segment::Segment;
use super::seq::SeqNum;

/// RFC 9293 section 3.10.7.1: a reset for `seg`, unless it is one.
pub(super) fn answer<D: Driver>(
    cx: &mut Cx<'_, D>,
    local: SocketAddr,
    remote: SocketAddr,
    seg: &Segment,
) {
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.1
    //# An incoming segment containing a RST is discarded.
    if seg.rst() && !planted!(ResetAnswered) {
        return;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.1
    //# If the ACK bit is off, sequence number zero is used,
    let (seq, ack, flags) = if seg.has_ack() {
        (seg.ack, SeqNum(0), Flags::RST)
    } else {
        (SeqNum(0), seg.seq + seg.seq_len(), Flags::RST | Flags::ACK)
    };
    //= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
    //# While still under discussion, to enable research into this area it is now RECOMMENDED that
    //# when generating an <RST>, if the segment causing the <RST> to be generated contains a
    //# Timestamps option, the <RST> should also contain a Timestamps option.
    //= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
    //# In the <RST> segment, SEG.TSecr SHOULD be set to SEG.TSval from the incoming segment and
    //# SEG.TSval SHOULD be set to zero.
    let mut options = Options::NONE;
    options.timestamps = seg.timestamps.map(|(value, _)| (0, value));
    let Ok(mut path) = cx.ip.path(Some(local.ip()), remote.ip()) else {
        return;
    };
    let out = Outgoing {
        source_port: local.port(),
        destination_port: remote.port(),
        seq,
        ack,
        flags,
        window: 0,
        urgent: 0,
        options,
    };
    if send_or_hold(cx, &mut path, &out) {
        cx.counters.add(TcpEvent::ResetSent);
    }
}
