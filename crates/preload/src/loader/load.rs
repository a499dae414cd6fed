//! The loader's work: a static program into memory as `execve` would do it, and its beginning.

use super::auxiliary::Block;
use super::take_over::read_head;
use super::variables::{FILE, NAME};
use crate::border::{self, Hosted};
use gannet_image::{HEAD, Image, Segment};
use libc::{c_char, c_int, c_void};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::arch::naked_asm;
use std::ffi::{CStr, CString};
use std::ops::Range;

const PAGE: usize = 4096;
/// The loader's file, beside this library.
const LOADER: &[u8] = b"gannet-loader";

/// Called by the loader's `main`: begins the program that the environment names. Returns an exit
/// status where it cannot be begun at all.
///
/// # Safety
/// `argv` is what the C library has handed to `main`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gannet_load(argv: *mut *mut c_char) -> c_int {
    // SAFETY: as the caller says.
    let block = unsafe { Block::of(argv) };
    let Some(path) = block.variable(FILE) else {
        say(
            "there is no program to load",
            c"",
            "it is started by `gannet run`",
        );
        return 127;
    };
    let why = match prepare(path) {
        // SAFETY: the program is in memory, and this process has one thread.
        Ok(program) => unsafe { begin(&program, block.variable(NAME).unwrap_or(path), block) },
        Err(why) => why,
    };
    // SAFETY: the arguments and the environment as they came.
    unsafe { leave_to_kernel(path, block, &why) }
}

/// A program in memory.
struct Program {
    image: Image,
    /// What is added to the file's addresses.
    shift: usize,
    /// The full path of its file.
    path: CString,
}

fn prepare(path: &CStr) -> Result<Program, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let say = |error: rustix::io::Errno| error.to_string();
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(say)?;
    let mut head = [0; HEAD];
    let (head, size) = read_head(&file, &mut head).ok_or("it cannot be read")?;
    if gannet_image::script(head).is_some() {
        // The program's own `execve` follows scripts; so does this.
        return Err(SCRIPT.to_owned());
    }
    let image = Image::parse(head, size).map_err(|refusal| refusal.to_string())?;
    let shift = map(&image, &file).map_err(say)?;
    let full = rustix::fs::readlinkat(
        rustix::fs::CWD,
        format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)),
        Vec::new(),
    );
    let path = full.unwrap_or_else(|_| path.to_owned());
    Ok(Program { image, shift, path })
}

/// What [`prepare`] says of a script.
const SCRIPT: &str = "it is a script";

/// Maps the segments; what is to be added to their addresses.
fn map(image: &Image, file: &OwnedFd) -> rustix::io::Result<usize> {
    let (from, to) = image.span();
    let (from, len) = (from as usize, (to - from) as usize);
    let align = image.align as usize;
    let none = ProtFlags::empty();
    let how = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let shift = match image.is_fixed {
        true => {
            let how = how | MapFlags::FIXED_NOREPLACE;
            // SAFETY: new memory where there is none.
            unsafe { rustix::mm::mmap_anonymous(from as *mut c_void, len, none, how) }?;
            0
        }
        false => {
            let room = len + align - PAGE;
            // SAFETY: new memory; what is not needed for the alignment is given back.
            unsafe {
                let place = std::ptr::null_mut();
                let place = rustix::mm::mmap_anonymous(place, room, none, how)?.addr();
                let first = (place.wrapping_sub(from)).next_multiple_of(align) + from;
                unmap(place..first);
                unmap(first + len..place + room);
                first.wrapping_sub(from)
            }
        }
    };
    image
        .segments()
        .iter()
        .try_for_each(|segment| map_segment(segment, shift, file))?;
    Ok(shift)
}

/// # Safety
/// Nothing is in this memory.
unsafe fn unmap(range: Range<usize>) {
    if !range.is_empty() {
        // SAFETY: as the caller says.
        let _ = unsafe { rustix::mm::munmap(range.start as *mut c_void, range.len()) };
    }
}

fn map_segment(segment: &Segment, shift: usize, file: &OwnedFd) -> rustix::io::Result<()> {
    let mut access = ProtFlags::empty();
    access.set(ProtFlags::READ, segment.read);
    access.set(ProtFlags::WRITE, segment.write);
    access.set(ProtFlags::EXEC, segment.execute);
    let how = MapFlags::PRIVATE | MapFlags::FIXED;
    let at = (segment.address as usize).wrapping_add(shift);
    let first = at & !(PAGE - 1);
    let end = at + segment.in_memory as usize;
    let in_file = at + segment.in_file as usize;
    let from_file = match segment.in_file {
        0 => first,
        _ => in_file.next_multiple_of(PAGE),
    };
    // SAFETY: within the memory that was reserved for the program; `image` has checked that the
    // segments do not overlap, and that the file has what is mapped of it.
    unsafe {
        if from_file > first {
            let offset = segment.offset - (at - first) as u64;
            let len = from_file - first;
            rustix::mm::mmap(first as *mut c_void, len, access, how, file, offset)?;
        }
        let end = end.next_multiple_of(PAGE);
        if end > from_file {
            rustix::mm::mmap_anonymous(from_file as *mut c_void, end - from_file, access, how)?;
        }
        if segment.in_memory > segment.in_file && from_file > in_file {
            clear(in_file..from_file, segment.write);
        }
    }
    Ok(())
}

