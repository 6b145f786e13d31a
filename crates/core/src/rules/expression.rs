//! Expressions in PCRE's syntax, read: what is regular of it, over bytes.
//!
//! Only the set of strings counts, for it alone says where the first match ends: greedy and lazy are the same, and groups
//! capture nothing.

use super::{ByteSet, Flags, Look, Node};

/// Groups inside groups, at most: reading and compiling recurse.
const DEPTH_MAX: usize = 200;
/// The largest count in braces, as in Hyperscan.
const COUNT_MAX: u32 = 32_767;

const WORD: &[(u8, u8)] = &[(b'0', b'9'), (b'A', b'Z'), (b'_', b'_'), (b'a', b'z')];
const SPACE: &[(u8, u8)] = &[(b'\t', b'\r'), (b' ', b' ')];
const DIGIT: &[(u8, u8)] = &[(b'0', b'9')];
const BLANK: &[(u8, u8)] = &[(b'\t', b'\t'), (b' ', b' ')];

/// What `expression` means.
///
/// # Errors
/// What is not regular, is malformed, or means different things to different libraries.
pub(super) fn parse(expression: &[u8], flags: Flags) -> Result<Node, String> {
    let mut parser = Parser {
        text: expression,
        at: 0,
        depth: 0,
        is_quoted: false,
    };
    let node = parser.alternatives(flags)?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.wrong("`)` without `(`")),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    /// Between `\Q` and `\E`.
    is_quoted: bool,
}

