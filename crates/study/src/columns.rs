//! Tables in columns, for results of scenarios.

use std::fmt::Write;

/// Formats columns: the first one and texts with blanks are left-aligned, all others right-aligned.
pub fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            // A verdict is left-aligned, a figure right-aligned.
            let is_left = column == 0 || cell.contains(' ');
            let _ = if is_left { write!(line, "{cell:<width$}  ") } else { write!(line, "{cell:>width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
