//! What a carrier leaves behind when it fails: its standard error, in a file in memory that whoever
//! started it keeps, and a line for the system's log, for when nobody is left who keeps it.

use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::panic::PanicHookInfo;
use std::process::ExitStatus;

/// Bytes of the file: what a process that fails has to say, and no more however often it says it.
const ROOM: u64 = 16 << 10;
/// Longest reason that people are told, characters.
const LONGEST: usize = 400;
/// Where the system's log takes lines (syslog(3)).
const SYSTEM_LOG: &str = "/dev/log";
/// `LOG_DAEMON | LOG_ERR`, as RFC 3164 section 4.1.1 has it.
const PRIORITY: u8 = 3 << 3 | 3;

/// A file for a carrier's standard error. It never grows: what does not fit is refused.
pub(crate) fn file() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("gannet-carrier-errors", flags)?;
    ftruncate(&file, ROOM)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// What was written into the file, lines joined.
pub(crate) fn read(file: &OwnedFd) -> String {
    let mut bytes = vec![0; ROOM as usize];
    let n = rustix::io::pread(file, &mut bytes[..], 0).unwrap_or(0);
    let text = bytes.get(..n).unwrap_or_default();
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let joined = lines.collect::<Vec<_>>().join("; ");
    joined.chars().take(LONGEST).collect()
}

/// Why a carrier has ended, in one line: how, and what it said.
pub(crate) fn reason(status: ExitStatus, said: &str) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("it was ended by {}", signal_name(signal)),
        (None, Some(code)) => format!("it ended with status {code}"),
        (None, None) => "it ended".to_owned(),
    };
    match said {
        "" => how,
        said => format!("{how}: {said}"),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGKILL => "SIGKILL (somebody, or no memory was left: dmesg)",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// From now on a panic of any thread ends the process, and says why: half a carrier would leave
/// programs waiting for the other half.
pub(crate) fn end_with_every_panic() {
    std::panic::set_hook(Box::new(|info| {
        let text = panic_text(info);
        let _ = writeln!(std::io::stderr(), "{text}");
        tell_system(&text);
        std::process::abort();
    }));
}

fn panic_text(info: &PanicHookInfo<'_>) -> String {
    let what = info.payload_as_str().unwrap_or("no reason given");
    match info.location() {
        Some(place) => format!("panicked at {}:{}: {what}", place.file(), place.line()),
        None => format!("panicked: {what}"),
    }
}

fn tell_system(text: &str) {
    let line = format!("<{PRIORITY}>gannet-carrier[{}]: {text}", std::process::id());
    // A machine without such a log has nobody to tell.
    let Ok(socket) = UnixDatagram::unbound() else {
        return;
    };
    let _ = socket.set_nonblocking(true);
    let _ = socket.send_to(line.as_bytes(), SYSTEM_LOG);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_file_takes_so_much_and_no_more() {
        let file = file().unwrap();
        assert_eq!(read(&file), "");
        let mut writer = File::from(file.try_clone().unwrap());
        writer.write_all(b"one\n\n  two\n").unwrap();
        assert_eq!(read(&file), "one; two");
        let page = vec![b'x'; 4096];
        let written = (0..10).filter(|_| writer.write_all(&page).is_ok()).count();
        assert!(written < 5, "{written} pages");
        assert_eq!(read(&file).len(), LONGEST);
    }

    #[test]
    fn how_it_ended_and_what_it_said() {
        let killed = ExitStatus::from_raw(libc::SIGSEGV);
        assert_eq!(reason(killed, ""), "it was ended by SIGSEGV");
        let left = ExitStatus::from_raw(3 << 8);
        assert_eq!(reason(left, "no room"), "it ended with status 3: no room");
        let real_time = ExitStatus::from_raw(40);
        assert_eq!(reason(real_time, ""), "it was ended by signal 40");
    }
}
