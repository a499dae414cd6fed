//! Where programs make system calls, changed so that they jump here.
//!
//! ```text
//! mov $nr,%eax        b8 nr nr nr nr      jmp stub           e9 .. .. .. ..
//! syscall             0f 05         ->    syscall            0f 05: traps, if anything jumps here
//!
//! syscall             0f 05               jmp stub           e9 .. .. .. ..
//! cmp $-4096,%rax     48 3d .. f0 ff ff   (3 bytes left over)
//!
//! mov 16(%rsp),%r9    4c 8b 4c 24 10      jmp stub           e9 .. .. .. ..
//! syscall             0f 05         ->    syscall            0f 05
//! ```
//! The first kind is nearly all of the C library's. It can be changed while other threads run: only
//! the five bytes of one instruction change, in one store where they lie in one aligned word. The
//! second, for code that has the number in a variable (Go's runtime), only while there is one
//! thread: another could return from the call into the middle of the jump. What stands behind such
//! a call and is replaced with it is executed in the stub, so it must be of the few instructions
//! that mean the same anywhere.
//!
//! All code that is there when a program begins is looked through, and what is mapped later. Where
//! only the C library makes system calls, all of which that matter were changed, the border needs
//! no trap, and so costs other calls nothing but a jump.
//!
//! A stub is 64 bytes of this library's own memory, which the border lets through:
//!
//! ```text
//!  0  the instruction that was replaced; for calls of concern: lea record,%rcx; jmp entry
//!     native: syscall; (what was replaced behind it;) jmp *back
//! 48  record: back, native
//! ```
//! A jump reaches 2 GiB. Programs may lie farther away from their libraries: then a second jump
//! stands near them.

use super::dispatch::{self, Kind};
use super::machine_code::{Call, Site, sites};
use super::{arm, gate, thread};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

const PAGE: usize = 4096;
const STUB: usize = 64;
const RECORD: usize = 48;
/// Bytes for stubs: 16,384 sites.
const STUBS: usize = 1 << 20;
/// Pieces of code that are remembered as looked at.
const LOOKED: usize = 512;
/// A jump to anywhere: `jmp *0(%rip)` and the address.
const FAR: usize = 14;

#[repr(C, align(4096))]
struct Memory(UnsafeCell<[u8; STUBS]>);
// SAFETY: written behind `BUSY`, a page at a time, before anything jumps there.
unsafe impl Sync for Memory {}
static MEMORY: Memory = Memory(UnsafeCell::new([0; STUBS]));
/// Bytes of it in use, whole pages.
static USED: AtomicUsize = AtomicUsize::new(0);
/// A thread changes sites.
static BUSY: AtomicBool = AtomicBool::new(false);
/// Code that was looked at: from, to.
static SEEN: [[AtomicUsize; 2]; LOOKED] =
    [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; LOOKED];

/// The addresses from which calls go to the kernel: first, length.
pub(super) fn let_through() -> (usize, usize) {
    let (from, to) = arm::own_code();
    let stubs = MEMORY.0.get().addr();
    let from = from.min(stubs);
    (from, to.max(stubs + STUBS) - from)
}

/// Changes all code there is. True when others than the C library and the loader make system calls:
/// then some may be left that cannot be changed.
pub(super) fn change_all() -> bool {
    let mut others = false;
    let _ = each_piece(|piece| {
        if piece.is_file {
            let found = change_piece(&piece.code);
            others |= found > 0 && !piece.is_library;
        }
        false
    });
    others
}

/// Changes code that was just mapped. True when system calls are made there.
pub(super) fn change_new(code: &Range<usize>) -> bool {
    if BUSY
        .compare_exchange(false, true, Acquire, Relaxed)
        .is_err()
    {
        // Another thread loads a library too: the trap finds what is in this one.
        return true;
    }
    let found = change_piece(code);
    BUSY.store(false, Release);
    found > 0
}

/// Changes what lies around `site`, a `syscall` that just trapped. Where to go on, if the program
/// is to go through the changed site at once.
pub(super) fn change(site: usize) -> Option<usize> {
    if !was_seen(site) && BUSY.compare_exchange(false, true, Acquire, Relaxed).is_ok() {
        if !was_seen(site) {
            let _ = each_piece(|piece| {
                let found = piece.code.contains(&site);
                if found {
                    match piece.is_file {
                        true => drop(change_piece(&piece.code)),
                        false => note_seen(&piece.code),
                    }
                }
                found
            });
        }
        BUSY.store(false, Release);
    }
    jump_around(site)
}

