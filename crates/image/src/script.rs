//! The first line of a script, as the kernel reads it (execve(2), "Interpreter scripts").

/// Bytes of the first line that the kernel looks at.
const LINE_MAX: usize = 256;

/// What a script asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script<'a> {
    /// The path of its interpreter.
    pub interpreter: &'a [u8],
    /// The one argument that may follow it: all the rest of the line.
    pub argument: Option<&'a [u8]>,
}

/// The first line of a file that begins with `head`. `None`: no script, or one that the kernel is
/// to judge, as a path that does not end within the first line.
#[must_use]
pub fn script(head: &[u8]) -> Option<Script<'_>> {
    let head = head.get(..LINE_MAX).unwrap_or(head);
    let rest = head.strip_prefix(b"#!")?;
    let end = rest.iter().position(|byte| *byte == b'\n');
    let line = match end {
        Some(end) => rest.get(..end)?,
        // A longer line is cut by some kernels and refused by others.
        None if head.len() == LINE_MAX => return None,
        None => rest,
    };
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = trim(line, is_blank);
    if line.contains(&0) {
        return None;
    }
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at_checked(end)?;
    if interpreter.is_empty() {
        return None;
    }
    let argument = Some(trim(rest, is_blank)).filter(|argument| !argument.is_empty());
    Some(Script {
        interpreter,
        argument,
    })
}

fn trim(mut line: &[u8], is_blank: impl Fn(&u8) -> bool) -> &[u8] {
    while let Some((_, rest)) = line.split_first().filter(|(byte, _)| is_blank(byte)) {
        line = rest;
    }
    while let Some((_, rest)) = line.split_last().filter(|(byte, _)| is_blank(byte)) {
        line = rest;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        let long = [b"#!/".as_slice(), &[b'a'; 300]].concat();
        for (head, expected) in [
            (b"#!/bin/sh\necho".as_slice(), Some(("/bin/sh", None))),
            (b"#!/bin/sh", Some(("/bin/sh", None))),
            (b"#! \t/bin/sh  -e x \t\n", Some(("/bin/sh", Some("-e x")))),
            (b"#!/bin/busybox sh\n", Some(("/bin/busybox", Some("sh")))),
            (b"#!\n/bin/sh\n", None),
            (b"#!   \n", None),
            (b"#!", None),
            (b"#", None),
            (b"", None),
            (b"\x7fELF", None),
            (b"#!/bin/\0sh\n", None),
            (&long, None),
        ] {
            let found = script(head).map(|script| {
                let text = |bytes| str::from_utf8(bytes).unwrap();
                (text(script.interpreter), script.argument.map(text))
            });
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(head));
        }
    }
}
