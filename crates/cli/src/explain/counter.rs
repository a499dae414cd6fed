//! What the stack counts. Meanings are the descriptions in the source, so that they cannot differ.

use std::borrow::Cow;

use gannet_base::Reason;
use gannet_link::SlotFault;
use gannet_stack::DropReason;
use gannet_stack::tcp::TcpEvent;

use super::entry::{Entry, Kind};

pub(super) fn entries() -> Vec<Entry> {
    let mut all = of::<DropReason>(Kind::Drop);
    all.extend(of::<TcpEvent>(Kind::TcpCount));
    all.extend(of::<SlotFault>(Kind::SlotFault));
    all
}

fn of<R: Reason>(kind: Kind) -> Vec<Entry> {
    let entry = |reason: &R| Entry {
        code: Cow::Borrowed(reason.name()),
        kind,
        number: None,
        meaning: Cow::Owned(meaning(reason.about())),
        causes: causes(kind, reason.name()),
        hint: hint(kind, reason.name()),
    };
    R::ALL.iter().map(entry).collect()
}

/// A description without the marks of the source.
fn meaning(about: &str) -> String {
    about.replace('`', "")
}

fn causes(kind: Kind, name: &str) -> &'static str {
    match name {
        "udp_receive_full" | "udp_receive_old" => {
            "datagrams come faster than the program reads them"
        }
        "link_full" => "more is sent than the link takes away at once",
        "no_route" => "the destination is in no link's network, and there is no gateway",
        "ip_not_for_us" | "foreign_station" => {
            "the network floods frames whose station it does not know; an interface in promiscuous \
             mode"
        }
        "no_socket" | "udp_no_socket" => "nobody listens there; a peer speaks to a socket that was",
        "no_memory" => "programs that do not read what they are sent; buffers beyond the memory",
        "backlog_full" | "accept_queue_full" => {
            "the program accepts more slowly than peers connect"
        }
        "cookie_sent" | "cookie_taken" => "more peers connect at once than the backlog remembers",
        "neighbour_failed" => "the host is down, or in another network",
        "old_timestamp" | "out_of_window" => "duplicates from a slow path; a forger who guesses",
        "black_hole" => "a router or tunnel that drops large packets without telling",
        _ if kind == Kind::SlotFault => "a peer process with a mistake, or a hostile one",
        _ if name.ends_with("checksum") => "a defect on the path; an offload that lies",
        _ => "",
    }
}

fn hint(kind: Kind, name: &str) -> &'static str {
    match name {
        "udp_receive_full" | "udp_receive_old" => {
            "--set udp.receive_buffer=16M, or a program that reads more at once"
        }
        "link_full" => "slower senders; --set udp.send_buffer=1M",
        "no_route" => "an address whose prefix covers the destination, or a gateway",
        "no_memory" => "smaller buffers: --set tcp.receive_buffer_max=4M",
        "backlog_full" | "accept_queue_full" => "a longer backlog in listen()",
        "cookie_sent" | "cookie_taken" | "too_many_connections" => {
            "--profile many, or --set tcp.syn_backlog=16384"
        }
        "black_hole" | "mtu_probe_failed" => {
            "--set tcp.max_segment=1360 when the path is known to be narrow"
        }
        "time_wait_recycled" => "--set tcp.time_wait=10s, or connections that live longer",
        "bad_checksum" | "ip_checksum" | "udp_checksum" => {
            "ethtool -K IF rx off tx off, to see whether an offload is to blame"
        }
        "arp_conflict" | "duplicate_address" => "another address: --addr",
        "received" | "sent" | "straight" | "from_template" | "active_open" | "passive_open" => {
            "nothing: this is how it ought to be"
        }
        _ if kind == Kind::SlotFault => {
            "look at the process at the other end: it is named where the count is"
        }
        _ => "nothing for a few; for many: look with tcpdump who sends them",
    }
}
