//! The two widths of a chart, for desktops and for phones. The page contains both and shows the one
//! that fits.

/// The width that is drawn.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// 940 units: names are beside what they label.
    Wide,
    /// 460 units: names are above what they label.
    Narrow,
}

impl Form {
    /// Width of the drawing in its own units; a letter is about 7 units wide.
    pub(super) const fn width(self) -> f64 {
        match self {
            Form::Wide => 940.0,
            Form::Narrow => 460.0,
        }
    }

    /// One of two values, by the width.
    pub(super) const fn choose(self, wide: f64, narrow: f64) -> f64 {
        match self {
            Form::Wide => wide,
            Form::Narrow => narrow,
        }
    }

    /// Characters in a line of figures across the drawing.
    pub(super) const fn characters(self) -> usize {
        match self {
            Form::Wide => 120,
            Form::Narrow => 54,
        }
    }

    /// Whether names are above what they label.
    pub(super) const fn is_narrow(self) -> bool {
        matches!(self, Form::Narrow)
    }
}

/// The chart in both widths.
pub(super) fn both(draw: impl Fn(Form) -> String) -> String {
    format!("<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n", draw(Form::Wide), draw(Form::Narrow))
}
