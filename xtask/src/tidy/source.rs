//! Reading Rust just well enough: without comments, strings and character literals.

/// Whether the first thing in a file, attributes aside, is its `//!`.
pub(super) fn opens_with_docs(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines
        .find(|line| !line.is_empty() && !line.starts_with("#!"))
        .is_some_and(|line| line.starts_with("//!"))
}

/// The first line with the keyword `unsafe` in code.
pub(super) fn line_of_unsafe(text: &str) -> Option<usize> {
    let code = code_of(text);
    let found = code.lines().position(|line| has_word(line, "unsafe"));
    found.map(|line| line + 1)
}

/// The first line of code, but for tests at the file's end, in which one of `words` stands; the line's number and the word.
pub(super) fn line_of<'a>(text: &str, words: &[&'a str]) -> Option<(usize, &'a str)> {
    let code = code_before_tests(text);
    code.lines().enumerate().find_map(|(at, line)| {
        let word = words.iter().find(|word| has_word(line, word))?;
        Some((at + 1, *word))
    })
}

/// The code of a file, without comments and literals, up to the tests at its end.
pub(super) fn code_before_tests(text: &str) -> String {
    let mut code = code_of(text);
    let tests = code.find("#[cfg(test)]\nmod tests {");
    code.truncate(tests.unwrap_or(code.len()));
    code
}

/// Where `word` stands in `code` by itself, first.
pub(super) fn find_word(code: &str, word: &str) -> Option<usize> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut places = code.match_indices(word).map(|(at, _)| at);
    places.find(|&at| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(is_name) && !after.starts_with(is_name)
    })
}

/// Whether `word` stands in `line` by itself, not inside a longer name.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    find_word(line, word).is_some()
}

/// `text` with comments and literals blanked; lines stay where they are.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped(rest, code.chars().next_back());
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            let gone = &rest[..skipped];
            code.extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    code
}

/// Bytes of the comment or literal that `rest` begins with; zero if it begins with code.
fn skipped(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('"') {
        return string(rest);
    }
    let in_a_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with('r') && !in_a_name {
        return raw_string(rest);
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    0
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> usize {
    let hashes = rest[1..].bytes().take_while(|&b| b == b'#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    rest[body..]
        .find(&end)
        .map_or(rest.len(), |at| body + at + end.len())
}

/// A character literal, and not a lifetime: closed after one character, or after an escape.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, c))) => {
            let escape = at + c.len_utf8();
            rest[escape..].find('\'').map_or(0, |end| escape + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_seen_in_code_only() {
        for code in [
            "unsafe { x }",
            "let s = \"a\\\"b\"; unsafe { x }",
            "/* a /* b */ c */ unsafe fn f() {}",
            "let c = '\"'; unsafe impl Send for X {}",
            "let c = '\\''; let l: &'a str = r#\"\"x\"#; pub unsafe fn f() {}",
        ] {
            assert_eq!(line_of_unsafe(code), Some(1), "{code}");
        }
        for code in [
            "// unsafe",
            "#![allow(unsafe_code)]",
            "\"unsafe\"",
            "r##\"unsafe \"# still\"##",
            "/* /* */ unsafe */",
            "let not_unsafe = 'u'; // unsafe",
        ] {
            assert_eq!(line_of_unsafe(code), None, "{code}");
        }
        assert_eq!(line_of_unsafe("// unsafe\n\"\n\"\nunsafe"), Some(4));
    }

    #[test]
    fn a_word_is_seen_in_code_and_not_in_the_tests_behind_it() {
        let words = ["Instant::now", "sleep"];
        let code = "// sleep\nlet s = \"sleep\";\nlet t = Instant::now();\n";
        assert_eq!(line_of(code, &words), Some((3, "Instant::now")));
        assert_eq!(line_of("use sleeper;\nasleep();\n", &words), None);
        let tests = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    sleep();\n}\n";
        assert_eq!(line_of(tests, &words), None);
        let one = "#[cfg(test)]\nfn f() {\n    sleep();\n}\n";
        assert_eq!(line_of(one, &words), Some((3, "sleep")));
    }

    #[test]
    fn a_file_opens_with_its_docs() {
        assert!(opens_with_docs("\n#![allow(x)]\n//! What.\n"));
        assert!(!opens_with_docs("use x;\n//! Late.\n"));
        assert!(!opens_with_docs(""));
    }
}
