//! A table whose last column holds texts of any length: beside the row where there is room, else below
//! it.

use crate::top::table::{GAP, text, wrapped};

/// The indentation of a text below its row.
const BELOW: usize = 4;

/// A table; `last` is the heading of the texts and a text for each row, which may be empty.
pub struct Grid {
    pub header: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    pub last: (&'static str, Vec<String>),
}

impl Grid {
    /// The lines. The texts stand beside the rows if at least `least` columns are left for them.
    pub fn lines(&self, least: usize, width: usize) -> Vec<String> {
        let (heading, texts) = &self.last;
        let table = text(&self.header, &self.rows);
        let used = table.iter().map(|line| line.chars().count()).max().unwrap_or(0) + GAP;
        if texts.iter().all(String::is_empty) {
            return table;
        }
        let is_beside = used + least <= width;
        let mut lines = Vec::new();
        let (head, rows) = table.split_at(1);
        for line in head {
            lines.push(if is_beside { format!("{line:<used$}{heading}") } else { line.clone() });
        }
        for (row, text) in rows.iter().zip(texts) {
            if is_beside {
                let parts = wrapped(text, width - used);
                let begun = std::iter::once(row.as_str()).chain(std::iter::repeat(""));
                lines.extend(begun.zip(parts).map(|(row, part)| format!("{row:<used$}{part}").trim_end().to_owned()));
            } else {
                lines.push(row.clone());
                let parts = wrapped(text, width - BELOW).into_iter().filter(|part| !part.is_empty());
                lines.extend(parts.map(|part| format!("{:BELOW$}{part}", "")));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(texts: [&str; 2]) -> Grid {
        let rows = [["db", "1"], ["ci", "22"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
        Grid { header: vec!["GROUP", "IOPS"], rows, last: ("WHY", texts.map(str::to_owned).to_vec()) }
    }

    #[test]
    fn texts_stand_beside_or_below_their_row() {
        let grid_of_one = grid(["one two three", ""]);
        assert_eq!(
            grid_of_one.lines(8, 21),
            ["GROUP  IOPS  WHY", "db        1  one two", "             three", "ci       22"]
        );
        assert_eq!(grid_of_one.lines(9, 21), ["GROUP  IOPS", "db        1", "    one two three", "ci       22"]);
        assert_eq!(grid(["", ""]).lines(8, 80), ["GROUP  IOPS", "db        1", "ci       22"]);
    }
}