/// What stands behind a backslash.
enum Escape {
    Byte(u8),
    Set(ByteSet),
    Look(Look),
    /// `\Q`.
    Quote,
    /// `\E`.
    EndOfQuote,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    /// Goes past `text` if it comes next.
    fn take(&mut self, text: &[u8]) -> bool {
        let is_next = self.rest().starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    fn wrong(&self, what: &str) -> String {
        format!("{what} (at byte {} of the expression)", self.at + 1)
    }

    /// Up to the end or the bracket that closes the group. Flags that change inside stay changed for what follows in the
    /// group.
    fn alternatives(&mut self, mut flags: Flags) -> Result<Node, String> {
        let (mut branches, mut terms) = (Vec::new(), Vec::new());
        loop {
            if self.is_quoted {
                if self.take(b"\\E") {
                    self.is_quoted = false;
                    continue;
                }
            } else if flags.extended {
                self.skip_blank();
            }
            match self.peek() {
                None => break,
                Some(b')') if !self.is_quoted => break,
                Some(b'|') if !self.is_quoted => {
                    self.at += 1;
                    branches.push(Node::Concat(std::mem::take(&mut terms)));
                }
                Some(_) => {
                    if let Some(atom) = self.atom(&mut flags)? {
                        terms.push(self.repeated(atom, flags)?);
                    }
                }
            }
        }
        branches.push(Node::Concat(terms));
        Ok(Node::Either(branches))
    }

    /// White space and comments of the flag `x`.
    fn skip_blank(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t'..=b'\r' => self.at += 1,
                b'#' => {
                    let len = self.rest().iter().position(|byte| *byte == b'\n');
                    self.at = len.map_or(self.text.len(), |len| self.at + len + 1);
                }
                _ => return,
            }
        }
    }

    /// What can be repeated; `None` for what only changes how the rest is read.
    fn atom(&mut self, flags: &mut Flags) -> Result<Option<Node>, String> {
        let byte = self.peek().expect("there is more");
        if self.is_quoted {
            self.at += 1;
            return Ok(Some(literal(byte, *flags)));
        }
        let node = match byte {
            b'(' => return self.group(flags),
            b'[' if self.posix_len().is_some() => {
                return Err(self.wrong("names of POSIX classes stand inside brackets"));
            }
            b'[' => {
                self.at += 1;
                Node::Set(self.class(*flags)?)
            }
            b'*' | b'+' | b'?' => return Err(self.wrong("nothing to repeat")),
            b'{' if self.counts()?.is_some() => return Err(self.wrong("nothing to repeat")),
            b'\\' => match self.escape(false)? {
                Escape::Byte(byte) => literal(byte, *flags),
                Escape::Set(set) => Node::Set(set),
                Escape::Look(look) => Node::Look(look),
                Escape::Quote => {
                    self.is_quoted = true;
                    return Ok(None);
                }
                Escape::EndOfQuote => return Ok(None),
            },
            _ => {
                self.at += 1;
                match byte {
                    b'.' if flags.dot_all => Node::Set(set(&[(0, 0xff)])),
                    b'.' => Node::Set(negated(&[(b'\n', b'\n')])),
                    b'^' if flags.multi_line => Node::Look(Look::LineStart),
                    b'^' => Node::Look(Look::Start),
                    b'$' if flags.multi_line => Node::Look(Look::LineEnd),
                    b'$' => Node::Look(Look::End),
                    byte => literal(byte, *flags),
                }
            }
        };
        Ok(Some(node))
    }

    /// `atom` as often as what follows says.
    fn repeated(&mut self, atom: Node, flags: Flags) -> Result<Node, String> {
        while self.take(b"\\E") {
            self.is_quoted = false;
        }
        if self.is_quoted {
            return Ok(atom);
        }
        if flags.extended {
            self.skip_blank();
        }
        let Some((min, max)) = self.counts()? else {
            return Ok(atom);
        };
        // As in PCRE2, which takes one behind a group of an assertion.
        if matches!(atom, Node::Look(_)) {
            return Err(self.wrong("a quantifier behind an assertion"));
        }
        if self.peek() == Some(b'+') {
            return Err(self.wrong("possessive quantifiers are not supported"));
        }
        self.take(b"?");
        let start = self.at;
        if self.counts()?.is_some() {
            self.at = start;
            return Err(self.wrong("a quantifier behind another"));
        }
        Ok(Node::Repeat {
            node: Box::new(atom),
            min,
            max,
        })
    }

    /// A quantifier, if one comes next: at least, at most. A brace that is none stays where it is.
    fn counts(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let simple = match self.peek() {
            Some(b'*') => (0, None),
            Some(b'+') => (1, None),
            Some(b'?') => (0, Some(1)),
            Some(b'{') => return self.braces(),
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(simple))
    }

    fn braces(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let Some(len) = self.rest().iter().position(|byte| *byte == b'}') else {
            return Ok(None);
        };
        let inner = &self.rest()[1..len];
        let is_count = |byte: &u8| byte.is_ascii_digit() || *byte == b',';
        let commas = inner.iter().filter(|byte| **byte == b',').count();
        if inner.is_empty() || commas > 1 || inner == b"," || !inner.iter().all(is_count) {
            return Ok(None);
        }
        if inner[0] == b',' {
            return Err(self.wrong("`{,n}` means different things to different libraries"));
        }
        let number = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).expect("digits");
            let count = digits.parse().ok().filter(|count| *count <= COUNT_MAX);
            count.ok_or_else(|| self.wrong(&format!("a count beyond {COUNT_MAX}")))
        };
        let (min, max) = match inner.iter().position(|byte| *byte == b',') {
            None => (number(inner)?, Some(number(inner)?)),
            Some(comma) if comma + 1 == inner.len() => (number(&inner[..comma])?, None),
            Some(comma) => (number(&inner[..comma])?, Some(number(&inner[comma + 1..])?)),
        };
        if max.is_some_and(|max| max < min) {
            return Err(self.wrong("counts out of order"));
        }
        self.at += len + 1;
        Ok(Some((min, max)))
    }

    /// From the bracket that opens it.
    fn group(&mut self, flags: &mut Flags) -> Result<Option<Node>, String> {
        let start = self.at;
        self.at += 1;
        let mut inner = *flags;
        if self.peek() == Some(b'*') {
            return Err(self.wrong("verbs are not supported"));
        }
        if self.take(b"?") {
            if self.take(b"#") {
                let end = self.rest().iter().position(|byte| *byte == b')');
                let end = end.ok_or_else(|| self.wrong("a comment without end"))?;
                self.at += end + 1;
                return Ok(None);
            }
            if let Some(changed) = self.group_kind(*flags)? {
                if self.take(b")") {
                    *flags = changed;
                    return Ok(None);
                }
                if !self.take(b":") {
                    return Err(self.wrong("neither `)` nor `:` behind flags"));
                }
                inner = changed;
            }
        }
        if self.depth == DEPTH_MAX {
            return Err(self.wrong("groups too deep inside each other"));
        }
        self.depth += 1;
        let node = self.alternatives(inner)?;
        self.depth -= 1;
        if self.take(b")") {
            return Ok(Some(node));
        }
        self.at = start;
        Err(self.wrong("`(` without `)`"))
    }

    /// Behind `(?`: the flags that it changes, or `None` and the group's content is next.
    fn group_kind(&mut self, flags: Flags) -> Result<Option<Flags>, String> {
        let kinds: [(&[u8], &str); 12] = [
            (b"=", "lookahead is not regular"),
            (b"!", "lookahead is not regular"),
            (b"<=", "lookbehind is not regular"),
            (b"<!", "lookbehind is not regular"),
            (b">", "atomic groups are not supported"),
            (b"(", "conditions are not supported"),
            (b"R", "recursion is not regular"),
            (b"&", "recursion is not regular"),
            (b"P>", "recursion is not regular"),
            (b"P=", "backreferences are not regular"),
            (b"C", "callouts are not supported"),
            (b"|", "branch reset groups are not supported"),
        ];
        for (prefix, why) in kinds {
            if self.rest().starts_with(prefix) {
                return Err(self.wrong(why));
            }
        }
        if self.take(b":") {
            return Ok(None);
        }
        for (open, close) in [(&b"P<"[..], b'>'), (b"<", b'>'), (b"'", b'\'')] {
            if self.take(open) {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let len = self.rest().iter().take_while(|byte| is_name(byte)).count();
                self.at += len;
                return match len > 0 && self.take(&[close]) {
                    true => Ok(None),
                    false => Err(self.wrong("not the name of a group")),
                };
            }
        }
        self.changed(flags).map(Some)
    }

    /// `flags` as changed by letters: `i-s`.
    fn changed(&mut self, mut flags: Flags) -> Result<Flags, String> {
        let mut is_on = true;
        loop {
            let flag = match self.peek() {
                Some(b'i') => &mut flags.caseless,
                Some(b's') => &mut flags.dot_all,
                Some(b'm') => &mut flags.multi_line,
                Some(b'x') => &mut flags.extended,
                Some(b'-') if is_on => {
                    is_on = false;
                    self.at += 1;
                    continue;
                }
                Some(b')' | b':') => return Ok(flags),
                Some(b'0'..=b'9' | b'+' | b'-') => {
                    return Err(self.wrong("recursion is not regular"));
                }
                _ => return Err(self.wrong("not a flag that is supported: i, s, m, x")),
            };
            *flag = is_on;
            self.at += 1;
        }
    }

    /// Behind the bracket that opens it.
    fn class(&mut self, flags: Flags) -> Result<ByteSet, String> {
        let start = self.at - 1;
        let is_negated = self.take(b"^");
        let mut class = ByteSet::EMPTY;
        let mut is_first = true;
        loop {
            let Some(byte) = self.peek() else {
                self.at = start;
                return Err(self.wrong("`[` without `]`"));
            };
            if byte == b']' && !is_first {
                self.at += 1;
                break;
            }
            is_first = false;
            match self.class_item(flags)? {
                Escape::Set(_) if self.is_range() => {
                    return Err(self.wrong("a range that starts in a class"));
                }
                Escape::Set(set) => class.unite(set),
                Escape::Byte(low) => {
                    let high = self.range_end(flags)?.unwrap_or(low);
                    if high < low {
                        return Err(self.wrong("a range out of order"));
                    }
                    class.insert(low, high);
                }
                Escape::Look(_) | Escape::Quote | Escape::EndOfQuote => {
                    return Err(self.wrong("not in a class"));
                }
            }
        }
        if flags.caseless {
            class.fold_case();
        }
        if is_negated {
            class.negate();
        }
        Ok(class)
    }

    fn class_item(&mut self, flags: Flags) -> Result<Escape, String> {
        match self.peek() {
            Some(b'\\') => self.escape(true),
            Some(byte) => match self.posix_len() {
                Some(len) => Ok(Escape::Set(self.posix(len, flags)?)),
                None => {
                    self.at += 1;
                    Ok(Escape::Byte(byte))
                }
            },
            None => Err(self.wrong("`[` without `]`")),
        }
    }

    /// True if what comes next in a class makes a range of what was read.
    fn is_range(&self) -> bool {
        matches!(self.rest(), [b'-', next, ..] if *next != b']')
    }

    /// The last byte of a range whose first one was read; `None` if it was a byte by itself.
    fn range_end(&mut self, flags: Flags) -> Result<Option<u8>, String> {
        if !self.is_range() {
            return Ok(None);
        }
        self.at += 1;
        match self.class_item(flags)? {
            Escape::Byte(high) => Ok(Some(high)),
            _ => Err(self.wrong("a range that ends in a class")),
        }
    }

    /// The length of the name in `[:name:]`, `[.name.]` or `[=name=]`, if one of them comes next: PCRE2's rule.
    fn posix_len(&self) -> Option<usize> {
        let [b'[', kind @ (b':' | b'.' | b'='), inner @ ..] = self.rest() else {
            return None;
        };
        let mut at = 0;
        loop {
            match inner.get(at..at + 2)? {
                [b'\\', b'\\' | b']'] => at += 1,
                [b']', _] => return None,
                [b'[', next] if next == kind => return None,
                [byte, b']'] if byte == kind => return Some(at),
                _ => {}
            }
            at += 1;
        }
    }

    /// `[:alpha:]`, whose name has `len` bytes.
    fn posix(&mut self, len: usize, flags: Flags) -> Result<ByteSet, String> {
        if self.rest()[1] != b':' {
            return Err(self.wrong("collating elements are not supported"));
        }
        let (name, is_negated) = match &self.rest()[2..2 + len] {
            [b'^', name @ ..] => (name, true),
            name => (name, false),
        };
        let ranges: &[(u8, u8)] = match name {
            b"alpha" => &[(b'A', b'Z'), (b'a', b'z')],
            b"lower" => &[(b'a', b'z')],
            b"upper" => &[(b'A', b'Z')],
            b"alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
            b"ascii" => &[(0, 0x7f)],
            b"blank" => BLANK,
            b"cntrl" => &[(0, 0x1f), (0x7f, 0x7f)],
            b"digit" => DIGIT,
            b"graph" => &[(0x21, 0x7e)],
            b"print" => &[(0x20, 0x7e)],
            b"punct" => &[(0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e)],
            b"space" => SPACE,
            b"word" => WORD,
            b"xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
            _ => return Err(self.wrong("not the name of a POSIX class")),
        };
        self.at += len + 4;
        let mut class = set(ranges);
        if flags.caseless {
            class.fold_case();
        }
        if is_negated {
            class.negate();
        }
        Ok(class)
    }

    /// From the backslash.
    fn escape(&mut self, in_class: bool) -> Result<Escape, String> {
        self.at += 1;
        let Some(byte) = self.peek() else {
            return Err(self.wrong("a backslash at the end"));
        };
        self.at += 1;
        let escape = match byte {
            b'a' => Escape::Byte(0x07),
            b'e' => Escape::Byte(0x1b),
            b'f' => Escape::Byte(0x0c),
            b'n' => Escape::Byte(b'\n'),
            b'r' => Escape::Byte(b'\r'),
            b't' => Escape::Byte(b'\t'),
            b'x' => Escape::Byte(self.hexadecimal()?),
            b'c' => Escape::Byte(self.control()?),
            b'0'..=b'9' => Escape::Byte(self.octal(byte, in_class)?),
            b'd' => Escape::Set(set(DIGIT)),
            b'D' => Escape::Set(negated(DIGIT)),
            b's' => Escape::Set(set(SPACE)),
            b'S' => Escape::Set(negated(SPACE)),
            b'w' => Escape::Set(set(WORD)),
            b'W' => Escape::Set(negated(WORD)),
            b'h' => Escape::Set(set(&[(b'\t', b'\t'), (b' ', b' '), (0xa0, 0xa0)])),
            b'H' => Escape::Set(negated(&[(b'\t', b'\t'), (b' ', b' '), (0xa0, 0xa0)])),
            b'v' => Escape::Set(set(&[(b'\n', b'\r'), (0x85, 0x85)])),
            b'V' => Escape::Set(negated(&[(b'\n', b'\r'), (0x85, 0x85)])),
            b'b' if in_class => Escape::Byte(0x08),
            b'E' => Escape::EndOfQuote,
            _ if in_class && byte.is_ascii_alphanumeric() => {
                return Err(self.wrong("not an escape that is supported in a class"));
            }
            b'N' if self.peek() != Some(b'{') => Escape::Set(negated(&[(b'\n', b'\n')])),
            b'b' => Escape::Look(Look::WordBoundary),
            b'B' => Escape::Look(Look::NoWordBoundary),
            b'A' => Escape::Look(Look::Start),
            b'z' => Escape::Look(Look::End),
            b'Q' => Escape::Quote,
            b'g' | b'k' => return Err(self.wrong("backreferences are not regular")),
            b'p' | b'P' | b'X' => return Err(self.wrong("Unicode properties are not supported")),
            b'Z' => return Err(self.wrong("`\\Z` is not supported: `\\n?\\z` is")),
            b'K' => return Err(self.wrong("`\\K` is not supported")),
            _ if byte.is_ascii_alphanumeric() => {
                return Err(self.wrong("not an escape that is supported"));
            }
            _ => Escape::Byte(byte),
        };
        Ok(escape)
    }

    /// Behind `\x`: up to two digits, or any in braces.
    fn hexadecimal(&mut self) -> Result<u8, String> {
        if self.take(b"{") {
            let len = self.rest().iter().position(|byte| *byte == b'}');
            let digits = len.and_then(|len| std::str::from_utf8(&self.rest()[..len]).ok());
            let digits = digits.filter(|digits| !digits.starts_with('+'));
            let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let (Some(len), Some(value)) = (len, value) else {
                return Err(self.wrong("not a byte"));
            };
            self.at += len + 1;
            return Ok(value);
        }
        let mut value = 0;
        for _ in 0..2 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { break };
            value = value << 4 | digit as u8;
            self.at += 1;
        }
        Ok(value)
    }

    /// Behind `\c`.
    fn control(&mut self) -> Result<u8, String> {
        let byte = self.peek().filter(|byte| (b' '..=b'~').contains(byte));
        let byte = byte.ok_or_else(|| self.wrong("no printable character behind `\\c`"))?;
        self.at += 1;
        Ok(byte.to_ascii_uppercase() ^ 0x40)
    }

    /// Behind a backslash and a digit. Outside of classes fewer than three digits are a backreference, unless the first
    /// is 0.
    fn octal(&mut self, first: u8, in_class: bool) -> Result<u8, String> {
        let is_octal = |byte: &&u8| (b'0'..=b'7').contains(*byte);
        let start = self.at - 1;
        let digits = self.text[start..].iter().take(3).take_while(is_octal);
        let digits: Vec<u8> = digits.map(|byte| byte - b'0').collect();
        let is_reference = !in_class && first != b'0' && digits.len() < 3;
        if is_reference || digits.is_empty() {
            return Err(self.wrong("backreferences are not regular"));
        }
        let value = digits
            .iter()
            .fold(0, |value, digit| value << 3 | u32::from(*digit));
        self.at = start + digits.len();
        u8::try_from(value).map_err(|_| self.wrong("not a byte"))
    }
}

fn literal(byte: u8, flags: Flags) -> Node {
    let mut class = set(&[(byte, byte)]);
    if flags.caseless {
        class.fold_case();
    }
    Node::Set(class)
}

fn set(ranges: &[(u8, u8)]) -> ByteSet {
    let mut set = ByteSet::EMPTY;
    for &(low, high) in ranges {
        set.insert(low, high);
    }
    set
}

fn negated(ranges: &[(u8, u8)]) -> ByteSet {
    let mut class = set(ranges);
    class.negate();
    class
}
