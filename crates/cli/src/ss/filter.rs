//! Which sockets are shown: the filters of `ss`.
//!
//! ```text
//! filter = { ( "state" | "exclude" ) NAME } [ any ]
//! any    = all { "or" all }          all = one { [ "and" ] one }
//! one    = "not" one | "(" any ")" | ( "sport" | "dport" ) [ OP ] PORT | ( "src" | "dst" ) PLACE
//! ```

use std::net::{IpAddr, SocketAddr};

use gannet_bench::Problem;

use super::socket::Socket;

/// How deep parentheses may be nested.
const DEPTH: usize = 32;

#[derive(Debug)]
pub(super) struct Filter {
    states: Vec<String>,
    test: Option<Test>,
}

#[derive(Debug)]
enum Test {
    Any(Vec<Test>),
    All(Vec<Test>),
    Not(Box<Test>),
    Port(Side, Comparison, u16),
    Place(Side, Option<(IpAddr, u8)>, Option<u16>),
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Local,
    Peer,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    Greater,
    AtMost,
    AtLeast,
}

impl Filter {
    pub(super) fn parse(arguments: &[String]) -> Result<Filter, Problem> {
        let text = arguments.join(" ").replace('(', " ( ").replace(')', " ) ");
        let mut words: Vec<&str> = text.split_whitespace().rev().collect();
        let mut states = Vec::new();
        while let Some(word @ ("state" | "exclude")) = words.last().copied() {
            words.pop();
            let name = words.pop().ok_or_else(|| wrong("a state is missing"))?;
            match word {
                "state" => states.extend(state(name)?),
                _ => {
                    let without = state(name)?;
                    if states.is_empty() {
                        states = state("all")?;
                    }
                    states.retain(|known| !without.contains(known));
                }
            }
        }
        let mut parser = Parser { words, depth: 0 };
        let test = match parser.words.is_empty() {
            true => None,
            false => Some(parser.any()?),
        };
        match parser.words.last() {
            None => Ok(Filter { states, test }),
            Some(word) => Err(wrong(&format!("{word:?} is out of place"))),
        }
    }

    /// Whether all that it takes are in one state.
    pub(super) fn names_one_state(&self) -> bool {
        self.states.len() == 1
    }

    /// Whether it says which states are wanted.
    pub(super) fn names_states(&self) -> bool {
        !self.states.is_empty()
    }

    pub(super) fn takes(&self, socket: &Socket) -> bool {
        let state = self.states.is_empty() || self.states.contains(&socket.state);
        state && self.test.as_ref().is_none_or(|test| test.takes(socket))
    }
}

fn wrong(why: &str) -> Problem {
    let hint = "state established, dport = :80, src 10.0.0.0/8, and, or, not, ( )";
    Problem::new("cannot read the filter", why, hint)
}

/// States in which the kernel keeps less than a socket.
const BUCKET: [&str; 2] = ["SYN-RECV", "TIME-WAIT"];

/// The states that a name stands for.
fn state(name: &str) -> Result<Vec<String>, Problem> {
    const ALL: [&str; 11] = [
        "ESTAB",
        "SYN-SENT",
        "SYN-RECV",
        "TIME-WAIT",
        "CLOSING",
        "FIN-WAIT-1",
        "FIN-WAIT-2",
        "CLOSE-WAIT",
        "LAST-ACK",
        "LISTEN",
        "UNCONN",
    ];
    let upper = name.to_ascii_uppercase();
    let these = match upper.as_str() {
        "ALL" => ALL.to_vec(),
        "ESTABLISHED" => vec!["ESTAB"],
        "LISTENING" => vec!["LISTEN"],
        "CLOSED" => vec!["UNCONN"],
        "CLOSE" => vec!["UNCONN"],
        "CONNECTED" | "SYNCHRONIZED" | "BIG" => {
            let out = match upper.as_str() {
                "CONNECTED" => &["LISTEN", "UNCONN"][..],
                "SYNCHRONIZED" => &["LISTEN", "UNCONN", "SYN-SENT"],
                _ => &BUCKET,
            };
            let rest = ALL.into_iter().filter(|name| !out.contains(name));
            rest.collect()
        }
        "BUCKET" => BUCKET.to_vec(),
        other => ALL.into_iter().filter(|name| *name == other).collect(),
    };
    match these.is_empty() {
        true => Err(wrong(&format!("{name:?} is no state"))),
        false => Ok(these.into_iter().map(str::to_owned).collect()),
    }
}

/// The words that are left, the next one last.
struct Parser<'a> {
    words: Vec<&'a str>,
    depth: usize,
}

