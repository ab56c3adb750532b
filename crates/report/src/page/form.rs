//! The two widths of a chart: one for desks, one for telephones. The page holds both and shows the one that fits.

/// Which of the two is drawn.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// 940 units: names stand beside what they name.
    Wide,
    /// 460 units: names stand above it.
    Narrow,
}

impl Form {
    /// Width of the drawing in its own units, of which a letter is about 7 wide.
    pub(super) const fn width(self) -> f64 {
        match self {
            Form::Wide => 940.0,
            Form::Narrow => 460.0,
        }
    }

    /// One of two values.
    pub(super) const fn choose(self, wide: f64, narrow: f64) -> f64 {
        match self {
            Form::Wide => wide,
            Form::Narrow => narrow,
        }
    }

    /// Characters of a line of figures across the drawing.
    pub(super) const fn characters(self) -> usize {
        match self {
            Form::Wide => 120,
            Form::Narrow => 54,
        }
    }

    /// Whether names stand above.
    pub(super) const fn is_narrow(self) -> bool {
        matches!(self, Form::Narrow)
    }
}

/// The chart in both forms.
pub(super) fn both(draw: impl Fn(Form) -> String) -> String {
    format!("<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n", draw(Form::Wide), draw(Form::Narrow))
}
