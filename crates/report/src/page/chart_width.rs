//! The two widths of a chart, for desktops and for phones. The page contains both and shows the one
//! that fits.

/// The width that is drawn.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum ChartWidth {
    /// 940 units: names are beside what they label.
    Wide,
    /// 460 units: names are above what they label.
    Narrow,
}

impl ChartWidth {
    /// Width of the drawing in its own units; a letter is about 7 units wide.
    pub(super) const fn width(self) -> f64 {
        match self {
            ChartWidth::Wide => 940.0,
            ChartWidth::Narrow => 460.0,
        }
    }

    /// One of two values, by the width.
    pub(super) const fn choose(self, wide: f64, narrow: f64) -> f64 {
        match self {
            ChartWidth::Wide => wide,
            ChartWidth::Narrow => narrow,
        }
    }

    /// Characters in a line of figures across the drawing.
    pub(super) const fn characters(self) -> usize {
        match self {
            ChartWidth::Wide => 120,
            ChartWidth::Narrow => 54,
        }
    }

    /// Whether names are above what they label.
    pub(super) const fn is_narrow(self) -> bool {
        matches!(self, ChartWidth::Narrow)
    }
}

/// The chart in both widths.
pub(super) fn both(draw: impl Fn(ChartWidth) -> String) -> String {
    format!(
        "<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n",
        draw(ChartWidth::Wide),
        draw(ChartWidth::Narrow)
    )
}
