//! Text from elsewhere (names, errors and answers of other programs) as a terminal may show it.
//!
//! A terminal obeys control characters, and characters for the direction of writing show a text in another order than
//! it has. So none is printed: they appear as `\u001b`, the form of JSON, which leaves printed JSON and TOML valid and
//! their content the same.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character acts on the terminal or on the characters beside it instead of being seen.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text as part of a line: of a name, or of one sentence.
pub fn printable(text: &str) -> Cow<'_, str> {
    without(text, is_hidden)
}

/// A text with its own lines and tabs.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    without(text, |character| is_hidden(character) && character != '\n' && character != '\t')
}

fn without(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a text does not fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_act_on_a_terminal_is_seen_instead() {
        assert_eq!(printable("\u{1b}]0;x\u{7}\u{9b}2J"), "\\u001b]0;x\\u0007\\u009b2J");
        assert_eq!(printable("a\u{202e}b\u{e0041}\n"), "a\\u202eb\\udb40\\udc41\\u000a");
        assert_eq!(printable_lines("a\n\tb\r\u{85}\u{2066}"), "a\n\tb\\u000d\\u0085\\u2066");
        for text in ["tenants/db", "été Ω 日本 ±▾…", "{\"a\": \"\\n\"}"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn no_hidden_character_is_left_and_json_keeps_its_content() {
        for character in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let text = format!("a{character}b");
            assert!(!printable(&text).chars().any(is_hidden), "{text:?}");
            let written = serde_json::to_string(&text).unwrap();
            let shown = printable(&written);
            assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