impl Parser<'_> {
    fn next_is(&mut self, these: &[&str]) -> bool {
        let found = self.words.last().is_some_and(|word| these.contains(word));
        if found {
            self.words.pop();
        }
        found
    }

    fn any(&mut self) -> Result<Test, Problem> {
        let mut all = vec![self.all()?];
        while self.next_is(&["or", "|", "||"]) {
            all.push(self.all()?);
        }
        Ok(Test::Any(all))
    }

    fn all(&mut self) -> Result<Test, Problem> {
        let mut all = vec![self.one()?];
        loop {
            let joined = self.next_is(&["and", "&", "&&"]);
            let over = matches!(self.words.last(), None | Some(&("or" | "|" | "||" | ")")));
            if over && !joined {
                return Ok(Test::All(all));
            }
            all.push(self.one()?);
        }
    }

    fn one(&mut self) -> Result<Test, Problem> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(wrong("it is nested too deeply"));
        }
        let word = self.words.pop().ok_or_else(|| wrong("it ends too early"))?;
        let test = match word {
            "not" | "!" => Test::Not(Box::new(self.one()?)),
            "(" => {
                let inner = self.any()?;
                match self.next_is(&[")"]) {
                    true => inner,
                    false => return Err(wrong("a parenthesis is not closed")),
                }
            }
            "sport" => self.port(Side::Local)?,
            "dport" => self.port(Side::Peer)?,
            "src" => self.place(Side::Local)?,
            "dst" => self.place(Side::Peer)?,
            other => return Err(wrong(&format!("{other:?} is not known"))),
        };
        self.depth -= 1;
        Ok(test)
    }

    fn port(&mut self, side: Side) -> Result<Test, Problem> {
        let comparison = match self.words.last().copied().unwrap_or("") {
            "=" | "==" | "eq" => Some(Comparison::Equal),
            "!=" | "ne" | "neq" => Some(Comparison::NotEqual),
            "<" | "lt" => Some(Comparison::Less),
            ">" | "gt" => Some(Comparison::Greater),
            "<=" | "le" | "leq" => Some(Comparison::AtMost),
            ">=" | "ge" | "geq" => Some(Comparison::AtLeast),
            _ => None,
        };
        if comparison.is_some() {
            self.words.pop();
        }
        let word = self.words.pop().unwrap_or("");
        let port = word.strip_prefix(':').unwrap_or(word).parse().ok();
        let port = port.ok_or_else(|| wrong(&format!("{word:?} is no port")))?;
        Ok(Test::Port(
            side,
            comparison.unwrap_or(Comparison::Equal),
            port,
        ))
    }

    fn place(&mut self, side: Side) -> Result<Test, Problem> {
        self.next_is(&["=", "==", "eq"]);
        let word = self.words.pop().unwrap_or("");
        let place = place(word).ok_or_else(|| wrong(&format!("{word:?} is no address")))?;
        Ok(Test::Place(side, place.0, place.1))
    }
}

type Place = (Option<(IpAddr, u8)>, Option<u16>);

/// `10.0.0.1`, `10.0.0.0/8`, `10.0.0.1:80`, `:80`, `*`, `[fd00::1]:80`, `fd00::/8`.
fn place(text: &str) -> Option<Place> {
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Some((None, Some(port)));
    }
    if text == "*" {
        return Some((None, None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        return Some((Some((address.ip(), bits)), Some(address.port())));
    }
    let (ip, bits) = match text.split_once('/') {
        Some((ip, bits)) => (ip, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let ip: IpAddr = ip.trim_matches(['[', ']']).parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((Some((ip, bits)), None))
}

fn contains(network: IpAddr, bits: u8, ip: IpAddr) -> bool {
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let ((a, kind), (b, other)) = (wide(network), wide(ip));
    let differ = (a ^ b).checked_shr(128 - u32::from(bits)).unwrap_or(0);
    kind == other && differ == 0
}

impl Test {
    fn takes(&self, socket: &Socket) -> bool {
        let end = |side| match side {
            Side::Local => socket.local,
            Side::Peer => socket.peer,
        };
        match self {
            Test::Any(all) => all.iter().any(|test| test.takes(socket)),
            Test::All(all) => all.iter().all(|test| test.takes(socket)),
            Test::Not(test) => !test.takes(socket),
            Test::Port(side, comparison, port) => comparison.holds(end(*side).port(), *port),
            Test::Place(side, network, port) => {
                let end = end(*side);
                let near = network.is_none_or(|(ip, bits)| contains(ip, bits, end.ip()));
                near && port.is_none_or(|port| port == end.port())
            }
        }
    }
}

impl Comparison {
    fn holds(self, a: u16, b: u16) -> bool {
        match self {
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b,
            Comparison::Less => a < b,
            Comparison::Greater => a > b,
            Comparison::AtMost => a <= b,
            Comparison::AtLeast => a >= b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> Socket {
        let text = "gannet-listing 1\nhost network=n\n\
            socket kind=tcp state=ESTAB local=10.1.2.3:80 peer=10.9.9.9:40000 way=direct\n";
        super::super::socket::read_all([text].into_iter()).remove(0)
    }

    #[test]
    fn filters_of_ss() {
        for (filter, takes) in [
            ("", true),
            ("state established", true),
            ("state listening", false),
            ("exclude time-wait", true),
            ("exclude connected", false),
            ("state all exclude established", false),
            ("state synchronized", true),
            ("state bucket", false),
            ("state listening state connected sport = :80", true),
            ("sport 80", true),
            ("sport = :81", false),
            ("dport >= :1024 and dport lt 40001", true),
            ("not sport = :80", false),
            ("( sport = :81 or dport = :40000 )", true),
            ("(sport = :81 or dport = :1) or ! src 10.2.0.0/16", true),
            ("src 10.0.0.0/8 dst 10.9.9.9:40000", true),
            ("dst 10.9.9.9:40001", false),
            ("dst :40000", true),
            ("src 10.1.2.3", true),
            ("src 0.0.0.0/0", true),
            ("src fd00::/8", false),
            ("dst *", true),
        ] {
            let parsed = Filter::parse(&[filter.to_owned()]).unwrap();
            assert_eq!(parsed.takes(&socket()), takes, "{filter:?}");
        }
    }

    #[test]
    fn nonsense_has_three_lines() {
        let deep = "( ".repeat(1000);
        for filter in [
            "state",
            "state wet",
            "sport",
            "sport = x",
            "src 10.0.0.0/33",
            "( sport 80",
            ")",
            "sport 80 and",
            "or",
            "hello",
            &deep,
        ] {
            let problem = Filter::parse(&[filter.to_owned()]).unwrap_err();
            assert_eq!(problem.to_string().lines().count(), 3, "{filter:?}");
        }
    }
}
