//! A new file for `specs/`, from the plain text of an RFC.
//!
//! ```text
//! cargo xtask rfc extract rfc9293.txt text=3.10 skip=A,B > specs/rfc9293.toml
//! ```
//!
//! What is kept: sentences with MUST, SHOULD, MAY and their like; in small letters too, as MUST
//! and so on where the RFC is older than RFC 2119, as plain text elsewhere. `text=` keeps every
//! sentence of some sections, for algorithms that are told as steps. `skip=` leaves sections out.
//! Page breaks, tables, drawings, contents and references are never kept. Read the result before
//! it is committed: an RFC is written for people.

use super::spec::{Level, labels, sentences};
use crate::explain::Explained;
use std::path::Path;

/// Columns of a line of a quote.
const WIDTH: usize = 96;

/// Prints the file for one RFC.
pub(super) fn run(root: &Path, words: &[&str]) -> Result<bool, Explained> {
    let Some((file, options)) = words.split_first() else {
        return Err(Explained::new(
            "no file is named",
            "the sentences come from the text of an RFC",
            "cargo xtask rfc extract rfc9293.txt text=3.10 skip=A,B > specs/rfc9293.toml",
        ));
    };
    let bytes = std::fs::read(root.join(file)).map_err(|error| {
        Explained::new(
            format!("{file} cannot be read"),
            error.to_string(),
            "name the file's path",
        )
    })?;
    let list = |name: &str| -> Vec<String> {
        let values = options
            .iter()
            .filter_map(|option| option.strip_prefix(name));
        values
            .flat_map(|value| value.split(','))
            .map(str::to_owned)
            .collect()
    };
    let (keep, skip) = (list("text="), list("skip="));
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    let name = Path::new(file)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("");
    let Some(number) = name
        .strip_prefix("rfc")
        .and_then(|digits| digits.parse::<u32>().ok())
    else {
        return Err(Explained::new(
            format!("{file} is not named after an RFC"),
            "the number of the RFC comes from the name of the file",
            "rename it: rfc9293.txt",
        ));
    };
    print!("{}", spec_file(number, &text, &keep, &skip));
    Ok(true)
}

fn spec_file(number: u32, text: &str, keep: &[String], skip: &[String]) -> String {
    let pages = without_page_breaks(text.trim_start_matches('\u{feff}'));
    let modern = pages.contains("MUST") || pages.contains("SHOULD");
    let url = format!("https://www.rfc-editor.org/rfc/rfc{number}");
    let mut out = format!(
        "# Requirement sentences of RFC {number}, quoted from {url}\n\
         rfc = {number}\ntitle = {:?}\nurl = \"{url}\"\n",
        title(&pages)
    );
    for (section, paragraph) in paragraphs(&pages) {
        let inside = |list: &[String]| list.iter().any(|prefix| is_within(&section, prefix));
        if inside(skip) {
            continue;
        }
        for sentence in split(&paragraph) {
            let level = level(&sentence, modern);
            let kept = inside(keep) && sentence.split(' ').count() > 2;
            let level = level.or(kept.then_some(Level::Text));
            if let Some(level) = level.filter(|_| !is_about_words(&sentence)) {
                out.push_str(&entry(&section, level, &sentence));
            }
        }
    }
    out
}

fn entry(section: &str, level: Level, sentence: &str) -> String {
    let name = match level {
        Level::Must => "MUST",
        Level::Should => "SHOULD",
        Level::May => "MAY",
        Level::Text => "TEXT",
    };
    let ids = labels(sentence);
    let ids = if ids.is_empty() {
        String::new()
    } else {
        format!("id = {ids:?}\n")
    };
    let quote = wrapped(sentence).replace("'''", "'' '");
    let head = format!("\n[[requirement]]\nsection = \"{section}\"\nlevel = \"{name}\"\n");
    format!("{head}{ids}quote = '''\n{quote}'''\n")
}

