//! Text from a stranger (a peer, a file) as a terminal may show it.

use std::fmt::Write;

/// `text` on one line: characters that a terminal would act on, or that cannot be seen, are written as escapes
/// (`\u{1b}`, `\n`), and of a long text the first `chars_max` characters are kept, with a note of what was cut.
///
/// Quotes and backslashes stay as they are, so that SQL and paths read as they were written.
pub fn printable(text: &str, chars_max: usize) -> String {
    let end = text.char_indices().nth(chars_max).map(|(at, _)| at);
    let (kept, cut) = text.split_at(end.unwrap_or(text.len()));
    let mut shown = String::with_capacity(kept.len());
    for c in kept.chars() {
        match c {
            '\'' | '"' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    if !cut.is_empty() {
        write!(shown, "… ({} more bytes)", cut.len()).expect("a String takes all");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "l_shipmode IN ('AIR') \"x\" \\d", "Größe 東 µs … ≤"] {
            assert_eq!(printable(text, 100), text);
        }
    }

    #[test]
    fn what_a_terminal_acts_on_is_escaped() {
        // Colours and titles, in seven and in eight bits; a bell; a new line; a reversed direction; a byte-order mark.
        for text in [
            "\u{1b}[31mred\u{1b}[0m",
            "\u{1b}]0;title\u{7}",
            "\u{9b}2J",
            "a\rb\nc\td\u{8}\u{7f}\0",
            "\u{202e}gnp.exe\u{2066}\u{200b}\u{feff}\u{2028}",
        ] {
            let shown = printable(text, 100);
            assert!(shown.contains('\\'), "{shown}");
            let acted_on = |c: char| c.is_control() || ('\u{200b}'..='\u{206f}').contains(&c);
            assert!(
                !shown.contains(acted_on) && !shown.contains('\u{feff}'),
                "{shown}"
            );
        }
        assert_eq!(printable("a\u{1b}b\n", 100), "a\\u{1b}b\\n");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(printable("ööööö", 5), "ööööö");
        assert_eq!(printable("ööööö", 3), "ööö… (4 more bytes)");
        assert!(printable(&"x".repeat(20_000_000), 200).len() < 250);
    }
}
