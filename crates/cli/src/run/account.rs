//! The account of `-v`: which sockets were carried, and which were left to the kernel and why. The
//! library writes it into the program's memory, which this process keeps mapped, so that it is
//! there at the end whatever became of the carrier.

use std::fmt::Write as _;
use std::net::SocketAddr;

use gannet_carrier::Started;
use gannet_local::log::{Event, Fate, Log, Logged, Protocol, Reason, Role};
use gannet_local::service::{self, Question};
use gannet_local::{Arena, pid_namespace};

use crate::explain::meaning;

/// Most lines of each part.
const LINES: usize = 32;

/// An account that is being written.
#[derive(Debug)]
pub(super) struct Account {
    program: Arena,
    carrier: u32,
}

impl Account {
    /// Has it written from now on. `None` when the program's memory cannot be had, without which
    /// the program would not be carried either.
    pub(super) fn open(carrier: &Started) -> Option<Account> {
        let answer = service::ask(&carrier.network, carrier.host, &Question::Attach).ok()?;
        let program = Arena::open(answer.file?, true).ok()?;
        program.want_log();
        Some(Account {
            program,
            carrier: carrier.pid,
        })
    }

    /// The account so far.
    pub(super) fn text(&self) -> String {
        let mut text = table(&self.program.log());
        if !is_running(self.carrier) {
            let _ = writeln!(
                text,
                "gannet: the carrier ended before the program: no-carrier"
            );
            text += &explained([Reason::NoCarrier]);
        }
        let here = pid_namespace();
        let alive = self.program.entries().filter(|made| {
            let elsewhere = self.program.namespace_of(made.entry) != here;
            made.pid() != 0 && (elsewhere || is_running(made.pid()))
        });
        match alive.count() {
            0 => {}
            1 => text += "gannet: 1 process is still running; gannet ss lists its sockets\n",
            n => {
                let _ = writeln!(
                    text,
                    "gannet: {n} processes are still running; gannet ss lists their sockets"
                );
            }
        }
        text
    }
}

/// Whether a process is there and has not ended: not one that only waits to be waited for.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The parts, in the order in which they are printed.
const PARTS: [&str; 3] = ["carried", "left to the kernel", "failed"];

fn part(fate: Fate) -> usize {
    match fate {
        Fate::Direct | Fate::Carrier => 0,
        Fate::Left(_) => 1,
        Fate::Failed(_) => 2,
    }
}

fn reason(fate: Fate) -> Option<Reason> {
    match fate {
        Fate::Direct | Fate::Carrier => None,
        Fate::Left(reason) | Fate::Failed(reason) => Some(reason),
    }
}

fn table(log: &Log) -> String {
    let mut events = log.events.clone();
    events.sort_by_key(order);
    let mut text = String::new();
    for (number, title) in PARTS.iter().enumerate() {
        let of_part = events.iter().filter(|one| part(one.event.fate) == number);
        let rows: Vec<[String; 4]> = of_part.map(row).collect();
        if !rows.is_empty() {
            let _ = writeln!(text, "gannet: {title}");
            print(&rows, &mut text);
        }
    }
    if events.is_empty() {
        text += "gannet: nothing carried, and nothing left to the kernel: no socket was seen\n";
    }
    if log.missed > 0 {
        let _ = writeln!(text, "gannet: no room to tell of {} more", log.missed);
    }
    let mut reasons: Vec<Reason> = events.iter().filter_map(|e| reason(e.event.fate)).collect();
    reasons.sort();
    reasons.dedup();
    text + &explained(reasons)
}

fn order(logged: &Logged) -> (Role, Protocol, Option<SocketAddr>, Option<Reason>) {
    let Event {
        fate,
        role,
        protocol,
        address,
    } = logged.event;
    (role, protocol, address, reason(fate))
}

/// What it is, where, how often, and the code of why.
fn row(logged: &Logged) -> [String; 4] {
    let Event {
        fate,
        protocol,
        address,
        ..
    } = logged.event;
    let address = match (address, protocol) {
        (None, _) => "-".to_owned(),
        (Some(address), Protocol::Tcp) => format!("tcp {address}"),
        (Some(address), Protocol::Udp) => format!("udp {address}"),
        (Some(address), Protocol::Other) => address.to_string(),
    };
    let code = reason(fate).map_or("", Reason::code);
    [
        kind(&logged.event).to_owned(),
        address,
        logged.count.to_string(),
        code.to_owned(),
    ]
}