/// The jump to a stub that stands for the `syscall` at `site`.
fn jump_around(site: usize) -> Option<usize> {
    // SAFETY: the program executed there; five bytes before it may be another page, which is looked
    // at only where the code was found to begin earlier.
    let is_jump = |at: usize| seen_contains(at) && unsafe { (at as *const u8).read() } == 0xe9;
    let leads = |at: usize| stub_behind(at).is_some_and(|stub| at == site || may_repeat(stub));
    [site - 5, site - 7, site]
        .into_iter()
        .find(|at| is_jump(*at) && leads(*at))
}

/// The stub to which the jump at `at` leads, if it is one of those made here.
fn stub_behind(at: usize) -> Option<usize> {
    // SAFETY: code that was looked at, a jump of five bytes.
    let distance = unsafe { ((at + 1) as *const i32).read_unaligned() };
    let to = (at + 5).wrapping_add_signed(distance as isize);
    let own = MEMORY.0.get().addr();
    if NEAR.contains(to) {
        // SAFETY: a jump of our own, its address last.
        return Some(unsafe { ((to + FAR - 8) as *const usize).read_unaligned() });
    }
    (own..own + STUBS).contains(&to).then_some(to)
}

/// Whether a stub begins with an instruction that can be executed a second time: the trap came
/// behind it. Another one, on the stack, may have lost its register to the trap.
fn may_repeat(stub: usize) -> bool {
    // SAFETY: a stub of our own.
    let first = unsafe { (stub as *const u8).read() };
    !matches!(first, 0x48 | 0x4c)
}

fn was_seen(site: usize) -> bool {
    seen_contains(site)
}

fn seen_contains(at: usize) -> bool {
    let all = SEEN
        .iter()
        .map(|[from, to]| from.load(Acquire)..to.load(Relaxed));
    all.take_while(|code| code.start != 0)
        .any(|code| code.contains(&at))
}

fn note_seen(code: &Range<usize>) {
    if let Some([from, to]) = SEEN.iter().find(|[from, _]| from.load(Relaxed) == 0) {
        to.store(code.end, Relaxed);
        from.store(code.start, Release);
    }
}

/// The stub around an address, or whose record it is.
struct Made {
    code: &'static [u8; STUB],
    /// Where a call that the library has answered goes on.
    back: usize,
    /// Its `syscall`.
    native: usize,
    /// Where the stub ends in the program.
    last: usize,
}

fn made(at: usize) -> Option<Made> {
    let own = MEMORY.0.get().addr();
    if !(own..own + USED.load(Relaxed)).contains(&at) {
        return None;
    }
    let stub = at & !(STUB - 1);
    // SAFETY: a stub, which was written before anything came here.
    unsafe {
        let [back, native] = *((stub + RECORD) as *const [usize; 2]);
        Some(Made {
            code: &*(stub as *const [u8; STUB]),
            back,
            native,
            last: *((stub + RECORD - 8) as *const usize),
        })
    }
}

impl Made {
    /// What was moved behind the `syscall`, if it is a comparison with a number, as in the C
    /// library.
    fn comparison(&self) -> Option<i32> {
        match self.code.get((self.native & (STUB - 1)) + 2..) {
            // cmp $imm,%rax; jmp *last
            Some([0x48, 0x3d, a, b, c, d, 0xff, 0x25, ..]) => {
                Some(i32::from_le_bytes([*a, *b, *c, *d]))
            }
            _ => None,
        }
    }

    /// The jump in the program that leads here, with the number of the call in rax or not.
    fn site(&self) -> Option<usize> {
        /// Bytes of the comparison.
        const MOVED: usize = 6;
        let call = match self.back == self.last {
            true => self.last - 2,
            false => self.comparison().map(|_| self.last - MOVED - 2)?,
        };
        jump_around(call)
    }
}

/// The jump in the program through which the call of a record was made.
pub(super) fn site_of(record: usize) -> Option<usize> {
    made(record)?.site()
}

/// Where the program goes on, and with what flags, whose thread was interrupted at `at` with this
/// in rax, if that is at the `syscall` of a stub, to be made again, or right behind it: unwinders
/// know the program's code only. What was moved there from behind the call is done here.
pub(super) fn in_program(at: usize, rax: u64, flags: u64) -> Option<(usize, u64)> {
    let made = made(at)?;
    if at == made.native {
        return made.site().map(|site| (site, flags));
    }
    if at != made.native.wrapping_add(2) {
        return None;
    }
    if made.back == made.last {
        return Some((made.last, flags));
    }
    let other = i64::from(made.comparison()?) as u64;
    Some((made.last, compared(rax, other, flags)))
}

