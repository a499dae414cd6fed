//! S6: handshakes that break the rules. Each costs a count; the next honest peer is served.

use crate::raw::{LAYOUT, bell, hello, knock, memory, say, seals};
use crate::support::{Other, accept, descriptors, network, now, options, until};
use gannet_drivers::channel::{Fault, Options};
use gannet_drivers::{Connector, Directory, Listener};
use gannet_link::{Layout, LinkState};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

#[test]
fn s6_bad_handshakes_cost_a_count_and_no_descriptor() {
    let (runtime, _directory) = network();
    Other::start("be_abused", runtime.path()).finish();
}

#[test]
fn s6_ten_thousand_connects() {
    let (runtime, _directory) = network();
    Other::start("be_flooded", runtime.path()).finish();
}

/// What a bad side says, and what is attached.
struct Case {
    fault: Fault,
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

fn case(fault: Fault, bytes: Vec<u8>, fds: Vec<OwnedFd>) -> Case {
    Case { fault, bytes, fds }
}

fn good_memory() -> OwnedFd {
    memory(LAYOUT.bytes(), seals())
}

fn cases() -> Vec<Case> {
    let good = hello("evil", LAYOUT);
    let edited = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let huge = Layout {
        blocks: 1 << 19,
        ..LAYOUT
    };
    let two = || vec![good_memory(), bell()];
    let many = |n: usize| (0..n).map(|_| bell()).collect::<Vec<_>>();
    let file = std::fs::File::open("/dev/zero").unwrap();
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let without = |missing: SealFlags| memory(LAYOUT.bytes(), seals() & !missing);
    vec![
        case(Fault::Magic, b"hello".to_vec(), two()),
        case(Fault::Magic, vec![0; 100], vec![]),
        case(Fault::Length, vec![b'x'; 65_536], two()),
        case(Fault::Length, [&good[..], b"more"].concat(), two()),
        case(Fault::Length, good[..40].to_vec(), two()),
        case(Fault::Version, edited(8, 9), two()),
        case(Fault::Layout, edited(20, 5), two()),
        case(Fault::Name, edited(45, b'/'), two()),
        case(Fault::Name, hello("main", LAYOUT), two()),
        case(Fault::Descriptors, good.clone(), vec![]),
        case(Fault::Descriptors, good.clone(), vec![good_memory()]),
        case(Fault::Descriptors, good.clone(), many(3)),
        case(Fault::Descriptors, good.clone(), many(253)),
        case(Fault::Doorbell, good.clone(), vec![bell(), good_memory()]),
        case(Fault::Doorbell, good.clone(), vec![good_memory(), event]),
        case(Fault::Memory, good.clone(), vec![file.into(), bell()]),
        case(Fault::Memory, good.clone(), vec![bell(), bell()]),
        case(Fault::Memory, hello("evil", huge), two()),
        case(
            Fault::Memory,
            good.clone(),
            vec![memory(4096, seals()), bell()],
        ),
        case(
            Fault::Memory,
            good.clone(),
            vec![without(SealFlags::SHRINK), bell()],
        ),
        case(
            Fault::Memory,
            good.clone(),
            vec![without(SealFlags::GROW), bell()],
        ),
        case(
            Fault::Memory,
            good.clone(),
            vec![without(SealFlags::FUTURE_WRITE), bell()],
        ),
    ]
}

pub(crate) fn be_abused(directory: &Directory) {
    let mut listener = Listener::bind(directory, "main", &options()).unwrap();
    let before = descriptors();
    for Case { fault, bytes, fds } in cases() {
        let count = listener.faults().get(fault);
        let socket = knock(directory, "main").unwrap();
        let attached: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        say(&socket, &bytes, &attached);
        let text = format!(
            "{fault:?}, {} bytes, {} descriptors",
            bytes.len(),
            fds.len()
        );
        assert!(listener.accept_ready(now()).unwrap().is_none(), "{text}");
        assert_eq!(
            listener.faults().get(fault),
            count + 1,
            "{text}: {:?}",
            listener.faults()
        );
        assert_eq!(listener.handshakes(), 0);
        let mut answer = [0; 200];
        let (_, n) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT).unwrap();
        assert!(n > 0, "{text}: the reason is told");
    }
    assert_eq!(descriptors(), before, "descriptors of bad sides stay open");
    honest_peer_is_served(directory, &mut listener);
}

fn honest_peer_is_served(directory: &Directory, listener: &mut Listener) {
    let mut connector = Connector::start(directory, "good", "main", &options(), now()).unwrap();
    let mut end = accept(listener);
    let other = until("a channel", || connector.progress(now()).unwrap());
    assert_eq!(end.driver.peer_name(), "good");
    drop(other);
    assert_eq!(end.driver.check_peer(), LinkState::Gone);
}

pub(crate) fn be_flooded(directory: &Directory) {
    let mut listener = Listener::bind(directory, "main", &options()).unwrap();
    let before = descriptors();
    for _ in 0..10_000 {
        drop(knock(directory, "main").unwrap());
        assert!(listener.accept_ready(now()).unwrap().is_none());
        assert!(listener.handshakes() <= options().handshakes_max);
    }
    assert_eq!(listener.faults().get(Fault::Closed), 10_000);
    assert_eq!(descriptors(), before);
    honest_peer_is_served(directory, &mut listener);
}

