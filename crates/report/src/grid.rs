//! Text in columns.

use std::fmt::Write;

/// A table with left-aligned names in its first columns, right-aligned figures, and remarks in the
/// last column.
pub(crate) struct Grid {
    rows: Vec<Vec<String>>,
    /// Number of columns from the left that contain names.
    names: usize,
}

impl Grid {
    pub(crate) fn new(header: &[String]) -> Self {
        Self { rows: vec![header.to_vec()], names: 1 }
    }

    /// With this many columns of names.
    pub(crate) fn with_names(header: &[String], names: usize) -> Self {
        Self { rows: vec![header.to_vec()], names }
    }

    pub(crate) fn row(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// Leaves out as many of the `optional` columns before the remarks as do not fit: from the right, but the
    /// left one of the last two, which is the median; returns their headings.
    pub(crate) fn fit(&mut self, width: usize, optional: usize) -> Vec<String> {
        let header = self.rows[0].clone();
        let mut omitted: Vec<String> = Vec::new();
        while omitted.len() < optional {
            let widths = self.widths();
            let used: usize = widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum();
            let back = if optional - omitted.len() == 2 { 3 } else { 2 };
            let Some(at) = widths.len().checked_sub(back).filter(|_| used > width + 2) else { break };
            omitted.push(self.rows[0][at].clone());
            self.rows.iter_mut().filter(|row| row.len() > at).for_each(|row| _ = row.remove(at));
        }
        omitted.sort_by_key(|name| header.iter().position(|it| it == name));
        omitted
    }

    pub(crate) fn show(&self) -> String {
        let widths = self.widths();
        let columns = widths.len();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(line, "{cell:<width$}"),
                    name if name < self.names => write!(line, "  {cell:<width$}"),
                    last if last + 1 == columns => write!(line, "  {cell}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}