/// Zeros behind what the file has of a page. A segment that is not to be written keeps what the
/// file has there, as in the kernel.
///
/// # Safety
/// The memory is the program's, which has not begun.
unsafe fn clear(range: Range<usize>, is_writable: bool) {
    if is_writable {
        // SAFETY: as the caller says.
        unsafe { std::ptr::write_bytes(range.start as *mut u8, 0, range.len()) };
    }
}

/// Begins the program, which was executed as `name`. Returns, with the reason, only where that
/// cannot be.
///
/// # Safety
/// `program` is in memory, `block` is this process's, which has one thread.
unsafe fn begin(program: &Program, name: &CStr, block: Block) -> String {
    let Program { image, shift, path } = program;
    let at = |address: u64| (address as usize).wrapping_add(*shift);
    let code = image.segments().iter();
    let code = code.filter(|segment| segment.execute && segment.read && !segment.write);
    let code = code.map(|segment| {
        let (from, to) = segment.pages();
        let in_file = (segment.address + segment.in_file).next_multiple_of(PAGE as u64);
        at(from)..at(to.min(in_file))
    });
    let hosted = Hosted {
        program: path.clone(),
        code: code.collect(),
    };
    if image.executable_stack {
        let access = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
        let page = (block.stack() & !(PAGE - 1)) as *mut c_void;
        // SAFETY: the stack stays what it is; the kernel does it down to its end.
        let _ = unsafe { rustix::mm::mprotect(page, PAGE, access | MprotectFlags::GROWSDOWN) };
    }
    if let Err(why) = border::host(hosted) {
        return why.to_owned();
    }
    let own = name.to_bytes().rsplit(|byte| *byte == b'/').next();
    let own = CString::new(own.unwrap_or(b"")).unwrap_or_default();
    let _ = rustix::thread::set_name(&own);
    let headers = if image.headers == 0 {
        0
    } else {
        at(image.headers)
    };
    // SAFETY: of the program that is in memory.
    unsafe {
        block.set(&[
            (libc::AT_PHDR, headers),
            (libc::AT_PHENT, 56),
            (libc::AT_PHNUM, image.headers_len as usize),
            (libc::AT_ENTRY, at(image.entry)),
            (libc::AT_BASE, 0),
            (libc::AT_EXECFN, name.as_ptr().addr()),
        ]);
        jump(block.stack(), at(image.entry))
    }
}

/// Registers as the kernel gives them to a new program: all zero but the stack pointer.
#[unsafe(naked)]
unsafe extern "C" fn jump(stack: usize, entry: usize) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "push rsi",
        "xor eax, eax",
        "wrfsbase rax",
        "xor ebx, ebx",
        "xor ecx, ecx",
        "xor edx, edx",
        "xor esi, esi",
        "xor edi, edi",
        "xor ebp, ebp",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        "xor r12d, r12d",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "xor r15d, r15d",
        "ret",
    )
}

/// The kernel executes the program, which is not carried then. The exit status if it does not.
///
/// # Safety
/// `block` is this process's.
unsafe fn leave_to_kernel(path: &CStr, block: Block, why: &str) -> c_int {
    let (argv, envp) = (block.argv(), block.envp());
    if why == SCRIPT {
        // SAFETY: as the caller says. It comes by the border, and here again with the interpreter.
        unsafe { libc::execve(path.as_ptr(), argv, envp) };
    } else {
        say(
            why,
            path,
            "gannet run -v on the program itself; docs/compatibility.md",
        );
        let n = libc::SYS_execve as usize;
        let words = [n, path.as_ptr().addr(), argv.addr(), envp.addr(), 0, 0, 0];
        // SAFETY: as the caller says.
        unsafe { border::system_call(&words) };
    }
    say(
        "the kernel does not execute it",
        path,
        "the program without gannet",
    );
    126
}

/// Three lines, as all messages.
fn say(why: &str, path: &CStr, hint: &str) {
    if std::env::var_os("GANNET_QUIET").is_none() {
        let path = path.to_string_lossy();
        let text =
            format!("gannet: static program {path} is not carried\nwhy: {why}\ntry: {hint}\n");
        let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    }
}

/// The loader beside this library, if there is one.
pub(crate) fn find_loader(library: &CStr) -> Option<CString> {
    let bytes = library.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/')?;
    let directory = bytes.get(..=end)?;
    let path = CString::new([directory, LOADER].concat()).ok()?;
    let exists = rustix::fs::access(path.as_c_str(), rustix::fs::Access::EXEC_OK).is_ok();
    exists.then_some(path)
}
