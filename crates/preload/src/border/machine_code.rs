//! Machine code that makes a system call: which of its bytes can be replaced by a jump of five, so
//! that what they do can be done elsewhere.

use super::dispatch;
use std::ops::Range;

/// A place where a system call is made, and can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Where the jump will stand.
    pub(super) at: usize,
    /// Where the program goes on.
    pub(super) back: usize,
    pub(super) call: Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Of this number.
    Number(u32),
    /// Of the number in rax; so many bytes behind it are replaced with it.
    Variable(usize),
    /// Of the number in rax; the five bytes before it are replaced.
    Behind([u8; 5]),
    /// The end of a thread, in a loop that never turns.
    End,
}

/// The bytes of the C library's last call of a thread: `xor %edi,%edi; mov %edx,%eax; syscall`, and
/// back to the first.
const END: [u8; 8] = [0x31, 0xff, 0x89, 0xd0, 0x0f, 0x05, 0xeb, 0xf8];

/// The length of an instruction that means the same anywhere and neither jumps nor looks at memory:
/// what is done with the outcome of a call.
fn movable(code: &[u8]) -> Option<usize> {
    let registers = |n: usize| code.get(n).is_some_and(|byte| *byte >= 0xc0);
    Some(match code {
        // cmp $imm,%rax; cmp $imm,%eax
        [0x48, 0x3d, ..] => 6,
        [0x3d, ..] => 5,
        // cmp $imm8,%rax and %ax
        [0x48 | 0x66, 0x83, 0xf8, ..] => 4,
        [0x83, 0xf8, ..] => 3,
        // mov, test, xor between registers
        [
            0x48 | 0x49 | 0x4c | 0x4d | 0x41 | 0x44 | 0x45,
            0x89 | 0x85 | 0x31 | 0x63,
            ..,
        ] if registers(2) => 3,
        [0x89 | 0x85 | 0x31, ..] if registers(1) => 2,
        _ => return None,
    })
}

/// Whether an instruction of five bytes moves a register to or from the stack, and so means the
/// same anywhere: `mov %r11,8(%rsp)`, `mov 16(%rsp),%r9`. C libraries fetch the last argument so.
fn is_stack_move(code: [u8; 5]) -> bool {
    matches!(code, [0x48 | 0x4c, 0x89 | 0x8b, how, 0x24, _] if how & 0xc7 == 0x44)
}

/// Whether the five bytes of `mov $n,%eax` may be the end of a longer instruction, by what is
/// before them: `mov $n,%r8d`, `mov n(%r8),%rdi`, `movzbl n(%r8),%edi`, `movl $n,-72(%rbp)`.
fn may_be_longer(before: &[u8]) -> bool {
    const RELATIVE_TO_R8: u8 = 0xf1;
    const WITH_NUMBER: [u8; 4] = [0xc7, 0x81, 0x69, 0xf7];
    let has_short_offset = |how: u8| how >> 6 == 1;
    match before {
        // A prefix.
        [.., 0x40..=0x4f | 0x66] => true,
        // 0xb8 says which registers, a number of four bytes follows.
        [.., prefix, 0x03..=0x8f] if prefix & RELATIVE_TO_R8 == 0x41 => true,
        [.., 0x0f, 0xaf | 0xb6 | 0xb7 | 0xbe | 0xbf] => true,
        // 0xb8 is a distance, and the number is what is stored there.
        [.., operation, how] if WITH_NUMBER.contains(operation) && has_short_offset(*how) => true,
        [.., operation, how, _]
            if WITH_NUMBER.contains(operation) && has_short_offset(*how) && how & 7 == 4 =>
        {
            true
        }
        _ => false,
    }
}

/// Whether a function ends here, with two bytes behind it that are never executed.
fn is_end(code: &[u8]) -> bool {
    let padding = code.get(1..3).unwrap_or(&[]);
    code.first() == Some(&0xc3)
        && matches!(
            padding,
            [0x66, 0x0f | 0x2e | 0x66 | 0x90] | [0x0f, 0x1f] | [0x90, 0x90] | [0xcc, 0xcc]
        )
}

/// How many bytes behind a `syscall` can be replaced with it by a jump of five.
fn movable_behind(code: &[u8]) -> Option<usize> {
    if is_end(code) {
        return Some(1);
    }
    let mut len = 0;
    while len < 3 {
        len += movable(code.get(len..)?)?;
    }
    Some(len).filter(|len| *len <= MOVED_MAX && *len <= code.len())
}

