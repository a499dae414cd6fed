//! The handler of these tests is what the library's is: it sends a thread to the way out.

use super::*;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::sync::Once;

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let rip = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    match way_out(*rip as usize) {
        Some(out) => *rip = out as i64,
        // SAFETY: ends the process.
        None => unsafe { libc::abort() },
    }
}

fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: an action of zeros, with a handler of the right kind.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    });
}

/// Two pages, the second of which nothing may be done with.
fn before_a_hole() -> *mut u8 {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory; its second half is not used.
    unsafe {
        let first =
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), 2 * PAGE, prot, MapFlags::PRIVATE)
                .unwrap();
        rustix::mm::mprotect(first.byte_add(PAGE), PAGE, MprotectFlags::empty()).unwrap();
        first.cast()
    }
}

/// Against the naive copy, at every length and alignment that a branch depends on.
#[test]
fn copies_are_exact_and_touch_nothing_else() {
    begin();
    let from: Vec<u8> = (0..3 * PAGE).map(|n| (n * 7 + n / 251) as u8).collect();
    let lens = (0..=200).chain([255, 256, 257, 511, 1023, 1024, 1025, 2047, 4096, 8000]);
    for len in lens {
        for (to_at, from_at) in [(1, 1), (2, 17), (33, 5), (64, 64)] {
            let mut to = vec![0xaa; len + 130];
            let mut expected = to.clone();
            expected[to_at..to_at + len].copy_from_slice(&from[from_at..from_at + len]);
            // SAFETY: both are as long.
            let done = unsafe { copy(to[to_at..].as_mut_ptr(), from[from_at..].as_ptr(), len) };
            assert_eq!(done, Ok(()));
            assert!(to == expected, "{len} bytes from {from_at} to {to_at}");
        }
    }
}

#[test]
fn a_hole_is_an_error_from_either_side_at_every_length() {
    begin();
    let page = before_a_hole();
    let mut own = vec![1u8; 2 * PAGE];
    for len in (1..=130).chain([1000, 1024, 2000, PAGE]) {
        for inside in [0, 1, len / 2, len - 1].map(|n| n.min(len - 1)) {
            // SAFETY: `inside` bytes are in the page, and the others nowhere.
            let (read, written) = unsafe {
                let at = page.add(PAGE - inside);
                (copy(own.as_mut_ptr(), at, len), copy(at, own.as_ptr(), len))
            };
            assert_eq!((read, written), (Err(Errno::FAULT), Err(Errno::FAULT)));
        }
        // SAFETY: the end of the page.
        let last = unsafe { copy(own.as_mut_ptr(), page.add(PAGE - len), len) };
        assert_eq!(last, Ok(()));
    }
}

#[test]
fn touching_tells_what_is_there() {
    begin();
    let page = before_a_hole();
    let bad = Err(Errno::FAULT);
    let no = std::ptr::null_mut::<u8>();
    assert_eq!(check_to_read(page, PAGE), Ok(()));
    assert_eq!(check_to_write(page, PAGE), Ok(()));
    assert_eq!(check_to_read(page, PAGE + 1), bad);
    assert_eq!(check_to_write(page, PAGE + 1), bad);
    assert_eq!(check_to_read(no, 1), bad);
    assert_eq!(check_to_read(no, 0), Ok(()));
    for address in [0xdead_0000, 1 << 47, usize::MAX - 8, usize::MAX, 1 << 63] {
        let place = no.with_addr(address);
        assert_eq!(check_to_read(place, 1), bad, "{address:x}");
        assert_eq!(check_to_write(place, 8), bad, "{address:x}");
    }
    // SAFETY: the mapping is the test's own.
    unsafe { rustix::mm::mprotect(page.cast(), PAGE, MprotectFlags::READ) }.unwrap();
    assert_eq!(check_to_read(page, PAGE), Ok(()));
    assert_eq!(check_to_write(page, 1), bad);
}

/// What was there stays, with other threads that count there.
#[test]
fn touching_to_write_changes_nothing() {
    begin();
    let count = std::sync::atomic::AtomicU64::new(0);
    let at = count.as_ptr().addr();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100_000 {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let place = std::ptr::null_mut::<u8>().with_addr(at);
        let touched = (0..100_000).all(|_| check_to_write(place, 8).is_ok());
        assert!(touched);
    });
    assert_eq!(count.into_inner(), 100_000);
}