/// The processor's flags after a comparison.
fn compared(a: u64, b: u64, flags: u64) -> u64 {
    const CHANGED: u64 = 0x8d5;
    let result = a.wrapping_sub(b);
    let carry = u64::from(a < b);
    let parity = u64::from((result as u8).count_ones().is_multiple_of(2));
    let adjust = (a ^ b ^ result) >> 4 & 1;
    let zero = u64::from(result == 0);
    let sign = result >> 63;
    let overflow = ((a ^ b) & (a ^ result)) >> 63;
    let set = carry | parity << 2 | adjust << 4 | zero << 6 | sign << 7 | overflow << 11;
    flags & !CHANGED | set
}

/// A piece of code in this process's memory.
struct Piece {
    code: Range<usize>,
    /// A file's: not made at run time, nor the kernel's.
    is_file: bool,
    /// The C library's or the loader's.
    is_library: bool,
}

/// Visits each piece of code until `visit` says that it is enough. Nothing is allocated: a trap may
/// come from anywhere.
fn each_piece(mut visit: impl FnMut(Piece) -> bool) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/self/maps", flags, Mode::empty())?;
    let mut lines = Lines::new(&file);
    while let Some(line) = lines.next()? {
        if let Some(piece) = parse(line)
            && visit(piece)
        {
            break;
        }
    }
    Ok(())
}

/// The lines of a file; longer ones than fit are cut.
struct Lines<'a> {
    file: &'a OwnedFd,
    bytes: [u8; 2048],
    from: usize,
    to: usize,
}

impl<'a> Lines<'a> {
    fn new(file: &'a OwnedFd) -> Lines<'a> {
        Lines {
            file,
            bytes: [0; 2048],
            from: 0,
            to: 0,
        }
    }

    fn next(&mut self) -> rustix::io::Result<Option<&[u8]>> {
        loop {
            let rest = self.bytes.get(self.from..self.to).unwrap_or(&[]);
            let len = rest.iter().position(|byte| *byte == b'\n');
            let is_full = self.from == 0 && self.to == self.bytes.len();
            if let Some(len) = len.or(is_full.then_some(rest.len())) {
                let line = self.from..self.from + len;
                self.from = (line.end + 1).min(self.to);
                return Ok(self.bytes.get(line));
            }
            self.bytes.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
            let room = self.bytes.get_mut(self.to..).unwrap_or(&mut []);
            match rustix::io::read(self.file.as_fd(), room)? {
                0 => return Ok(None),
                n => self.to += n,
            }
        }
    }
}

/// A line of `/proc/self/maps`, if it is readable code.
fn parse(line: &[u8]) -> Option<Piece> {
    let line = str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let inode = words.nth(2)?;
    let path = words.next().unwrap_or("");
    if !access.starts_with("r-x") {
        return None;
    }
    let code = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
    let own = arm::own_code();
    if code.contains(&own.0) {
        return None;
    }
    let name = path.rsplit('/').next().unwrap_or("");
    let is_library = ["libc.so.", "libc-", "ld-linux", "ld-", "libpthread"];
    Some(Piece {
        code,
        is_file: inode != "0" && path.starts_with('/'),
        is_library: is_library.iter().any(|start| name.starts_with(start)),
    })
}

/// Changes the sites in a piece of code: all of them while there is one thread, else those that
/// can be changed in one store. How many there are.
fn change_piece(piece: &Range<usize>) -> usize {
    note_seen(piece);
    let alone = thread::is_alone();
    let one_store = |call| matches!(call, Call::Number(_) | Call::Behind(_));
    let may = |site: &Site| alone || one_store(site.call) && site.at % 8 <= 3;
    let (mut all, mut count) = (0, 0);
    for site in sites(piece) {
        all += 1;
        count += usize::from(may(&site));
    }
    if let Some(stubs) = Stubs::take(count, piece) {
        change_sites(piece, stubs, sites(piece).filter(may).take(count));
    }
    all
}

fn change_sites(piece: &Range<usize>, mut stubs: Stubs, mut all: impl Iterator<Item = Site>) {
    let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    let usual = MprotectFlags::READ | MprotectFlags::EXEC;
    // SAFETY: code stays code; what it is changed to does the same.
    let opened = unsafe { rustix::mm::mprotect(piece.start as *mut _, piece.len(), writable) };
    let mut jumps = [(0usize, 0usize); 64];
    loop {
        // Stubs are executable before anything leads to them, so that they are written in rounds.
        let mut n = 0;
        for (place, site) in jumps.iter_mut().zip(all.by_ref()) {
            let Some(to) = stubs.write(&site) else { break };
            *place = (site.at, to);
            n += 1;
        }
        if n == 0 || opened.is_err() {
            break;
        }
        stubs.close();
        for (at, to) in jumps.iter().take(n) {
            jump(*at, *to);
        }
        stubs.open();
    }
    stubs.close();
    // SAFETY: as above.
    let _ = unsafe { rustix::mm::mprotect(piece.start as *mut _, piece.len(), usual) };
}

/// Makes the instruction at `at` a jump to `to`, which is near.
fn jump(at: usize, to: usize) {
    let Ok(distance) = i32::try_from(to.wrapping_sub(at + 5) as isize) else {
        return;
    };
    let [a, b, c, d] = distance.to_le_bytes();
    let word = at & !7;
    let shift = at - word;
    if shift <= 3 {
        // SAFETY: writable code, aligned; other threads see the old or the new instruction.
        let place = unsafe { AtomicU64::from_ptr(word as *mut u64) };
        let mut bytes = place.load(Relaxed).to_le_bytes();
        if let Some(part) = bytes.get_mut(shift..shift + 5) {
            part.copy_from_slice(&[0xe9, a, b, c, d]);
        }
        place.store(u64::from_le_bytes(bytes), Release);
        return;
    }
    // SAFETY: writable code, which this process's one thread does not execute now.
    unsafe { (at as *mut [u8; 5]).write([0xe9, a, b, c, d]) };
}

/// Room for stubs, in whole pages: those of a piece of code.
struct Stubs {
    next: usize,
    end: usize,
    first: usize,
    near: Option<Near>,
}

impl Stubs {
    fn take(count: usize, piece: &Range<usize>) -> Option<Stubs> {
        if count == 0 {
            return None;
        }
        let len = (count * STUB).next_multiple_of(PAGE);
        let used = USED.fetch_add(len, Relaxed);
        if used + len > STUBS {
            USED.fetch_sub(len, Relaxed);
            return None;
        }
        let first = MEMORY.0.get().addr() + used;
        let is_near = [piece.start, piece.end]
            .iter()
            .all(|at| at.abs_diff(first) < 1 << 30);
        let near = match is_near {
            true => None,
            false => Some(Near::take(count, piece)?),
        };
        let stubs = Stubs {
            next: first,
            end: first + len,
            first,
            near,
        };
        stubs.open();
        Some(stubs)
    }

