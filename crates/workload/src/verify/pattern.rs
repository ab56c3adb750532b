//! fio's `verify_pattern`: numbers, texts, and `%o`, the offset of the block.

use serde::{Deserialize, Serialize};

/// Longest pattern in bytes: fio's limit.
const MAX_BYTES: usize = 512;
/// Length of an offset in a pattern.
const OFFSET_BYTES: usize = 8;

/// Bytes that repeat over a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pattern {
    /// The bytes; zeros at the positions of offsets.
    pub bytes: Vec<u8>,
    /// Positions in them at which the offset of the block is inserted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offsets_at: Vec<u16>,
}

impl Pattern {
    /// Parses `0xdeadbeef`, `-12`, `"text"`, `%o`, or several of them in sequence.
    ///
    /// # Errors
    /// The first part that is not a pattern, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pattern = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            rest = pattern.part(rest)?;
            if pattern.bytes.len() > MAX_BYTES {
                return Err(format!("the pattern is longer than {MAX_BYTES} bytes"));
            }
        }
        if pattern.is_empty() { Err("the pattern is empty".to_owned()) } else { Ok(pattern) }
    }

    /// Parses one part; returns the text after it.
    fn part<'a>(&mut self, text: &'a str) -> Result<&'a str, String> {
        if let Some(behind) = text.strip_prefix("%o") {
            self.offsets_at.push(u16::try_from(self.bytes.len()).unwrap_or(u16::MAX));
            self.bytes.extend([0; OFFSET_BYTES]);
            return Ok(behind);
        }
        if let Some(behind) = text.strip_prefix('"') {
            let (inner, behind) = behind.split_once('"').ok_or("a text without its second \"")?;
            self.bytes.extend(inner.bytes());
            return Ok(behind);
        }
        if text.starts_with('\'') {
            return Err("a pattern from a file ('NAME') is not read; write its bytes as 0x...".to_owned());
        }
        let wrong = || format!("'{text}' is not 0xBYTES, a number, \"text\" or %o");
        if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            let end = hex.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(hex.len());
            let (digits, behind) = hex.split_at(end);
            if digits.is_empty() {
                return Err(wrong());
            }
            let digits = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
            for pair in (0..digits.len()).step_by(2) {
                self.bytes.push(u8::from_str_radix(&digits[pair..pair + 2], 16).map_err(|_| wrong())?);
            }
            return Ok(behind);
        }
        let sign = usize::from(text.starts_with('-'));
        let digits = &text[sign..];
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        // A 0 before an x starts the next part.
        let end = sign + digits.find("0x").filter(|zero| *zero > 0 && *zero < end).unwrap_or(end);
        let number: i32 = text[..end].parse().map_err(|_| wrong())?;
        // Low byte first, without leading zero bytes.
        let bytes = number.to_le_bytes();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
        self.bytes.extend(&bytes[..used]);
        Ok(&text[end..])
    }

    /// Whether there is no pattern; the data is random then.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Formats the pattern as in a job file.
    pub(crate) fn show(&self) -> String {
        let mut text = String::new();
        let mut at = 0;
        while at < self.bytes.len() {
            if self.offsets_at.iter().any(|place| usize::from(*place) == at) {
                text.push_str("%o");
                at += OFFSET_BYTES;
                continue;
            }
            let next = self.offsets_at.iter().map(|place| usize::from(*place)).find(|place| *place > at);
            let end = next.unwrap_or(self.bytes.len());
            text.push_str("0x");
            self.bytes[at..end].iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
            at = end;
        }
        text
    }

    /// The bytes of a block that starts at `offset_bytes`.
    pub(super) fn of(&self, offset_bytes: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for &at in &self.offsets_at {
            let at = usize::from(at);
            if let Some(to) = bytes.get_mut(at..at + OFFSET_BYTES) {
                to.copy_from_slice(&offset_bytes.to_le_bytes());
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that fio 3.33 writes for each (`fio --rw=write --verify=pattern --verify_pattern=P`,
    /// then xxd).
    const WRITTEN_BY_FIO: &[(&str, &[u8])] = &[
        ("0xdeadbeef", &[0xde, 0xad, 0xbe, 0xef]),
        ("0xabc", &[0x0a, 0xbc]),
        ("123", &[123]),
        ("-12", &[0xf4, 0xff, 0xff, 0xff]),
        ("65536", &[0, 0, 1]),
        ("\"ab c\"", b"ab c"),
        ("0xff\"ab\"", b"\xffab"),
        ("\"abcd\"-120xdeadface", b"abcd\xf4\xff\xff\xff\xde\xad\xfa\xce"),
    ];

    #[test]
    fn patterns_are_those_of_fio() {
        for (text, bytes) in WRITTEN_BY_FIO {
            assert_eq!(Pattern::parse(text).unwrap().bytes, *bytes, "{text}");
        }
        let with_offset = Pattern::parse("0xaa%o").unwrap();
        assert_eq!(with_offset.of(0x1000), [0xaa, 0, 0x10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Pattern::parse(&with_offset.show()), Ok(with_offset));
        for wrong in ["", "0x", "'file'", "x", "\"open", "99999999999"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
