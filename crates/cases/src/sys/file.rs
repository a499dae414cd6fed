//! What sockets share with files: `read`, `dup`, `fcntl`, `ioctl`, `splice`.

use super::{Got, Ret};
use crate::far::{self, Ask};
use libc::{c_void, iovec};
use std::ptr::null_mut;

// SAFETY: the signature of sockatmark(3), which the libc crate does not have.
unsafe extern "C" {
    fn sockatmark(fd: libc::c_int) -> libc::c_int;
}

pub(crate) fn read(fd: i32, len: usize) -> Got {
    if let Some(answer) = far::one(fd, |fd| Ask::Read(fd, len)) {
        return Got::far(answer);
    }
    let mut buffer = vec![0_u8; len];
    let ret = call!(read(fd, buffer.as_mut_ptr().cast::<c_void>(), len));
    Got::of(ret, buffer)
}

pub(crate) fn write(fd: i32, data: &[u8]) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Write(fd, data.to_vec())) {
        return answer.ret();
    }
    call!(write(fd, data.as_ptr().cast::<c_void>(), data.len()))
}

pub(crate) fn pread(fd: i32, len: usize, offset: i64) -> Got {
    far::here(fd);
    let mut buffer = vec![0_u8; len];
    let bytes = buffer.as_mut_ptr().cast::<c_void>();
    let ret = call!(pread(fd, bytes, len, offset));
    Got::of(ret, buffer)
}

pub(crate) fn pwrite(fd: i32, data: &[u8], offset: i64) -> Ret {
    far::here(fd);
    let bytes = data.as_ptr().cast::<c_void>();
    call!(pwrite(fd, bytes, data.len(), offset))
}

/// `readv` into pieces of these lengths.
pub(crate) fn readv(fd: i32, lengths: &[usize]) -> Got {
    if let Some(answer) = far::one(fd, |fd| Ask::Readv(fd, lengths.to_vec())) {
        return Got::far(answer);
    }
    scatter(lengths, |iov, count| call!(readv(fd, iov, count)))
}

/// `preadv` into pieces of these lengths.
pub(crate) fn preadv(fd: i32, lengths: &[usize], offset: i64) -> Got {
    far::here(fd);
    scatter(lengths, |iov, count| call!(preadv(fd, iov, count, offset)))
}

/// `preadv2` into pieces of these lengths.
pub(crate) fn preadv2(fd: i32, lengths: &[usize], offset: i64, flags: i32) -> Got {
    far::here(fd);
    scatter(lengths, |iov, count| {
        call!(preadv2(fd, iov, count, offset, flags))
    })
}

fn scatter(lengths: &[usize], receive: impl Fn(*const iovec, i32) -> Ret) -> Got {
    let mut buffer = vec![0_u8; lengths.iter().sum()];
    let mut rest = buffer.as_mut_slice();
    let mut iov = Vec::new();
    for &length in lengths {
        let (piece, others) = rest.split_at_mut(length);
        rest = others;
        iov.push(iovec {
            iov_base: piece.as_mut_ptr().cast(),
            iov_len: length,
        });
    }
    let count = i32::try_from(iov.len()).unwrap_or(i32::MAX);
    Got::of(receive(iov.as_ptr(), count), buffer)
}

/// Pieces that travel.
pub(super) fn owned(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    pieces.iter().map(|piece| piece.to_vec()).collect()
}

fn gather(pieces: &[&[u8]], transmit: impl Fn(*const iovec, i32) -> Ret) -> Ret {
    let iov: Vec<iovec> = pieces
        .iter()
        .map(|piece| iovec {
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.len(),
        })
        .collect();
    let count = i32::try_from(iov.len()).unwrap_or(i32::MAX);
    transmit(iov.as_ptr(), count)
}

pub(crate) fn writev(fd: i32, pieces: &[&[u8]]) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Writev(fd, owned(pieces))) {
        return answer.ret();
    }
    gather(pieces, |iov, count| call!(writev(fd, iov, count)))
}

pub(crate) fn pwritev(fd: i32, pieces: &[&[u8]], offset: i64) -> Ret {
    far::here(fd);
    gather(pieces, |iov, count| call!(pwritev(fd, iov, count, offset)))
}

/// `writev` that says it has `count` pieces and has one.
pub(crate) fn writev_count(fd: i32, count: i32) -> Ret {
    far::here(fd);
    let mut one = [0_u8; 1];
    let iov = [iovec {
        iov_base: one.as_mut_ptr().cast(),
        iov_len: 1,
    }; 1];
    // Only counts that the call refuses before it looks at a piece.
    let count = if (0..=1024).contains(&count) {
        1
    } else {
        count
    };
    call!(writev(fd, iov.as_ptr(), count))
}