    fn protect(&self, flags: MprotectFlags) {
        // SAFETY: pages of our own that nothing leads to while they are written.
        let _ = unsafe { rustix::mm::mprotect(self.first as *mut _, self.end - self.first, flags) };
        if let Some(near) = &self.near {
            // SAFETY: as above.
            let _ = unsafe { rustix::mm::mprotect(near.first as *mut _, near.len, flags) };
        }
    }

    /// The first round is written without being executable; later ones, with sites that lead here
    /// already, must stay so.
    fn open(&self) {
        let written = self.next != self.first;
        let flags = MprotectFlags::READ | MprotectFlags::WRITE;
        self.protect(match written {
            true => flags | MprotectFlags::EXEC,
            false => flags,
        });
    }

    fn close(&self) {
        self.protect(MprotectFlags::READ | MprotectFlags::EXEC);
    }

    /// Writes the stub of a site: where the site is to jump.
    fn write(&mut self, site: &Site) -> Option<usize> {
        let at = self.next;
        if at + STUB > self.end {
            return None;
        }
        self.next += STUB;
        let code = stub(site, at);
        // SAFETY: within our own memory, writable now.
        unsafe { (at as *mut [u8; STUB]).write(code) };
        match &mut self.near {
            Some(near) => near.write(at),
            None => Some(at),
        }
    }
}

/// Bytes of code that grow.
struct Code {
    bytes: [u8; STUB],
    len: usize,
    at: usize,
}

impl Code {
    fn add(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// The distance from the end of an instruction whose last four bytes it is.
    fn add_distance(&mut self, to: usize) {
        let from = self.at + self.len + 4;
        let distance = to.wrapping_sub(from) as u32;
        self.add(&distance.to_le_bytes());
    }
}

/// The stub of a site, to be executed at `at`.
fn stub(site: &Site, at: usize) -> [u8; STUB] {
    let mut code = Code {
        bytes: [0xcc; STUB],
        len: 0,
        at,
    };
    let entry = match site.call {
        Call::Number(n) => {
            code.add(&[0xb8]);
            code.add(&n.to_le_bytes());
            match dispatch::kind(n as usize) {
                Kind::Foreign => None,
                Kind::First => Some(gate::enter_first as *const ()),
                Kind::Any => Some(gate::enter_any as *const ()),
                Kind::Clone => Some(gate::enter_clone as *const ()),
                Kind::Exit => Some(gate::enter_exit as *const ()),
            }
        }
        Call::Variable(_) => Some(gate::enter_variable as *const ()),
        Call::Behind(moved) => {
            code.add(&moved);
            Some(gate::enter_variable as *const ())
        }
        Call::End => {
            code.add(&[0x31, 0xff, 0x89, 0xd0]);
            Some(gate::enter_exit as *const ())
        }
    };
    let record = at + RECORD;
    if let Some(entry) = entry {
        // lea record(%rip),%rcx; jmp entry
        code.add(&[0x48, 0x8d, 0x0d]);
        code.add_distance(record);
        code.add(&[0xe9]);
        code.add_distance(entry.addr());
    }
    let native = at + code.len;
    code.add(&[0x0f, 0x05]);
    let behind = at + code.len;
    if let Call::Variable(len) = site.call {
        // SAFETY: behind the `syscall`, in code that was just looked at.
        let moved = unsafe { std::slice::from_raw_parts((site.at + 2) as *const u8, len) };
        code.add(moved);
    }
    // jmp *last(%rip)
    let last = at + RECORD - 8;
    code.add(&[0xff, 0x25]);
    code.add_distance(last);
    code.len = RECORD - 8;
    code.add(&site.back.to_le_bytes());
    let back = match site.call {
        Call::Number(_) | Call::Behind(_) | Call::End => site.back,
        Call::Variable(_) => behind,
    };
    code.add(&back.to_le_bytes());
    code.add(&native.to_le_bytes());
    code.bytes
}

/// Jumps near a piece of code that is far from this library.
struct Near {
    first: usize,
    len: usize,
    used: usize,
}

/// Where they lie: from, to.
struct NearPlaces([[AtomicUsize; 2]; 64]);
static NEAR: NearPlaces = NearPlaces([const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; 64]);

impl NearPlaces {
    fn contains(&self, at: usize) -> bool {
        let all = self
            .0
            .iter()
            .map(|[from, to]| from.load(Acquire)..to.load(Relaxed));
        all.take_while(|place| place.start != 0)
            .any(|place| place.contains(&at))
    }

