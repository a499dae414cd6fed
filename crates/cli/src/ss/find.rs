//! Which carriers run, and what they list. A carrier has a name in the private directory of its
//! user, where this user's are found; it answers its own user and root. Root is shown those of all
//! users, by the kernel's table of Unix sockets.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use gannet_bench::Problem;
use gannet_local::network::{self, Network};
use gannet_local::service::{self, Question};
use rustix::fs::fcntl_get_seals;
use rustix::io::Errno;

use super::gone::{self, Gone};
use super::socket::{self, Socket};

/// Carriers that are asked at a time.
const AT_ONCE: usize = 64;
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
    let carriers = carriers().map_err(|error| {
        let hint = "XDG_RUNTIME_DIR, a private directory";
        Problem::new("cannot look for programs", error, hint)
    })?;
    let gone = gone::programs(|| {
        let now = self::carriers().unwrap_or_default();
        now.into_iter().map(|(_, host)| host).collect()
    });
    let listings = ask_all(&carriers.into_iter().collect::<Vec<_>>());
    let sockets = socket::read_all(listings.iter().map(String::as_str));
    Ok(Found { sockets, gone })
}

/// What all of them list. They are asked at once, so that those that do not answer, since they were
/// stopped, take the time of one.
fn ask_all(carriers: &[(Vec<u8>, u64)]) -> Vec<String> {
    let mut listings = Vec::new();
    for some in carriers.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let asked = some.iter().map(|carrier| scope.spawn(move || ask(carrier)));
            let asked: Vec<_> = asked.collect();
            let answers = asked.into_iter().filter_map(|one| one.join().ok());
            listings.extend(answers.flatten());
        });
    }
    listings
}

/// Directory of the network, and number, of every program.
fn carriers() -> io::Result<BTreeSet<(Vec<u8>, u64)>> {
    // Names of other programs need not be text.
    let Ok(table) = std::fs::read("/proc/net/unix") else {
        // All of this user's, of whatever network namespace.
        return of_this_user();
    };
    let running = in_table(&String::from_utf8_lossy(&table));
    if rustix::process::geteuid().is_root() {
        return Ok(running);
    }
    let ours = of_this_user()?;
    Ok(running.intersection(&ours).cloned().collect())
}

fn of_this_user() -> io::Result<BTreeSet<(Vec<u8>, u64)>> {
    let mut all = BTreeSet::new();
    for network in network::all()? {
        let hosts = network.names();
        let hosts = hosts.iter().filter_map(|name| number_of(name));
        all.extend(hosts.map(|host| (network.path().to_vec(), host)));
    }
    Ok(all)
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name
        .strip_prefix("h-")
        .filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

fn in_table(table: &str) -> BTreeSet<(Vec<u8>, u64)> {
    let read = |line: &str| {
        let (_, path) = line.split_once(" /")?;
        let (directory, name) = path.trim_end().rsplit_once('/')?;
        Some((format!("/{directory}").into_bytes(), number_of(name)?))
    };
    table.lines().filter_map(read).collect()
}

/// Carriers of other users do not answer, nor do those that have just ended.
fn ask((path, host): &(Vec<u8>, u64)) -> Option<String> {
    // Only the owner of the directory may answer there.
    let uid = std::fs::symlink_metadata(OsStr::from_bytes(path))
        .ok()?
        .uid();
    let network = Network::at(path, uid, 0)?;
    match service::ask(&network, *host, &Question::List) {
        Ok(answer) => read(answer.file?),
        Err(Errno::AGAIN) => {
            eprintln!("warning: the carrier of program {host:016x} does not answer");
            None
        }
        Err(_) => None,
    }
}

/// The text of a memory file; none of anything else, which might never end, or never begin.
fn read(file: OwnedFd) -> Option<String> {
    fcntl_get_seals(&file).ok()?;
    let mut bytes = Vec::new();
    File::from(file)
        .take(LONGEST)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn a_listing_is_read_from_memory_only() {
        let file = memfd_create("listing", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, b"gannet\xff").unwrap();
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
        assert_eq!(read(file).unwrap(), "gannet\u{fffd}");
        // Its reader would wait for as long as the other end is open.
        let (pipe, _open) = std::io::pipe().unwrap();
        assert_eq!(read(pipe.into()), None);
        let endless = File::open("/dev/zero").unwrap();
        assert_eq!(read(endless.into()), None);
    }

    #[test]
    fn carriers_are_told_from_other_sockets() {
        let start = "0: 00000002 00000000 00010000 0005 01 7";
        let table = format!(
            "Num RefCount Protocol Flags Type St Inode Path\n\
            {start} /run/gannet/.00000000000000aa/h-00000000000000bb\n\
            {start} /run/gannet/.00000000000000aa/h-00000000000000bb\n\
            {start} /run/gannet/.00000000000000aa/g-00000000000000bb\n\
            {start} @gannet/h/00000000000000bb\n\
            {start} /run/gannet/x/h-bb\n\
            {start} /run/socket\n\
            {start}\n"
        );
        let path = b"/run/gannet/.00000000000000aa".to_vec();
        assert_eq!(in_table(&table), BTreeSet::from([(path, 0xbb)]));
    }
}
