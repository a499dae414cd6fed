//! Programs of Go with cgo: the C library is in the process, and this library, but Go's runtime
//! makes its system calls itself. It makes them in one place (`gannet_local::golang`), and that is
//! changed here before the program begins: a jump to `golang/entry.rs`.
//!
//! ```text
//! Syscall6: jump -> foreign (a number, or a descriptor, that is not ours): the system call itself
//!                -> ours: on a stack of the library's, the function of that name (golang/call.rs)
//! rawVforkSyscall: jump -> what a fork needs, before and after it (golang/fork.rs)
//! ```
//!
//! * A goroutine's stack is small, and may not be used beyond what Go's linker knows of: nothing is
//!   put on it. Each thread that needs it gets a stack of ours.
//! * Go's signal handlers run on a stack of their own. What they interrupt here is "not Go code" to
//!   them: never a place to preempt a goroutine at, nor one to unwind from.
//! * A handler that comes while this thread is inside, and makes a call, has it made by the kernel.

mod call;
mod entry;
mod fork;

use gannet_local::golang::{self, CALL, FORK, Sites};
use libc::{c_int, c_void};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::MprotectFlags;
use std::fmt::Write;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

/// Takes the program's system calls over, if it is one of Go. Called once, before `main`, while
/// there is no other thread.
pub(crate) fn take_over() {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(c"/proc/self/exe", flags, Mode::empty()) else {
        return;
    };
    let Ok(sites) = golang::find(&file.as_fd()) else {
        return;
    };
    if let Some(Err(error)) = change(sites) {
        say_unchanged(error);
    }
}

/// The places in memory are what they are in the file? `None` if they are not.
fn change(sites: Sites) -> Option<Result<(), Errno>> {
    let image = Image::of_program();
    let call = image.find(sites.call, &CALL)?;
    let fork = match sites.fork {
        Some(fork) => Some(image.find(fork, &FORK)?),
        None => None,
    };
    entry::BEHIND.store(call + CALL.len(), Relaxed);
    let mut patches = vec![Patch::new(call, entry::call as *const () as usize)];
    if let Some(fork) = fork {
        // Behind the system call, which is made elsewhere.
        entry::BEHIND_FORK.store(fork + FORK.len() - 2, Relaxed);
        patches.push(Patch::new(fork, entry::fork as *const () as usize));
    }
    let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    let allowed = patches.iter().try_for_each(|patch| patch.protect(writable));
    if allowed.is_ok() {
        patches.iter().for_each(Patch::write);
    }
    let usual = MprotectFlags::READ | MprotectFlags::EXEC;
    for patch in &patches {
        let _ = patch.protect(usual);
    }
    Some(allowed)
}

/// A jump that takes the place of 14 bytes.
struct Patch {
    at: usize,
    bytes: [u8; CALL.len()],
}

impl Patch {
    fn new(at: usize, to: usize) -> Patch {
        // jmp [rip + 0], and the address.
        let mut bytes = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if let Some(place) = bytes.last_chunk_mut() {
            *place = to.to_le_bytes();
        }
        Patch { at, bytes }
    }

    fn protect(&self, flags: MprotectFlags) -> Result<(), Errno> {
        const PAGE: usize = 4096;
        let from = self.at & !(PAGE - 1);
        let len = (self.at + self.bytes.len()).next_multiple_of(PAGE) - from;
        // SAFETY: pages of the program's code, which no thread executes yet; it stays executable.
        unsafe { rustix::mm::mprotect(from as *mut c_void, len, flags) }
    }

    fn write(&self) {
        // SAFETY: the bytes that were found there were made writable, and nobody executes them yet.
        unsafe {
            let place = self.at as *mut u8;
            std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), place, self.bytes.len());
        }
    }
}

/// The program's own code in memory: what is added to the file's addresses, and where it lies.
#[derive(Default)]
struct Image {
    bias: usize,
    code: Vec<(usize, usize)>,
}

impl Image {
    fn of_program() -> Image {
        let mut image = Image::default();
        // SAFETY: `visit` is made for it.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut image).cast()) };
        image
    }

    /// Where the file's `address` is, if these bytes are there.
    fn find(&self, address: u64, bytes: &[u8]) -> Option<usize> {
        let at = self.bias.wrapping_add(address as usize);
        let end = at.checked_add(bytes.len())?;
        let inside = |(from, to): &(usize, usize)| *from <= at && end <= *to;
        if !self.code.iter().any(inside) {
            return None;
        }
        // SAFETY: within code that the loader has mapped.
        let there = unsafe { std::slice::from_raw_parts(at as *const u8, bytes.len()) };
        (there == bytes).then_some(at)
    }
}

/// Called for the program first, and no further.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    image: *mut c_void,
) -> c_int {
    // SAFETY: as `dl_iterate_phdr` promises; the other is `of_program`'s.
    let (info, image) = unsafe { (&*info, &mut *image.cast::<Image>()) };
    image.bias = info.dlpi_addr as usize;
    for n in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: so many are there.
        let header = unsafe { &*info.dlpi_phdr.add(n) };
        let executable = header.p_flags & (libc::PF_X | libc::PF_R) == libc::PF_X | libc::PF_R;
        if header.p_type == libc::PT_LOAD && executable {
            let from = image.bias.wrapping_add(header.p_vaddr as usize);
            let to = from.saturating_add(header.p_filesz as usize);
            image.code.push((from, to));
        }
    }
    1
}

/// The program goes on with the kernel's sockets; it must not be silent about it.
fn say_unchanged(error: Errno) {
    if std::env::var_os("GANNET_QUIET").is_some() {
        return;
    }
    let mut text = String::new();
    let _ = write!(
        text,
        "gannet: this program of Go is not carried\n\
         why: its code in memory may not be changed ({error})\n\
         try: without what forbids it (SELinux's execmem, PR_SET_MDWE)\n"
    );
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