    fn add(&self, place: Range<usize>) -> bool {
        let free = self.0.iter().find(|[from, _]| from.load(Relaxed) == 0);
        if let Some([from, to]) = free {
            to.store(place.end, Relaxed);
            from.store(place.start, Release);
        }
        free.is_some()
    }
}

impl Near {
    fn take(count: usize, piece: &Range<usize>) -> Option<Near> {
        let len = (count * FAR).next_multiple_of(PAGE);
        let below = (1..1024).map(|n| piece.start.checked_sub(n << 20));
        let above = (1..1024).map(|n| piece.end.checked_add(n << 20));
        let places = below.zip(above).flat_map(|(a, b)| [a, b]).flatten();
        let reach = (1usize << 31) - (1 << 20) - len;
        let fits = |at: &usize| {
            *at >= 1 << 16 && at.abs_diff(piece.start) < reach && at.abs_diff(piece.end) < reach
        };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let how = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        let first = places.filter(fits).find_map(|at| {
            let at = (at & !(PAGE - 1)) as *mut _;
            // SAFETY: new memory where there is none.
            unsafe { rustix::mm::mmap_anonymous(at, len, access, how) }.ok()
        })?;
        let first = first.addr();
        NEAR.add(first..first + len).then_some(Near {
            first,
            len,
            used: 0,
        })
    }

    /// A jump to `to`; where it stands.
    fn write(&mut self, to: usize) -> Option<usize> {
        let at = self.first + self.used;
        if self.used + FAR > self.len {
            return None;
        }
        self.used += FAR;
        let mut bytes = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if let Some(place) = bytes.last_chunk_mut() {
            *place = to.to_le_bytes();
        }
        // SAFETY: within memory of our own, writable now.
        unsafe { (at as *mut [u8; FAR]).write(bytes) };
        Some(at)
    }
}
