//! `sendmsg`, `recvmsg`, `sendmmsg`, `recvmmsg` and control messages.

use super::{Addr, Got, Ret};
use crate::far::{self, Ask};
use libc::{c_void, iovec, mmsghdr, msghdr};
use std::ptr::null_mut;

/// What `recvmsg` gave.
pub(crate) struct Message {
    pub(crate) got: Got,
    pub(crate) from: Addr,
    pub(crate) flags: i32,
    /// Descriptors that came by `SCM_RIGHTS`.
    pub(crate) descriptors: Vec<i32>,
    /// Level and type of every control message.
    pub(crate) control: Vec<(i32, i32)>,
    /// What each of them holds.
    pub(crate) values: Vec<Vec<u8>>,
}

/// Pieces to send, as `struct iovec`.
fn pieces_of(pieces: &[&[u8]]) -> Vec<iovec> {
    let piece = |piece: &&[u8]| iovec {
        iov_base: piece.as_ptr().cast_mut().cast::<c_void>(),
        iov_len: piece.len(),
    };
    pieces.iter().map(piece).collect()
}

/// Zeros: nothing named, nothing to send.
fn empty() -> msghdr {
    // SAFETY: `msghdr` is made of numbers and pointers, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// `sendmsg` of pieces, to an address if there is one, with descriptors if there are any.
pub(crate) fn sendmsg(
    fd: i32,
    pieces: &[&[u8]],
    to: Option<Addr>,
    descriptors: &[i32],
    flags: i32,
) -> Ret {
    if far::number(fd).is_some() && to.is_none() && descriptors.is_empty() {
        let data = super::file::owned(pieces);
        let answer = far::one(fd, |fd| Ask::Sendmsg(fd, data, flags));
        return answer.map_or(Ret::Errno(libc::EBADF), |answer| answer.ret());
    }
    let mut iov = pieces_of(pieces);
    let mut to = to;
    let mut control = rights(descriptors);
    let mut header = empty();
    header.msg_iov = iov.as_mut_ptr();
    header.msg_iovlen = iov.len();
    if let Some(to) = &mut to {
        header.msg_name = to.pointer_mut().cast();
        header.msg_namelen = to.len;
    }
    if !descriptors.is_empty() {
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = control.len() * 8;
    }
    call!(sendmsg(fd, &header, flags))
}

/// One `SCM_RIGHTS` message: length, level and type, then the descriptors, in words of 8 bytes.
fn rights(descriptors: &[i32]) -> Vec<u64> {
    descriptors.iter().copied().for_each(far::here);
    let length = 16 + 4 * descriptors.len() as u64;
    let kind = u64::from(libc::SCM_RIGHTS.cast_unsigned());
    let mut words = vec![
        length,
        u64::from(libc::SOL_SOCKET.cast_unsigned()) | (kind << 32),
    ];
    for two in descriptors.chunks(2) {
        let half = |at: usize| two.get(at).map_or(0, |fd| u64::from(fd.cast_unsigned()));
        words.push(half(0) | (half(1) << 32));
    }
    words
}

/// `recvmsg` into pieces of these lengths, with `room` words of 8 bytes for control messages.
pub(crate) fn recvmsg(fd: i32, lengths: &[usize], flags: i32, room: usize) -> Message {
    far::here(fd);
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
    let mut from = Addr::room();
    let mut control = vec![0_u64; room];
    let mut header = empty();
    header.msg_name = from.pointer_mut().cast();
    header.msg_namelen = from.len;
    header.msg_iov = iov.as_mut_ptr();
    header.msg_iovlen = iov.len();
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = room * 8;
    let ret = call!(recvmsg(fd, &mut header, flags));
    let (descriptors, kinds) = control_messages(&control, header.msg_controllen);
    let values = control_values(&control, header.msg_controllen);
    Message {
        got: Got::of(ret, buffer),
        from: from.cut(header.msg_namelen),
        flags: header.msg_flags,
        descriptors,
        control: kinds,
        values,
    }
}

/// What control messages hold.
fn control_values(words: &[u64], length: usize) -> Vec<Vec<u8>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut rest = bytes.get(..length).unwrap_or(&[]);
    let mut values = Vec::new();
    while let Some((size, _)) = rest.split_first_chunk::<8>() {
        let size = usize::try_from(u64::from_ne_bytes(*size)).unwrap_or(0);
        let Some(value) = rest.get(16..size) else {
            break;
        };
        values.push(value.to_vec());
        rest = rest.get(size.next_multiple_of(8)..).unwrap_or(&[]);
    }
    values
}

/// The descriptors in control messages, and the level and type of each message.
fn control_messages(words: &[u64], length: usize) -> (Vec<i32>, Vec<(i32, i32)>) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let number = |at: usize| {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map_or(0, i32::from_ne_bytes)
    };
    let (mut descriptors, mut kinds) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at + 16 <= length {
        let size = usize::try_from(number(at)).unwrap_or(0);
        if size < 16 {
            break;
        }
        kinds.push((number(at + 8), number(at + 12)));
        if kinds.last() == Some(&(libc::SOL_SOCKET, libc::SCM_RIGHTS)) {
            descriptors.extend((16..size).step_by(4).map(|offset| number(at + offset)));
        }
        at += size.next_multiple_of(8);
    }
    (descriptors, kinds)
}

/// `sendmmsg` of one piece each, to an address if there is one; the result and each `msg_len`.
pub(crate) fn sendmmsg(
    fd: i32,
    datagrams: &[&[u8]],
    to: Option<Addr>,
    flags: i32,
) -> (Ret, Vec<u32>) {
    far::here(fd);
    let mut iov = pieces_of(datagrams);
    let mut to = to;
    let mut headers: Vec<mmsghdr> = Vec::new();
    for piece in &mut iov {
        let mut header = empty();
        header.msg_iov = piece;
        header.msg_iovlen = 1;
        if let Some(to) = &mut to {
            header.msg_name = to.pointer_mut().cast();
            header.msg_namelen = to.len;
        }
        headers.push(mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        });
    }
    let count = u32::try_from(headers.len()).unwrap_or(u32::MAX);
    let ret = call!(sendmmsg(fd, headers.as_mut_ptr(), count, flags));
    (ret, headers.iter().map(|header| header.msg_len).collect())
}

/// `recvmmsg` of `count` datagrams of at most `len` bytes; the result, and what came.
pub(crate) fn recvmmsg(
    fd: i32,
    count: usize,
    len: usize,
    flags: i32,
    timeout_ms: Option<i64>,
) -> (Ret, Vec<Vec<u8>>) {
    far::here(fd);
    let mut buffers = vec![vec![0_u8; len]; count];
    let mut iov: Vec<iovec> = buffers
        .iter_mut()
        .map(|buffer| iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: len,
        })
        .collect();
    let mut headers: Vec<mmsghdr> = Vec::new();
    for piece in &mut iov {
        let mut header = empty();
        header.msg_iov = piece;
        header.msg_iovlen = 1;
        headers.push(mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        });
    }
    let mut time = timeout_ms.map(super::wait::timespec_of);
    let time = time.as_mut().map_or(null_mut(), std::ptr::from_mut);
    let many = u32::try_from(count).unwrap_or(u32::MAX);
    let ret = call!(recvmmsg(fd, headers.as_mut_ptr(), many, flags, time));
    let came = headers.iter().zip(buffers).take(ret.count());
    let cut = |(header, mut data): (&mmsghdr, Vec<u8>)| {
        data.truncate(header.msg_len as usize);
        data
    };
    (ret, came.map(cut).collect())
}
