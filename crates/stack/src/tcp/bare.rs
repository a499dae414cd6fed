//! Segments without payload that belong to no window: resets, challenge ACKs, acknowledgements of
//! TIME-WAIT. No timer sends them again: one whose neighbour is being resolved waits for it.

use gannet_link::{Driver, Slot};
use gannet_wire::checksum::Sum;

use super::connection::Cx;
use super::counters::TcpEvent;
use super::header::{self, Outgoing};
use crate::counters::DropReason;
use crate::ip::{Path, Resolution};

/// Sends a segment without payload; `false` when the link has no room.
pub(super) fn send_bare<D: Driver>(cx: &mut Cx<'_, D>, path: &Path, out: &Outgoing) -> bool {
    let Some(slot) = write(cx, path, out) else {
        return false;
    };
    let endpoint = cx.ip.endpoint(path.link);
    let sent = endpoint.is_some_and(|e| e.transmit(&slot).is_ok());
    if sent {
        cx.counters.add(TcpEvent::Sent);
    }
    sent
}

/// As [`send_bare`] once the neighbour is known: `true` also when the segment waits for its answer.
pub(super) fn send_or_hold<D: Driver>(cx: &mut Cx<'_, D>, path: &mut Path, out: &Outgoing) -> bool {
    match cx.ip.resolve(cx.now, path) {
        Resolution::Ready => send_bare(cx, path, out),
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
        //# While waiting for address resolution to complete, the sender MUST, for each neighbor,
        //# retain a small queue of packets waiting for address resolution to complete.
        Resolution::Pending => {
            let held = cx.ip.held_path(path);
            let Some(slot) = write(cx, &held, out) else {
                return false;
            };
            let kept = cx.ip.hold_answer(&held, &slot);
            match kept {
                true => cx.counters.add(TcpEvent::Sent),
                false => cx.ip.count_drop(DropReason::NeighbourQueueFull),
            }
            kept
        }
        Resolution::Failed => false,
    }
}

fn write<D: Driver>(cx: &mut Cx<'_, D>, path: &Path, out: &Outgoing) -> Option<Slot> {
    let mut slot = Slot::new();
    let at = header::write(cx.ip, path, out, 0, &mut slot)?;
    let tcp_len = slot.inline().len() - at;
    let checksum = cx.ip.endpoint(path.link)?.capabilities().checksum;
    let pseudo = header::pseudo(path, tcp_len);
    header::finish(&mut slot, at, tcp_len, pseudo, checksum, Sum::new());
    Some(slot)
}
