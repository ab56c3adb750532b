//! Names of curves with their dashes and marks, below a chart, wrapped to the width of the window.

use super::svg::{Svg, escaped, scheduler_class};

/// One curve.
pub(super) struct Entry {
    /// Its number, which determines colour, dash and mark.
    pub(super) series: usize,
    /// Its name.
    pub(super) name: String,
    /// Figures shown beside the name.
    pub(super) figures: String,
}

/// The list.
pub(super) fn legend(entries: &[Entry]) -> String {
    let entry = |entry: &Entry| {
        let class = scheduler_class(entry.series);
        let mut sample = Svg::decoration(44.0, 16.0);
        sample.curve(&class, entry.series, 0, &[(1.0, 8.0), (43.0, 8.0)]);
        sample.mark(&class, entry.series, (22.0, 8.0), &entry.name);
        let (name, figures) = (escaped(&entry.name), escaped(&entry.figures));
        format!("<li class=\"{class}\">{}<b>{name}</b> <span>{figures}</span></li>\n", sample.finish_bare())
    };
    format!("<ul class=\"legend\">\n{}</ul>\n", entries.iter().map(entry).collect::<String>())
}