fn kind(event: &Event) -> &'static str {
    match (event.protocol, event.role, event.fate) {
        (Protocol::Udp, Role::Bind, _) => "datagrams at",
        (Protocol::Udp, ..) => "datagrams to",
        (_, Role::Listen, _) => "listener",
        (_, Role::Accept, Fate::Direct) => "stream from a program",
        (_, Role::Connect, Fate::Direct) => "stream to a program",
        (_, Role::Accept, Fate::Carrier) => "stream accepted over the carrier",
        (_, Role::Connect, Fate::Carrier) => "stream over the carrier",
        (_, Role::Accept, _) => "accepted connection",
        (_, Role::Connect, _) => "connection",
        (_, Role::Bind | Role::Send | Role::Make, _) => "socket",
        (_, Role::Start, _) => "calls of a program",
    }
}

fn print(rows: &[[String; 4]], text: &mut String) {
    let width = |column: usize| {
        let cells = rows.iter().take(LINES).filter_map(|row| row.get(column));
        cells.map(String::len).max().unwrap_or(0)
    };
    let (first, second, third) = (width(0), width(1), width(2));
    for [kind, address, count, code] in rows.iter().take(LINES) {
        let line = format!("    {kind:first$}  {address:second$}  {count:>third$}  {code}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if let Some(more) = rows.len().checked_sub(LINES).filter(|more| *more > 0) {
        let _ = writeln!(text, "    ... and {more} lines like these");
    }
}

/// What each code means.
fn explained(reasons: impl IntoIterator<Item = Reason>) -> String {
    let mut text = String::new();
    for code in reasons.into_iter().map(Reason::code) {
        let meaning = meaning(code).unwrap_or_default();
        let _ = writeln!(text, "{code}: {meaning} (gannet explain {code})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::is_known;

    fn logged(fate: Fate, role: Role, protocol: Protocol, address: &str, count: u64) -> Logged {
        let event = Event {
            fate,
            role,
            protocol,
            address: address.parse().ok(),
        };
        Logged {
            event,
            count,
            pid: 1,
        }
    }

    #[test]
    fn every_reason_is_explained() {
        for reason in Reason::ALL {
            let code = reason.code();
            assert!(is_known(code) && meaning(code).is_some(), "{code}");
        }
        // and nothing is explained that never happens
        let mut codes = crate::explain::codes();
        codes.retain(|code| !Reason::ALL.iter().any(|reason| reason.code() == *code));
        assert_eq!(codes, [""; 0]);
    }

    #[test]
    fn what_was_carried_stands_before_what_was_not() {
        let left = |reason| Fate::Left(reason);
        let ours = left(Reason::AddressNotOurs);
        let log = Log {
            events: vec![
                logged(
                    left(Reason::UnixSocket),
                    Role::Make,
                    Protocol::Other,
                    "",
                    12,
                ),
                logged(ours, Role::Connect, Protocol::Tcp, "192.0.2.1:80", 3),
                logged(Fate::Carrier, Role::Bind, Protocol::Udp, "[::]:53", 1),
                logged(Fate::Direct, Role::Listen, Protocol::Tcp, "0.0.0.0:80", 1),
            ],
            missed: 4,
        };
        let unix = meaning("unix-socket").unwrap();
        let address = meaning("address-not-ours").unwrap();
        let expected = format!(
            "gannet: carried\n    \
                 listener      tcp 0.0.0.0:80  1\n    \
                 datagrams at  udp [::]:53     1\n\
             gannet: left to the kernel\n    \
                 connection  tcp 192.0.2.1:80   3  address-not-ours\n    \
                 socket      -                 12  unix-socket\n\
             gannet: no room to tell of 4 more\n\
             address-not-ours: {address} (gannet explain address-not-ours)\n\
             unix-socket: {unix} (gannet explain unix-socket)\n"
        );
        assert_eq!(table(&log), expected);
    }

    #[test]
    fn a_long_account_is_cut() {
        let port = |n| format!("10.0.0.1:{n}");
        let one = |n| logged(Fate::Direct, Role::Connect, Protocol::Tcp, &port(n), 1);
        let all = |n| Log {
            events: (1..=n).map(one).collect(),
            missed: 0,
        };
        assert_eq!(table(&all(LINES)).lines().count(), 1 + LINES);
        let text = table(&all(LINES + 7));
        assert!(text.ends_with("    ... and 7 lines like these\n"), "{text}");
    }

    #[test]
    fn processes_that_ended_do_not_run() {
        assert!(is_running(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let ended = rustix::process::Pid::from_raw(pid as i32).unwrap();
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(ended), options).unwrap();
        assert!(!is_running(pid), "it has ended, and nobody has asked");
        child.wait().unwrap();
        assert!(!is_running(pid));
    }
}
