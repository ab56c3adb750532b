//! Lines for a terminal: sentences are broken between words and go on below their own beginning.

/// The line in lines of at most `width` characters where a break between words can do that; those after
/// the first are indented by two more.
///
/// ```
/// assert_eq!(hoistway_report::wrap::line("  best: none, with 170 MiB/s", 20), "  best: none, with\n    170 MiB/s");
/// ```
pub fn line(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let own = line.chars().take_while(|c| *c == ' ').count();
    let indent = " ".repeat(own + 2);
    let (mut text, mut used) = (" ".repeat(own), own);
    for word in line.split_inclusive(' ').skip_while(|word| *word == " ") {
        let length = word.trim_end().chars().count();
        if used > own + 2 && used + length > width {
            text.truncate(text.trim_end().len());
            text = text + "\n" + &indent;
            used = indent.len();
        }
        text += word;
        used += word.chars().count();
    }
    text
}

/// Every line of a text.
pub fn lines(text: &str, width: usize) -> String {
    text.lines().map(|it| line(it, width) + "\n").collect()
}
