//! A printed output in a document, compared with what the command prints.
//!
//! The lines of the document occur one after the other somewhere in the output. A line `...` stands for lines that are
//! left out, and `...` at the end of a line for the rest of it. Of a *shape* every number counts as equal, whatever its
//! unit and the spaces around it.

/// What stands for something that is left out.
const LEFT_OUT: &str = "...";

/// How lines are compared.
#[derive(Clone, Copy, PartialEq)]
pub enum Comparison {
    Exact,
    Shape,
}

/// The line without its numbers, their units and the spaces.
fn shape(line: &str) -> String {
    const UNITS: &[&str] = &["B/s", "KiB/s", "MiB/s", "GiB/s", "ns", "us", "ms", "s"];
    let word = |word: &str| match word {
        _ if word.contains(|letter: char| letter.is_ascii_digit()) => "#".to_owned(),
        _ if UNITS.contains(&word) => "@".to_owned(),
        _ => word.to_owned(),
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

impl Comparison {
    fn is_same(self, shown: &str, printed: &str) -> bool {
        let (shown, printed) = match self {
            Self::Exact => (shown.trim_end().to_owned(), printed.trim_end().to_owned()),
            Self::Shape => (shape(shown), shape(printed)),
        };
        match shown.strip_suffix(LEFT_OUT) {
            Some(begin) => printed.starts_with(begin),
            None => shown == printed,
        }
    }

    /// Where the lines of a piece begin in the output, one after the other.
    fn find(self, piece: &[&str], printed: &[&str]) -> Option<usize> {
        let is_here = |lines: &[&str]| piece.iter().zip(lines).all(|(shown, line)| self.is_same(shown, line));
        printed.windows(piece.len()).position(is_here)
    }
}

/// The pieces of a shown output between lines that are left out.
fn pieces(shown: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = shown.lines().collect();
    lines.split(|line| line.trim() == LEFT_OUT).map(<[_]>::to_vec).filter(|piece| !piece.is_empty()).collect()
}

/// The first line of a shown output that the command does not print there; nothing if all of it is printed.
pub fn difference(shown: &str, printed: &str, comparison: Comparison) -> Option<String> {
    let printed: Vec<&str> = printed.lines().collect();
    let mut rest = &printed[..];
    for piece in pieces(shown) {
        let Some(at) = comparison.find(&piece, rest) else {
            // The longest beginning of the piece that is printed, so that the line behind it is named.
            let kept = (1..piece.len()).rev().find(|&kept| comparison.find(&piece[..kept], rest).is_some());
            return Some(piece[kept.unwrap_or(0)].to_owned());
        };
        rest = &rest[at + piece.len()..];
    }
    shown.trim().is_empty().then(|| "(the block is empty)".into())
}

/// What names a line: its first two words, as in `paternoster give=3` or `streams 1/2/4`.
fn names(line: &str) -> Vec<&str> {
    line.split_whitespace().take(2).collect()
}

/// Where the line of the output is that has the most of the shown line's name; the first one of these.
fn line_named(shown: &str, printed: &[&str]) -> Option<usize> {
    let names_both = |line: &&str| names(line) == names(shown);
    let names_first = |line: &&str| names(line).first() == names(shown).first();
    printed.iter().position(names_both).or_else(|| printed.iter().position(names_first))
}

/// The shown output with the lines that the command prints now: for each line the next one that has its name, and
/// `...` where these do not follow one another. Returns nothing if there is no such line.
pub fn rewritten(shown: &str, printed: &str) -> Option<String> {
    let printed: Vec<&str> = printed.lines().collect();
    let mut rest = &printed[..];
    let mut written: Vec<String> = Vec::new();
    for line in shown.lines() {
        let is_gap = |written: &[String]| written.last().is_none_or(|last| last == LEFT_OUT);
        if line.trim() == LEFT_OUT {
            written.push(LEFT_OUT.into());
            continue;
        }
        let at = line_named(line, rest)?;
        if at > 0 && !is_gap(&written) {
            written.push(LEFT_OUT.into());
        }
        written.push(cut(line, rest[at]));
        rest = &rest[at + 1..];
    }
    Some(written.iter().map(|line| format!("{line}\n")).collect())
}

/// The new line, cut where the shown one is.
fn cut(shown: &str, new: &str) -> String {
    let Some(begin) = shown.trim_end().strip_suffix(LEFT_OUT) else { return new.trim_end().to_owned() };
    let mut ends = new.char_indices().map(|(at, letter)| at + letter.len_utf8());
    // Without an equal beginning, at the word that is as far to the right.
    let end = ends.find(|&end| shape(&new[..end]) == shape(begin)).or_else(|| {
        let from = new.char_indices().nth(begin.chars().count())?.0;
        Some(from + new[from..].find(' ')?)
    });
    end.map_or_else(|| new.trim_end().to_owned(), |end| format!("{} {LEFT_OUT}", new[..end].trim_end()))
}

#[test]
fn an_output_is_compared() {
    let printed = "plan: 2 runs\nsched  total\nnone    1.50\nwfq    12.25\n  note: one two three\n";
    let differs = |shown: &str| difference(shown, printed, Comparison::Exact);
    assert_eq!(differs("sched  total\nnone    1.50\nwfq    12.25\n"), None);
    assert_eq!(differs("none    1.50\n...\n  note: one ...\n"), None);
    assert_eq!(differs("...\nwfq    12.25\n...\n"), None);
    assert_eq!(differs("sched  total\nnone    1.51\nwfq    12.25\n").as_deref(), Some("none    1.51"));
    assert_eq!(differs("sched  total\nwfq    12.25\n").as_deref(), Some("wfq    12.25"), "a line is missing");
    assert_eq!(differs("wfq    12.25\n...\nnone    1.50\n").as_deref(), Some("none    1.50"), "another order");
    assert_eq!(differs("sched  tot\n").as_deref(), Some("sched  tot"));
    assert_eq!(differs("").as_deref(), Some("(the block is empty)"));
    let shapes = |shown: &str| difference(shown, printed, Comparison::Shape);
    assert_eq!(shapes("sched total\nnone   100.50 \nwfq    2\n"), None);
    assert_eq!(shapes("sched total\nnone   much\n").as_deref(), Some("none   much"));
    assert_eq!(difference("p99 r 0.84ms at 264 MiB/s", "p99 r 12us at 80 KiB/s", Comparison::Shape), None);
}

#[test]
fn an_output_is_rewritten() {
    let printed = "plan\nsched  total\nnone    2.50\nbfq     3.00\nwfq x=1  9\nwfq x=2 8\n\n  note: 12 two three\n";
    for (shown, written) in [
        ("sched total\nnone 1\nwfq x=1 2\n", "sched  total\nnone    2.50\n...\nwfq x=1  9\n"),
        ("none 1\n...\nwfq x=2 2\n", "none    2.50\n...\nwfq x=2 8\n"),
        ("plan\n...\n  note: 9 two ...\n", "plan\n...\n  note: 12 two ...\n"),
        ("  note: a ...\n", "  note: 12 ...\n"),
        ("...\nbfq 1\n...\n", "...\nbfq     3.00\n...\n"),
    ] {
        assert_eq!(rewritten(shown, printed).as_deref(), Some(written));
        assert_eq!(difference(written, printed, Comparison::Exact), None);
    }
    assert_eq!(rewritten("cfq 1\n", printed), None);
}