/// Sides that connect and say nothing hold their places only until their time is up.
#[test]
fn s6_stalled_sides_time_out() {
    let (_runtime, directory) = network();
    let options = Options {
        handshake_timeout: Duration::from_secs(5),
        ..options()
    };
    let mut listener = Listener::bind(&directory, "main", &options).unwrap();
    let stalled: Vec<_> = (0..40)
        .map(|_| knock(&directory, "main").unwrap())
        .collect();
    let start = now();
    assert!(listener.accept_ready(start).unwrap().is_none());
    assert_eq!(listener.handshakes(), options.handshakes_max);
    let mut at = start;
    while listener.faults().get(Fault::TimedOut) < 40 {
        // Without a deadline there are still some in the queue, and the listener is readable.
        at = listener.next_deadline().unwrap_or(at);
        assert!(listener.accept_ready(at).unwrap().is_none());
    }
    assert!(at.saturating_duration_since(start) <= 4 * options.handshake_timeout);
    assert!(listener.next_deadline().is_none());
    drop(stalled);
    honest_peer_is_served(&directory, &mut listener);
}

/// A listener that wants no more handshakes is not readable for want of accepting.
#[test]
fn s6_a_full_listener_does_not_keep_its_loop_awake() {
    let (_runtime, directory) = network();
    let mut listener = Listener::bind(&directory, "main", &options()).unwrap();
    let _stalled: Vec<_> = (0..40)
        .map(|_| knock(&directory, "main").unwrap())
        .collect();
    assert!(listener.accept_ready(now()).unwrap().is_none());
    let fds = [listener.as_fd()];
    assert!(!gannet_drivers::wait::sleep(&fds, Some(Duration::ZERO)).unwrap());
}

/// The reverse: a listener that breaks the rules costs the connector an error.
#[test]
fn s6_bad_listeners_cost_an_error() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket};
    let (_runtime, directory) = network();
    let server = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let path = directory.path().join("evil.sock");
    bind(&server, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&server, 64).unwrap();
    for Case { fault, bytes, fds } in cases() {
        let mut connector =
            Connector::start(&directory, "main", "evil", &options(), now()).unwrap();
        let socket = accept(&server).unwrap();
        let attached: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        say(&socket, &bytes, &attached);
        let error = connector.progress(now()).err().unwrap();
        assert_eq!(error.kind(), fault.kind(), "{error}");
        assert!(error.to_string().contains("\"evil\""), "{error}");
    }
    // Under another name than the one that was asked for.
    let mut connector = Connector::start(&directory, "main", "evil", &options(), now()).unwrap();
    let socket = accept(&server).unwrap();
    let (file, bell) = (good_memory(), bell());
    say(
        &socket,
        &hello("good", LAYOUT),
        &[file.as_fd(), bell.as_fd()],
    );
    assert_eq!(
        connector.progress(now()).err().unwrap().kind(),
        ErrorKind::InvalidData
    );
}

/// S7: whoever receives a memory file cannot shrink it, punch holes into it or write it.
#[test]
fn s7_the_received_file_can_only_be_read() {
    use rustix::fs::{FallocateFlags, fallocate, ftruncate};
    let (_runtime, directory) = network();
    let mut listener = Listener::bind(&directory, "main", &options()).unwrap();
    let socket = knock(&directory, "main").unwrap();
    let (file, bell) = (good_memory(), bell());
    say(
        &socket,
        &hello("raw", LAYOUT),
        &[file.as_fd(), bell.as_fd()],
    );
    let _end = accept(&mut listener);
    let (theirs, _bell) = crate::raw::answer(&socket);
    assert_eq!(ftruncate(&theirs, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(&theirs, 1 << 30), Err(Errno::PERM));
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&theirs, hole, 0, 1 << 20), Err(Errno::PERM));
    assert_eq!(rustix::io::pwrite(&theirs, b"x", 0), Err(Errno::PERM));
    assert_eq!(fcntl_add_seals(&theirs, SealFlags::WRITE), Err(Errno::PERM));
    assert!(fcntl_get_seals(&theirs).unwrap().contains(seals()));
}

/// Only root can play another user.
#[test]
fn s6_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let (runtime, directory) = network();
    let mut listener = Listener::bind(&directory, "main", &options()).unwrap();
    // The directory alone keeps others out; here it is opened to see the next door.
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    open(runtime.path());
    open(&runtime.path().join("gannet"));
    open(directory.path());
    open(&directory.path().join("main.sock"));
    let path = directory.path().to_path_buf();
    let stranger = std::thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(65_534);
        // This thread only; it ends right after.
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let directory = path.join("main.sock");
        crate::raw::knock_at(&directory).unwrap()
    });
    let socket = stranger.join().unwrap();
    assert!(listener.accept_ready(now()).unwrap().is_none());
    assert_eq!(listener.faults().get(Fault::User), 1);
    let mut answer = [0; 200];
    let (_, n) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT).unwrap();
    assert!(n > 0, "the reason is told");
}
