//! From `socket` to `shutdown`.

use super::{Addr, Ret};
use crate::far::{self, Answer, Ask};
use std::ptr::null_mut;

pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> Ret {
    call!(socket(domain, kind, protocol))
}

pub(crate) fn socketpair(domain: i32, kind: i32, protocol: i32) -> (Ret, [i32; 2]) {
    let mut both = [-1; 2];
    (
        call!(socketpair(domain, kind, protocol, both.as_mut_ptr())),
        both,
    )
}

pub(crate) fn bind(fd: i32, address: Addr) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Bind(fd, address.cut_bytes())) {
        return answer.ret();
    }
    call!(bind(fd, address.pointer(), address.len))
}

pub(crate) fn listen(fd: i32, backlog: i32) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Listen(fd, backlog)) {
        return answer.ret();
    }
    call!(listen(fd, backlog))
}

/// `accept` without an address.
pub(crate) fn accept(fd: i32) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Accept4(fd, 0)) {
        return answer.made();
    }
    call!(accept(fd, null_mut(), null_mut()))
}

/// `accept` with room of `len` bytes for the address.
pub(crate) fn accept_from(fd: i32, len: u32) -> (Ret, Addr) {
    if let Some(answer) = far::one(fd, |fd| Ask::Accept(fd, len)) {
        return (answer.made(), named(&answer));
    }
    let mut from = Addr::room().cut(len);
    let mut len = len;
    let ret = call!(accept(fd, from.pointer_mut(), &mut len));
    (ret, from.cut(len))
}

pub(crate) fn accept4(fd: i32, flags: i32) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Accept4(fd, flags)) {
        return answer.made();
    }
    call!(accept4(fd, null_mut(), null_mut(), flags))
}

pub(crate) fn connect(fd: i32, address: Addr) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Connect(fd, address.cut_bytes())) {
        return answer.ret();
    }
    call!(connect(fd, address.pointer(), address.len))
}

/// `getsockname` with room of `len` bytes.
pub(crate) fn getsockname_in(fd: i32, len: u32) -> (Ret, Addr) {
    if let Some(answer) = far::one(fd, |fd| Ask::Getsockname(fd, len)) {
        return (answer.ret(), named(&answer));
    }
    let mut name = Addr::room();
    let mut len = len;
    let ret = call!(getsockname(fd, name.pointer_mut(), &mut len));
    (ret, name.cut(len))
}

pub(crate) fn getsockname(fd: i32) -> (Ret, Addr) {
    getsockname_in(fd, Addr::room().len)
}

/// `getpeername` with room of `len` bytes.
pub(crate) fn getpeername_in(fd: i32, len: u32) -> (Ret, Addr) {
    if let Some(answer) = far::one(fd, |fd| Ask::Getpeername(fd, len)) {
        return (answer.ret(), named(&answer));
    }
    let mut name = Addr::room();
    let mut len = len;
    let ret = call!(getpeername(fd, name.pointer_mut(), &mut len));
    (ret, name.cut(len))
}

pub(crate) fn getpeername(fd: i32) -> (Ret, Addr) {
    getpeername_in(fd, Addr::room().len)
}

pub(crate) fn shutdown(fd: i32, how: i32) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Shutdown(fd, how)) {
        return answer.ret();
    }
    call!(shutdown(fd, how))
}

/// A socket of the helper's.
pub(crate) fn far_socket(domain: i32, kind: i32, protocol: i32) -> Ret {
    far::ask(&Ask::Socket(domain, kind, protocol)).made()
}

fn named(answer: &Answer) -> Addr {
    Addr::of(&answer.bytes).cut(answer.first())
}
