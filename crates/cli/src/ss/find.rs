//! Which carriers run, and what they list. A carrier listens under a name that the kernel shows to
//! everybody; it answers its own user and root.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;

use gannet_bench::Problem;
use gannet_local::name::Network;
use gannet_local::service::{self, Question};

use super::gone::{self, Gone};
use super::socket::{self, Socket};

/// Longest listing that is read, bytes.
const LONGEST: u64 = 256 << 20;

/// What there is.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) sockets: Vec<Socket>,
    pub(super) gone: Vec<Gone>,
}

/// The sockets of all programs of this user.
pub(super) fn look() -> Result<Found, Problem> {
    let table = || std::fs::read_to_string("/proc/net/unix");
    let carriers = carriers(&table().map_err(|error| {
        let hint = "mount /proc, as in any container";
        Problem::new("cannot look for programs", error, hint)
    })?);
    let gone = gone::programs(|| {
        let now = self::carriers(&table().unwrap_or_default());
        now.into_iter().map(|(_, host)| host).collect()
    });
    let listings = carriers.into_iter().filter_map(ask);
    let sockets = listings.flat_map(|text| socket::read(&text)).collect();
    Ok(Found { sockets, gone })
}

/// Network and number of every program, from the kernel's table of Unix sockets.
fn carriers(table: &str) -> BTreeSet<(u64, u64)> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let read = |line: &str| {
        let (_, name) = line.split_once(" @gannet/")?;
        let (network, host) = name.trim_end().split_once("/h/")?;
        Some((number(network)?, number(host)?))
    };
    table.lines().filter_map(read).collect()
}

/// Carriers of other users do not answer, nor do those that have just ended.
fn ask((network, host): (u64, u64)) -> Option<String> {
    let answer = service::ask(Network(network), host, Question::List).ok()?;
    let mut text = String::new();
    let file = File::from(answer.file?);
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_are_told_from_other_sockets() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
            0: 00000002 00000000 00010000 0005 01 7 @gannet/00000000000000aa/h/00000000000000bb\n\
            0: 00000003 00000000 00000000 0005 03 8 @gannet/00000000000000aa/h/00000000000000bb\n\
            0: 00000002 00000000 00010000 0001 01 9 @gannet/00000000000000aa/g/00000000000000bb\n\
            0: 00000002 00000000 00010000 0001 01 9 @gannet/x/h/y\n\
            0: 00000002 00000000 00010000 0001 01 9 /run/socket\n";
        assert_eq!(carriers(table), BTreeSet::from([(0xaa, 0xbb)]));
    }
}
