//! Lists of figures to show as columns, such as `time(app),lat_max(app),total_bw@write`.
//!
//! They are named as in assertions, so that everything a table shows can be asserted in the same
//! words.

use super::{Figure, parse};
use crate::cell::Cell;
use crate::metric::Quantity;
use crate::recorder::IoDirection;
use crate::{Diagnostic, Group};

/// A column of a table of figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    title: String,
    figure: Figure,
    direction: Option<IoDirection>,
}

impl Column {
    /// Parses a list of columns.
    ///
    /// # Errors
    /// The first invalid column, with a caret under the position.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, Diagnostic> {
        text.split(',').map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, Diagnostic> {
        let (figure, direction) = parse::column(text.trim())?;
        Ok(Self { title: text.trim().to_owned(), figure, direction })
    }

    /// The column as it was written.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The unit of its values.
    pub fn quantity(&self) -> Quantity {
        self.figure.metric.quantity()
    }

    /// Checks that the group that it refers to, if any, is one of these.
    ///
    /// # Errors
    /// It is not; the message lists them.
    pub fn check<'a>(&self, groups: impl Iterator<Item = &'a Group> + Clone) -> Result<(), Diagnostic> {
        match &self.figure.group {
            Some(name) if !groups.clone().any(|group| group.path == *name) => {
                let paths: Vec<&str> = groups.map(|group| group.path.as_str()).collect();
                let message = format!("figure '{}': there is no group '{name}'", self.title);
                Err(Diagnostic::new(message, format!("groups are: {}", paths.join(", "))))
            }
            _ => Ok(()),
        }
    }

    /// The figure in a cell; `None` if nothing was measured or the cell has no such group.
    pub fn of(&self, cell: &Cell<'_>) -> Option<f64> {
        Some(self.figure.pick(&self.figure.of(cell, self.direction).ok()??).at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weight;

    #[test]
    fn columns_are_read_as_figures_of_assertions() {
        let columns = Column::parse_list("time(app), lat_max(app)@read,total_bw@write,late(v)").unwrap();
        let titles: Vec<&str> = columns.iter().map(Column::title).collect();
        assert_eq!(titles, ["time(app)", "lat_max(app)@read", "total_bw@write", "late(v)"]);
        let quantities = [Quantity::Time, Quantity::Time, Quantity::BytesPerSecond, Quantity::Count];
        assert!(columns.iter().map(Column::quantity).eq(quantities));
        assert_eq!(columns[2].direction, Some(IoDirection::Write));
    }

    #[test]
    fn wrong_columns_are_named() {
        let message = |text: &str| Column::parse_list(text).unwrap_err().message;
        assert!(message("total_bw,lat_mx").contains("no metric 'lat_mx'"));
        assert!(message("time").contains("a group is missing"));
        assert!(message("total_bw@up").contains("there is no such direction"));
        assert!(message("total_bw <= 4").contains("nothing was expected here"));
        let groups = [Group::new("app", Weight::DEFAULT, Vec::new())];
        let column = |text: &str| Column::parse_list(text).unwrap().remove(0);
        column("time(app)").check(groups.iter()).unwrap();
        column("total_bw").check(groups.iter()).unwrap();
        let unknown = column("time(ap)").check(groups.iter()).unwrap_err();
        assert!(unknown.message.contains("no group 'ap'") && unknown.help.contains("app"));
    }
}