/// Most bytes that a stub has room for.
const MOVED_MAX: usize = 8;

/// The call whose `syscall` is at `at` within `code`, which begins at `base`.
fn site(code: &[u8], at: usize, base: usize) -> Option<Site> {
    let number = |from: usize| -> Option<u32> {
        let bytes = code.get(from..from + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes)).filter(|n| (*n as usize) < dispatch::NUMBERS)
    };
    let before = |len: usize, opcode: &[u8]| {
        let from = at.checked_sub(len)?;
        let is_it = code.get(from..)?.starts_with(opcode);
        is_it.then_some(from)
    };
    let fixed = before(5, &[0xb8]).filter(|from| !code.get(..*from).is_some_and(may_be_longer));
    let fixed = fixed.map(|from| (from, from + 1));
    let fixed = fixed.or_else(|| before(7, &[0x48, 0xc7, 0xc0]).map(|from| (from, from + 3)));
    if let Some((from, place)) = fixed
        && let Some(n) = number(place)
    {
        return Some(Site {
            at: base + from,
            back: base + at + 2,
            call: Call::Number(n),
        });
    }
    if let Some(from) = before(4, &END) {
        return Some(Site {
            at: base + from,
            back: base + at,
            call: Call::End,
        });
    }
    let Some(len) = movable_behind(code.get(at + 2..)?) else {
        let from = at.checked_sub(5)?;
        let moved: [u8; 5] = code.get(from..at)?.try_into().ok()?;
        return is_stack_move(moved).then_some(Site {
            at: base + from,
            back: base + at + 2,
            call: Call::Behind(moved),
        });
    };
    Some(Site {
        at: base + at,
        back: base + at + 2 + len,
        call: Call::Variable(len),
    })
}

/// Where a byte is first, found by the C library's vector code: programs have many megabytes.
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let first = bytes.as_ptr();
    // SAFETY: looks at these bytes.
    let found = unsafe { libc::memchr(first.cast(), i32::from(byte), bytes.len()) };
    (!found.is_null()).then(|| found.addr() - first.addr())
}

/// Every site in a piece of code.
pub(super) fn sites(piece: &Range<usize>) -> impl Iterator<Item = Site> {
    // SAFETY: readable memory of a file's code, which stays where it is while it is executed.
    let code = unsafe {
        std::slice::from_raw_parts(std::ptr::with_exposed_provenance(piece.start), piece.len())
    };
    let base = piece.start;
    let mut from = 1;
    std::iter::from_fn(move || {
        loop {
            // Of its two bytes the second is the rarer one.
            let second = from + find(0x05, code.get(from..)?)?;
            from = second + 1;
            if code.get(second - 1) == Some(&0x0f)
                && let Some(site) = site(code, second - 1, base)
            {
                return Some(site);
            }
        }
    })
}
#[cfg(test)]
mod tests {
    use super::*;

    const BASE: usize = 0x1000;
    const SYSCALL: [u8; 2] = [0x0f, 0x05];

    /// The site in code with a `syscall` between two pieces.
    fn between(before: &[u8], behind: &[u8]) -> Option<Site> {
        let code = [before, &SYSCALL, behind].concat();
        site(&code, before.len(), BASE)
    }

    #[test]
    fn a_number_in_the_instruction_before() {
        // mov $1,%eax; syscall: and mov $1,%rax
        for (before, at) in [
            (&[0x90, 0xb8, 1, 0, 0, 0][..], 1),
            (&[0x48, 0xc7, 0xc0, 1, 0, 0, 0], 0),
        ] {
            let expected = Site {
                at: BASE + at,
                back: BASE + before.len() + 2,
                call: Call::Number(1),
            };
            assert_eq!(between(before, &[]), Some(expected));
        }
        // No call has that number: the bytes may be part of something else.
        assert_eq!(between(&[0xb8, 0, 0, 0, 1], &[]), None);
    }

