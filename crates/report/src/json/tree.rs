//! JSON with ordered keys and floats with six decimals, as parsers of fio's output expect it.

use std::fmt::Write;

/// A JSON value.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A non-negative integer.
    Whole(u64),
    /// A number with six decimals; `null` if it is not finite.
    Decimal(f64),
    /// A text.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object with keys in this order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object of literal keys.
    pub fn object<const N: usize>(entries: [(&str, Json); N]) -> Json {
        Json::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// Adds an entry to an object; does nothing for other values.
    pub fn push(&mut self, key: &str, value: Json) {
        if let Json::Object(entries) = self {
            entries.push((key.to_owned(), value));
        }
    }

    /// The document, indented by two blanks per level, with a final line break.
    pub fn document(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text.push('\n');
        text
    }

    fn write(&self, text: &mut String, depth: usize) {
        match self {
            Json::Null => text.push_str("null"),
            Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Json::Whole(value) => {
                let _ = write!(text, "{value}");
            }
            Json::Decimal(value) if value.is_finite() => {
                let _ = write!(text, "{value:.6}");
            }
            Json::Decimal(_) => text.push_str("null"),
            // serde_json escapes the characters that require it; serialising a string cannot fail.
            Json::Text(value) => text.push_str(&serde_json::to_string(value).unwrap_or_default()),
            Json::List(values) => {
                let entries = values.iter().map(|value| (None, value));
                Self::write_all(text, depth, ['[', ']'], entries);
            }
            Json::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| (Some(key), value));
                Self::write_all(text, depth, ['{', '}'], entries);
            }
        }
    }

    fn write_all<'a>(
        text: &mut String,
        depth: usize,
        [open, close]: [char; 2],
        entries: impl Iterator<Item = (Option<&'a String>, &'a Json)>,
    ) {
        text.push(open);
        let mut is_empty = true;
        for (key, value) in entries {
            text.push_str(if is_empty { "\n" } else { ",\n" });
            is_empty = false;
            text.push_str(&"  ".repeat(depth + 1));
            if let Some(key) = key {
                text.push_str(&serde_json::to_string(key).unwrap_or_default());
                text.push_str(": ");
            }
            value.write(text, depth + 1);
        }
        if !is_empty {
            text.push('\n');
            text.push_str(&"  ".repeat(depth));
        }
        text.push(close);
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Json {
        use serde_json::Value;
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(value),
            Value::Number(number) => match (number.as_u64(), number.as_f64()) {
                (Some(whole), _) => Json::Whole(whole),
                (None, Some(decimal)) => Json::Decimal(decimal),
                (None, None) => Json::Null,
            },
            Value::String(text) => Json::Text(text),
            Value::Array(values) => Json::List(values.into_iter().map(Json::from).collect()),
            Value::Object(entries) => {
                Json::Object(entries.into_iter().map(|(key, value)| (key, Json::from(value))).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_back_and_keeps_its_order() {
        let json = Json::object([
            ("z", Json::Whole(u64::MAX)),
            ("a", Json::List(vec![Json::Decimal(0.5), Json::Null, Json::List(vec![])])),
            ("q\"", Json::text("line\nbreak")),
        ]);
        let text = json.document();
        assert!(text.find("\"z\"").unwrap() < text.find("\"a\"").unwrap());
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, serde_json::json!({"z": u64::MAX, "a": [0.5, null, []], "q\"": "line\nbreak"}));
        assert!(text.contains("0.500000"));
    }
}
