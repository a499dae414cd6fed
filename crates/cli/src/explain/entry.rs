//! What is known of one code, and the catalogue of all.

use std::borrow::Cow;

use serde::Serialize;

use super::{counter, errno, program, socket};

/// What is known of one code.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    /// The code, as messages and counters have it.
    pub(super) code: Cow<'static, str>,
    pub(super) kind: Kind,
    /// The number in `errno.h`, or an exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) number: Option<i32>,
    /// What it means here.
    pub(super) meaning: Cow<'static, str>,
    /// Usual causes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) causes: &'static str,
    #[serde(rename = "try")]
    pub(super) hint: &'static str,
}

/// What has such a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A call that failed.
    Errno,
    /// A program that is not carried.
    Program,
    /// A socket that is left to the kernel.
    Socket,
    /// The end of `gannet run`.
    ExitStatus,
    /// Packets thrown away.
    Drop,
    /// Something that TCP counts.
    TcpCount,
    /// A slot of shared memory that is not believed.
    SlotFault,
}

impl Kind {
    pub(super) const ALL: [(Kind, &'static str); 7] = [
        (Kind::Errno, "errors of calls"),
        (Kind::ExitStatus, "exit statuses of gannet run"),
        (Kind::Program, "why a program stays with the kernel"),
        (Kind::Socket, "why a socket stays with the kernel"),
        (Kind::Drop, "packets thrown away"),
        (Kind::TcpCount, "what TCP counts"),
        (Kind::SlotFault, "shared memory that is not believed"),
    ];

    pub(super) fn words(self) -> &'static str {
        let found = Kind::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("", |(_, words)| words)
    }
}

/// Everything there is.
pub(super) fn catalogue() -> Vec<Entry> {
    let mut all = errno::entries();
    all.extend(program::entries());
    all.extend(socket::entries());
    all.extend(counter::entries());
    all
}

/// The entries of `code`: a name, whatever its case and dashes, or a number.
pub(super) fn look_up(catalogue: &[Entry], code: &str) -> Vec<Entry> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('_', "-");
    let number: Option<i32> = code.trim_start_matches('-').parse().ok();
    let wanted = plain(code);
    let fits = |entry: &&Entry| match number {
        Some(number) => entry.number == Some(number),
        None => plain(&entry.code) == wanted,
    };
    catalogue.iter().filter(fits).cloned().collect()
}

/// Whether `code` is explained: for the tests of those who give it.
#[cfg(test)]
pub(crate) fn is_known(code: &str) -> bool {
    !look_up(&catalogue(), code).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_says_something_and_can_be_found() {
        let all = catalogue();
        for entry in &all {
            assert!(!entry.meaning.is_empty(), "{entry:?}");
            assert!(!entry.hint.is_empty(), "{entry:?}");
            assert!(
                look_up(&all, &entry.code)
                    .iter()
                    .any(|e| e.kind == entry.kind)
            );
            let twice = |e: &&Entry| e.code == entry.code && e.kind == entry.kind;
            assert_eq!(all.iter().filter(twice).count(), 1, "{}", entry.code);
        }
        for (kind, words) in Kind::ALL {
            assert!(all.iter().any(|entry| entry.kind == kind), "{words}");
        }
    }

    #[test]
    fn codes_are_found_by_name_and_number() {
        let all = catalogue();
        let code = |text: &str| look_up(&all, text).first().map(|e| e.code.to_string());
        for (text, found) in [
            ("ECONNREFUSED", Some("ECONNREFUSED")),
            ("econnrefused", Some("ECONNREFUSED")),
            ("111", Some("ECONNREFUSED")),
            ("-111", Some("ECONNREFUSED")),
            ("EWOULDBLOCK", None),
            ("126", Some("exit-126")),
            ("ip_checksum", Some("ip_checksum")),
            ("ip-checksum", Some("ip_checksum")),
            ("STATIC_PROGRAM", Some("static-program")),
            ("99999", None),
            ("", None),
        ] {
            assert_eq!(code(text).as_deref(), found, "{text}");
        }
        // one name, two counters
        assert_eq!(look_up(&all, "no_memory").len(), 2);
    }
}