/// `writev` of one piece that says it is longer than `ssize_t` can say.
pub(crate) fn writev_too_long(fd: i32) -> Ret {
    far::here(fd);
    let mut one = [0_u8; 1];
    let iov = [iovec {
        iov_base: one.as_mut_ptr().cast(),
        iov_len: usize::MAX,
    }; 1];
    call!(writev(fd, iov.as_ptr(), 1))
}

pub(crate) fn lseek(fd: i32, offset: i64, whence: i32) -> Ret {
    far::here(fd);
    call!(lseek(fd, offset, whence))
}

pub(crate) fn close(fd: i32) -> Ret {
    if let Some(answer) = far::one(fd, Ask::Close) {
        return answer.ret();
    }
    call!(close(fd))
}

pub(crate) fn close_range(first: u32, last: u32, flags: i32) -> Ret {
    far::here(first.cast_signed());
    call!(close_range(first, last, flags))
}

pub(crate) fn dup(fd: i32) -> Ret {
    if let Some(answer) = far::one(fd, Ask::Dup) {
        return answer.made();
    }
    call!(dup(fd))
}

pub(crate) fn dup2(fd: i32, to: i32) -> Ret {
    far::here(fd);
    far::here(to);
    call!(dup2(fd, to))
}

pub(crate) fn dup3(fd: i32, to: i32, flags: i32) -> Ret {
    far::here(fd);
    far::here(to);
    call!(dup3(fd, to, flags))
}

/// `fcntl` with a number as argument.
pub(crate) fn fcntl(fd: i32, command: i32, argument: i32) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Fcntl(fd, command, argument)) {
        return match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => answer.made(),
            _ => answer.ret(),
        };
    }
    call!(fcntl(fd, command, argument))
}

/// `ioctl` with a pointer to an `int`; the result and the `int` afterwards.
pub(crate) fn ioctl(fd: i32, request: u64, argument: i32) -> (Ret, i32) {
    if let Some(answer) = far::one(fd, |fd| Ask::Ioctl(fd, request, argument)) {
        return (answer.ret(), answer.first());
    }
    let mut room = [argument, 0, 0, 0, 0, 0, 0, 0];
    let ret = call!(ioctl(fd, request, room.as_mut_ptr()));
    (ret, room[0])
}

/// Whether the next byte is the one that was sent as urgent.
pub(crate) fn at_mark(fd: i32) -> Ret {
    far::here(fd);
    // SAFETY: a number is all it takes.
    Ret::of(i64::from(unsafe { sockatmark(fd) }))
}

/// Whether `fstat` says that the descriptor is a socket.
pub(crate) fn is_socket(fd: i32) -> (Ret, bool) {
    far::here(fd);
    // SAFETY: `stat` is made of numbers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let ret = call!(fstat(fd, &mut stat));
    (ret, stat.st_mode & libc::S_IFMT == libc::S_IFSOCK)
}

/// The descriptors that are open, but for the one by which that is found out.
pub(crate) fn open_descriptors() -> Vec<i32> {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let names = listed.flatten().map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
    let open: Vec<i32> = numbers.collect();
    open.into_iter()
        .filter(|&fd| fcntl(fd, libc::F_GETFD, 0).fd() >= 0)
        .collect()
}

pub(crate) fn pipe() -> [i32; 2] {
    let mut both = [-1; 2];
    call!(pipe2(both.as_mut_ptr(), libc::O_CLOEXEC));
    both
}

/// A file in memory with this content, at its beginning.
pub(crate) fn memory_file(content: &[u8]) -> i32 {
    let fd = call!(memfd_create(c"gannet-cases".as_ptr(), libc::MFD_CLOEXEC)).fd();
    write(fd, content);
    lseek(fd, 0, libc::SEEK_SET);
    fd
}

/// `sendfile`; with an offset, also what the offset is afterwards.
pub(crate) fn sendfile(to: i32, from: i32, offset: Option<i64>, count: usize) -> (Ret, i64) {
    far::here(to);
    far::here(from);
    let mut place = offset.unwrap_or(0);
    let pointer = if offset.is_some() {
        &raw mut place
    } else {
        null_mut()
    };
    (call!(sendfile(to, from, pointer, count)), place)
}

/// `sendfile64`.
pub(crate) fn sendfile64(to: i32, from: i32, count: usize) -> Ret {
    far::here(to);
    far::here(from);
    call!(sendfile64(to, from, null_mut(), count))
}

/// `splice` without offsets.
pub(crate) fn splice(from: i32, to: i32, count: usize, flags: u32) -> Ret {
    far::here(from);
    far::here(to);
    call!(splice(from, null_mut(), to, null_mut(), count, flags))
}

/// `splice` with an offset on the side that is read.
pub(crate) fn splice_at(from: i32, offset: i64, to: i32, count: usize) -> Ret {
    far::here(from);
    far::here(to);
    let mut offset = offset;
    call!(splice(from, &mut offset, to, null_mut(), count, 0))
}
