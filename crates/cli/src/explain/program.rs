//! Why a program stays with the kernel as a whole, and how `gannet run` ends.

use std::borrow::Cow;

use super::entry::{Entry, Kind};

pub(super) fn entries() -> Vec<Entry> {
    let programs = PROGRAMS
        .iter()
        .map(|&(code, [meaning, causes, hint])| Entry {
            code: Cow::Borrowed(code),
            kind: Kind::Program,
            number: None,
            meaning: Cow::Borrowed(meaning),
            causes,
            hint,
        });
    let ends = STATUSES
        .iter()
        .map(|&(number, [meaning, causes, hint])| Entry {
            code: Cow::Owned(format!("exit-{number}")),
            kind: Kind::ExitStatus,
            number: Some(number),
            meaning: Cow::Borrowed(meaning),
            causes,
            hint,
        });
    programs.chain(ends).collect()
}

/// Codes of `run/check.rs`. Meaning, usual causes, what to try.
#[rustfmt::skip]
const PROGRAMS: &[(&str, [&str; 3])] = &[
    ("static-program", [
        "the program is linked statically, and what carries such programs is not at hand: \
         gannet-loader beside the library, Linux 5.9, system calls taken over where they are made",
        "an installation without gannet-loader; GANNET_INTERCEPT=symbols; a damaged file",
        "the message's second line; unset GANNET_INTERCEPT"]),
    ("setuid-program", [
        "the program changes its user or group: the loader ignores LD_PRELOAD for it",
        "ping, sudo and their like",
        "run gannet as that user, on a copy of the program without the bit"]),
    ("file-capabilities", [
        "the program's file has capabilities: the loader ignores LD_PRELOAD for it",
        "setcap on the file, as for programs that bind to low ports",
        "a copy of the program (cp drops them), with the privilege given by sudo or ambient \
         capabilities"]),
    ("other-libc", [
        "the program is loaded by another C library than glibc",
        "Alpine's programs, or those built with musl-gcc",
        "the same program built for glibc"]),
    ("other-word-size", [
        "the program is of another word size than this gannet: 32 bits",
        "packages of the architecture i386 or armhf",
        "its package for this machine's own architecture"]),
    ("other-machine", [
        "the program is for another processor",
        "a foreign container; an emulator starts it",
        "its package for this machine's architecture"]),
    ("malformed-program", [
        "the file begins like an executable and cannot be one",
        "cut short while it was copied; damaged",
        "file CMD; a fresh copy"]),
    ("unreadable-program", [
        "the file may be executed and not read: it cannot be checked, and the loader is careful \
         with it",
        "mode 0711",
        "chmod +r, or a copy"]),
];

/// How `gannet run` ends when the program does not.
#[rustfmt::skip]
const STATUSES: &[(i32, [&str; 3])] = &[
    (125, [
        "gannet run itself failed, or --require did not allow the program to start",
        "a setting, an interface, a privilege, the library; the message has it",
        "the message's last line"]),
    (126, [
        "the program was found and cannot be executed",
        "no permission to execute, a directory, no format that the kernel knows",
        "ls -l; chmod +x"]),
    (127, [
        "the program was not found",
        "a typing error, a PATH without its directory; a script whose interpreter is missing",
        "its full path"]),
];