fn wrapped(sentence: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in sentence.split_whitespace() {
        if column > 0 && column + 1 + word.len() > WIDTH {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
    out
}

/// Whether a section is a given one or below it.
fn is_within(section: &str, prefix: &str) -> bool {
    let rest = section.strip_prefix(prefix);
    prefix == "*" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The strength of a sentence by its strongest word.
fn level(sentence: &str, modern: bool) -> Option<Level> {
    let has = |words: &[&str]| {
        let mut pieces = sentence.split(|c: char| !c.is_alphanumeric());
        pieces.any(|piece| words.contains(&piece))
    };
    let must = has(&["MUST", "SHALL", "REQUIRED"]);
    let should = has(&["SHOULD", "RECOMMENDED"]);
    let may = has(&["MAY", "OPTIONAL"]);
    match (must, should, may) {
        (true, ..) => return Some(Level::Must),
        (_, true, _) => return Some(Level::Should),
        (.., true) => return Some(Level::May),
        _ => {}
    }
    match labels(sentence).first() {
        Some(label) if label.starts_with("MUST") => return Some(Level::Must),
        Some(label) if label.starts_with("MAY") => return Some(Level::May),
        Some(_) => return Some(Level::Should),
        None => {}
    }
    let small = if has(&["must", "shall", "required"]) {
        Level::Must
    } else if has(&["should", "recommended"]) {
        Level::Should
    } else if has(&["may"]) && !modern {
        Level::May
    } else {
        return None;
    };
    Some(if modern { Level::Text } else { small })
}

/// The sentence that says what the words mean is no requirement.
fn is_about_words(sentence: &str) -> bool {
    sentence.contains("\"MUST") || sentence.contains("\"SHOULD") || sentence.contains("\"MAY\"")
}

/// Sentences of a paragraph: two blanks after a dot end one even before a small letter.
fn split(paragraph: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = String::new();
    let mut rest = paragraph;
    while let Some((head, tail)) = rest.split_once("  ") {
        open.push_str(head);
        if head
            .trim_end_matches([')', '"', ']'])
            .ends_with(['.', '!', '?'])
        {
            found.extend(sentences(&open));
            open.clear();
        } else {
            open.push(' ');
        }
        rest = tail.trim_start();
    }
    open.push_str(rest);
    found.extend(sentences(&open));
    found
}

/// The first centred line after the head of the document.
fn title(text: &str) -> String {
    let lines = text
        .lines()
        .map(str::trim_end)
        .skip_while(|line| line.is_empty());
    let mut after_head = lines
        .skip_while(|line| !line.is_empty())
        .filter(|line| !line.is_empty());
    after_head.next().unwrap_or("").trim().to_owned()
}

/// Takes out page footers and headers, and joins the paragraphs that they cut.
fn without_page_breaks(text: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let mut after_break = false;
    for line in text.lines().map(str::trim_end) {
        if line.ends_with(']') && (line.contains("[Page ") || line.contains("[page ")) {
            while out.last().is_some_and(|last| last.is_empty()) {
                out.pop();
            }
            after_break = true;
        } else if after_break && (line.trim().is_empty() || line.trim() == "\u{c}") {
            // Nothing of the text.
        } else if after_break && is_page_head(line) {
            // The running head of the new page.
        } else {
            let line = line.trim_start_matches('\u{c}');
            let cut = out
                .last()
                .is_some_and(|last| !last.ends_with(['.', ':', ';', '!', '?', ')']));
            let small = line
                .trim_start()
                .chars()
                .next()
                .is_some_and(char::is_lowercase);
            if after_break && !(cut || small) {
                out.push("");
            }
            after_break = false;
            out.push(line);
        }
    }
    out.join("\n")
}

fn is_page_head(line: &str) -> bool {
    let line = line.trim_start_matches('\u{c}');
    let year = line
        .rsplit(' ')
        .next()
        .and_then(|word| word.parse::<u32>().ok());
    let alone = !line.starts_with(' ') || line.trim().len() < 15;
    alone && (line.starts_with("RFC") || year.is_some_and(|year| (1969..2100).contains(&year)))
}

/// Paragraphs as single lines, each with the number of its section.
fn paragraphs(text: &str) -> Vec<(String, String)> {
    let flush_left = is_flush_left(text);
    let title = title(text);
    let mut found = Vec::new();
    let mut section = String::new();
    // What stands before the title names authors and dates.
    let mut wanted = false;
    for block in text.split("\n\n") {
        let mut lines: Vec<&str> = block
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let head = lines.first().and_then(|line| heading(line, flush_left));
        if let Some((number, name)) = head.filter(|(number, _)| is_after(number, &section)) {
            wanted = !is_tail(&name);
            section = number;
            lines.remove(0);
        } else if lines.first().is_some_and(|line| is_tail(line)) {
            wanted = false;
        } else if lines.first().is_some_and(|line| line.trim() == title) {
            wanted = true;
            lines.clear();
        }
        unquote(&mut lines);
        if wanted && !lines.iter().any(|line| is_drawn(line)) {
            found.push((section.clone(), joined(&lines)));
        }
    }
    // With numbered sections, what comes before the first one binds nobody.
    if found.iter().any(|(section, _)| !section.is_empty()) {
        found.retain(|(section, _)| !section.is_empty());
    }
    found
}

/// Whether headings start in the first column, as in all but the oldest RFCs.
fn is_flush_left(text: &str) -> bool {
    let deep = |line: &&str| heading(line, false).is_some_and(|(number, _)| number.contains('.'));
    let (flush, indented): (Vec<_>, Vec<_>) = text
        .lines()
        .filter(deep)
        .partition(|line| !line.starts_with(' '));
    // The table of contents is indented and may name each of them once.
    flush.len() * 2 >= indented.len()
}

/// Takes the bar from lines that quote another document behind one.
fn unquote(lines: &mut [&str]) {
    let quoted = |line: &&str| match line.trim() {
        "|" => true,
        line => line.starts_with("|  ") && !line.ends_with('|'),
    };
    if lines.iter().all(quoted) {
        for line in lines {
            *line = line.trim().trim_start_matches('|').trim();
        }
    }
}

fn is_drawn(line: &str) -> bool {
    ["|", "+-", ". . .", "---", "==="]
        .iter()
        .any(|stroke| line.contains(stroke))
}

/// Lines as one; a word that was broken at its hyphen becomes whole.
fn joined(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines.iter().map(|line| without_bullet(line.trim())) {
        let hyphen = text.ends_with('-') && !text.ends_with(" -");
        if !text.is_empty() && !hyphen {
            text.push(' ');
        }
        text.push_str(line);
    }
    text
}

/// Sections after the text, numbered or not.
fn is_tail(name: &str) -> bool {
    let first = name.split_whitespace().next().unwrap_or("").to_lowercase();
    let known = [
        "references",
        "acknowledgments",
        "acknowledgements",
        "index",
        "contributors",
    ];
    known.contains(&first.as_str()) || first.starts_with("author") || name.ends_with(" References")
}

fn without_bullet(line: &str) -> &str {
    let bullets = ["o  ", "*  ", "-  ", "o ", "* "];
    let bare = bullets.iter().find_map(|bullet| line.strip_prefix(bullet));
    bare.unwrap_or(line).trim_start()
}

/// Number and name, if a line is a heading.
fn heading(line: &str, flush_left: bool) -> Option<(String, String)> {
    let indented = line.starts_with(' ');
    if flush_left && indented || line.contains("...") || line.contains(". .") {
        return None;
    }
    let line = line.trim().trim_start_matches("Appendix ");
    let (number, name) = line.split_once(' ')?;
    let number = number.trim_end_matches(['.', ':']);
    let mut parts = number.split('.');
    let first = parts.next()?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let letter = first.len() == 1 && first.bytes().all(|b| b.is_ascii_uppercase());
    let deep = number.contains('.');
    // A date is a number and a name too: "28 Aug 1980".
    let marked = deep || line.contains(&format!("{number}."));
    let right = (marked && digits(first) || letter && line.contains(&format!("{number}.")))
        && parts.all(digits)
        && name
            .trim_start()
            .starts_with(|c: char| c.is_uppercase() || c == '"')
        && (flush_left || !indented || deep && name.starts_with(' ') && !name.ends_with('.'));
    right.then(|| (number.to_owned(), name.trim().to_owned()))
}

/// Whether a section number comes after another one: numbers only go up.
fn is_after(number: &str, current: &str) -> bool {
    let key = |number: &str| -> Vec<(bool, u32)> {
        let part = |part: &str| match part.parse() {
            Ok(value) => (false, value),
            Err(_) => (true, part.chars().next().map_or(0, u32::from)),
        };
        number
            .split('.')
            .filter(|part| !part.is_empty())
            .map(part)
            .collect()
    };
    key(number) > key(current)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Network Working Group                                  A. Author
Request for Comments: 7                                     1999

                     How to Count

1.  Words

   The key words \"MUST\" and \"SHOULD\" are those of RFC 2119.

2.  Rules

2.1.  First Rule

   Nothing here binds.  A host MUST count, e.g. from one, and it is not
   required to stop (MUST-
   1).  cwnd SHOULD

Author                    Standards Track                   [Page 1]
\u{c}
RFC 7                       How to Count                   June 1999

   grow.  It must wait.

   o  A bullet MAY be
      long.

   +------+
   | MUST |
   +------+

2.2.  Steps

   Send the count.

3.  References

   [1]  This MUST NOT be kept.
";

    #[test]
    fn sentences_keep_section_level_and_label() {
        let text = spec_file(7, TEXT, &["2.2".to_owned()], &[]);
        let spec: super::super::spec::Spec = toml::from_str(&text).expect("what was written");
        assert_eq!((spec.rfc, spec.title.as_str()), (7, "How to Count"));
        let first = "A host MUST count, e.g. from one, and it is not required to stop (MUST-1).";
        let expected = [
            ("2.1", Level::Must, first),
            ("2.1", Level::Should, "cwnd SHOULD grow."),
            ("2.1", Level::Text, "It must wait."),
            ("2.1", Level::May, "A bullet MAY be long."),
            ("2.2", Level::Text, "Send the count."),
        ];
        let found: Vec<_> = spec
            .requirement
            .iter()
            .map(|entry| (entry.section.as_str(), entry.level, entry.quote.trim()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(spec.requirement[0].id, ["MUST-1"]);
    }

    #[test]
    fn a_heading_is_a_number_and_a_name() {
        let rows = [
            ("2.1.  First Rule", true, Some("2.1")),
            ("   2.1.  First Rule", true, None),
            ("   2.1  First Rule", false, Some("2.1")),
            ("   2. A list item", false, None),
            ("Appendix B.  Summary", true, Some("B")),
            ("A.1.  Labels", true, Some("A.1")),
            ("A host counts", true, None),
            ("28 Aug 1980", true, None),
            ("1.  Introduction ......... 3", true, None),
        ];
        for (line, flush_left, expected) in rows {
            let found = heading(line, flush_left).map(|(number, _)| number);
            assert_eq!(found.as_deref(), expected, "{line}");
        }
        assert!(is_after("3.10", "3.9.2"));
        assert!(is_after("A", "9"));
        assert!(!is_after("1", "4.4"));
    }
}
