//! Text of other programs on a terminal: names of processes, what a carrier lists.

/// `text` with everything that a terminal would obey instead of showing it written as escapes:
/// control characters of ASCII and ISO 6429, and what turns the direction of writing.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(letter.escape_unicode());
            }
            letter if letter.is_control() => out.extend(letter.escape_default()),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        for (text, shown) in [
            ("redis-server", "redis-server"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("größe 大", "größe 大"),
        ] {
            let printed = printable(text);
            assert_eq!(printed, shown);
            assert!(!printed.contains(char::is_control));
        }
    }
}