    #[test]
    fn no_number_at_the_end_of_a_longer_instruction() {
        for before in [
            // mov $4,%r8d; mov $4,%r8w
            &[0x41, 0xb8, 4, 0, 0, 0][..],
            &[0x66, 0x41, 0xb8, 4, 0, 0, 0],
            // mov 0x104(%r8),%rdi; lea 0x104(%r8),%rdi
            &[0x49, 0x8b, 0xb8, 4, 1, 0, 0],
            &[0x49, 0x8d, 0xb8, 4, 1, 0, 0],
            // movzbl 0x104(%r8),%edi
            &[0x41, 0x0f, 0xb6, 0xb8, 4, 1, 0, 0],
            // movl $4,-72(%rbp); movl $4,-72(%rsp); cmpl $4,-72(%rbp); imul $4,-72(%rbp),%edi
            &[0xc7, 0x45, 0xb8, 4, 0, 0, 0],
            &[0xc7, 0x44, 0x24, 0xb8, 4, 0, 0, 0],
            &[0x81, 0x7d, 0xb8, 4, 0, 0, 0],
            &[0x69, 0x7d, 0xb8, 4, 0, 0, 0],
        ] {
            assert_eq!(between(before, &[]), None, "{before:02x?}");
            // What is behind is not in doubt: test %rax,%rax
            let behind = between(before, &[0x48, 0x85, 0xc0]);
            assert_eq!(behind.map(|site| site.call), Some(Call::Variable(3)));
        }
        // xor %edi,%edi; mov %rsi,%rdi; pop %rdi; call
        for before in [
            &[0x31, 0xff][..],
            &[0x48, 0x89, 0xf7],
            &[0x5f],
            &[0xe8, 1, 2, 0, 0],
        ] {
            let code = [before, &[0xb8, 1, 0, 0, 0]].concat();
            assert_eq!(
                between(&code, &[]).map(|site| site.call),
                Some(Call::Number(1))
            );
        }
    }

    #[test]
    fn a_number_in_the_register() {
        for (behind, len) in [
            // cmp $-4096,%rax
            (&[0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x77][..], Some(6)),
            // cmp $-4095,%eax
            (&[0x3d, 0x01, 0xf0, 0xff, 0xff], Some(5)),
            // test %rax,%rax
            (&[0x48, 0x85, 0xc0], Some(3)),
            // mov %eax,%ebx; mov %ecx,%edx
            (&[0x89, 0xc3, 0x89, 0xca], Some(4)),
            // ret and its padding; ret and what may be executed
            (&[0xc3, 0x66, 0x90], Some(1)),
            (&[0xc3, 0x48, 0x89], None),
            // mov %rax,(%rdi): looks at memory
            (&[0x48, 0x89, 0x07], None),
            // jmp
            (&[0xeb, 0x10, 0x90], None),
            // cut off
            (&[0x48, 0x3d, 0x00], None),
            (&[], None),
        ] {
            let found = between(&[0x90], behind);
            let expected = len.map(|len| Site {
                at: BASE + 1,
                back: BASE + 3 + len,
                call: Call::Variable(len),
            });
            assert_eq!(found, expected, "{behind:02x?}");
        }
    }

    #[test]
    fn a_move_from_the_stack_before() {
        // mov 8(%rsp),%r9; mov %r11,8(%rsp)
        for moved in [[0x4c, 0x8b, 0x4c, 0x24, 8], [0x4c, 0x89, 0x5c, 0x24, 8]] {
            let expected = Site {
                at: BASE,
                back: BASE + 7,
                call: Call::Behind(moved),
            };
            assert_eq!(between(&moved, &[0xeb]), Some(expected));
        }
        // mov 8(%rax),%r9: five bytes would be another instruction
        assert_eq!(between(&[0x90, 0x4c, 0x8b, 0x48, 8], &[0xeb]), None);
        assert_eq!(between(&[0x24, 8], &[0xeb]), None);
    }

    #[test]
    fn the_end_of_a_thread() {
        let code = [&END[..], &[0x90]].concat();
        let expected = Site {
            at: BASE,
            back: BASE + 4,
            call: Call::End,
        };
        assert_eq!(site(&code, 4, BASE), Some(expected));
    }

    #[test]
    fn all_sites_of_a_piece_are_found_in_order() {
        let code: &[u8] = &[
            // syscall at the very beginning, with nothing movable behind it
            0x0f, 0x05, 0xeb, 0x05, 0x90, // its second byte alone
            0x05, 0x0f, 0x90, // mov $39,%eax; syscall
            0xb8, 39, 0, 0, 0, 0x0f, 0x05, // syscall; test %rax,%rax
            0x0f, 0x05, 0x48, 0x85, 0xc0, // cut off
            0x0f,
        ];
        let from = code.as_ptr().expose_provenance();
        let found: Vec<_> = sites(&(from..from + code.len())).collect();
        let calls: Vec<_> = found
            .iter()
            .map(|site| (site.at - from, site.call))
            .collect();
        assert_eq!(calls, [(8, Call::Number(39)), (15, Call::Variable(3))]);
    }
}
