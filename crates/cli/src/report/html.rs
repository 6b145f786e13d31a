//! Text in HTML.

/// Text in an element that may be narrow: a line may end behind each comma, as engines' names have many.
pub(super) fn narrow(text: &str) -> String {
    escape(text).replace(',', ",<wbr/>")
}

/// Text as it may stand in an element or in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}
