//! Parses assertions; every error points at its position.

use super::{Assertion, Figure, IoDirection, Metric, Operator, Quantity, Scope, Selector, Statistic, Value};
use crate::Diagnostic;
use crate::diagnostic::did_you_mean;

/// Units of numbers, with the factor to bytes/s, nanoseconds or a ratio.
const UNITS: [(&str, Quantity, f64); 13] = [
    ("B/s", Quantity::BytesPerSecond, 1.0),
    ("KiB/s", Quantity::BytesPerSecond, 1024.0),
    ("MiB/s", Quantity::BytesPerSecond, 1_048_576.0),
    ("GiB/s", Quantity::BytesPerSecond, 1_073_741_824.0),
    ("kB/s", Quantity::BytesPerSecond, 1e3),
    ("MB/s", Quantity::BytesPerSecond, 1e6),
    ("GB/s", Quantity::BytesPerSecond, 1e9),
    ("ns", Quantity::Time, 1.0),
    ("us", Quantity::Time, 1e3),
    ("ms", Quantity::Time, 1e6),
    ("s", Quantity::Time, 1e9),
    ("%", Quantity::Ratio, 0.01),
    ("k", Quantity::Count, 1e3),
];

/// Parses a whole assertion.
pub(super) fn assertion(text: &str) -> Result<Assertion, Diagnostic> {
    let mut reader = Reader { text, at: 0 };
    let left = reader.figure()?;
    let operator = reader.operator()?;
    let right = reader.value(left.metric.quantity())?;
    let selector = reader.selector()?;
    reader.skip_blanks();
    if reader.at < text.len() {
        return Err(reader.wrong("nothing was expected here", "a selector is @ key=value[,key=value...]"));
    }
    Ok(Assertion { text: text.to_owned(), left, operator, right, selector })
}

/// Parses a figure with an optional direction: `total_bw`, `lat_max(db)@write`.
pub(super) fn column(text: &str) -> Result<(Figure, Option<IoDirection>), Diagnostic> {
    let mut reader = Reader { text, at: 0 };
    let figure = reader.figure()?;
    let mut of = None;
    if reader.accept("@") {
        let start = reader.at;
        of = direction(reader.take(is_plain));
        if of.is_none() {
            reader.at = start;
            return Err(reader.wrong("there is no such direction", "read, write or trim"));
        }
    }
    if reader.at < text.len() {
        return Err(reader.wrong("nothing was expected here", "columns are METRIC[(GROUP)][@read|@write|@trim]"));
    }
    Ok((figure, of))
}

struct Reader<'a> {
    text: &'a str,
    /// Position in bytes, always between characters.
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong(&self, what: impl std::fmt::Display, help: impl Into<String>) -> Diagnostic {
        let column = self.text[..self.at].chars().count();
        Diagnostic::new(format!("assertion: {what}\n  {}\n  {:column$}^", self.text, ""), help)
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// The longest run of matching characters from here; may be empty.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Skips blanks, then `token` if it follows; returns whether it did.
    fn accept(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let there = self.rest().starts_with(token);
        self.at += if there { token.len() } else { 0 };
        there
    }

    fn figure(&mut self) -> Result<Figure, Diagnostic> {
        self.skip_blanks();
        let start = self.at;
        let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        let Some(metric) = Metric::named(name) else {
            let names = Metric::ALL.map(|row| row.0);
            let meant = did_you_mean(name, names);
            self.at = start;
            let what = if name.is_empty() { "a metric is missing".to_owned() } else { format!("no metric '{name}'") };
            return Err(self.wrong(what, format!("{meant}metrics are {}", names.join(", "))));
        };
        let group = self.group(metric)?;
        let statistic = self.statistic()?;
        Ok(Figure { metric, group, statistic })
    }

    fn group(&mut self, metric: Metric) -> Result<Option<String>, Diagnostic> {
        let name = metric.name();
        if !self.accept("(") {
            return match metric.scope() {
                Scope::Group => Err(self.wrong("a group is missing", format!("write {name}(GROUP)"))),
                Scope::Cell | Scope::Either => Ok(None),
            };
        }
        if metric.scope() == Scope::Cell {
            self.at -= 1;
            return Err(self.wrong(format!("{name} is of all groups together"), "leave the group out"));
        }
        self.skip_blanks();
        let group = self.take(|c| c != ')' && !c.is_whitespace());
        if group.is_empty() || !self.accept(")") {
            return Err(self.wrong("a group's name and ')' were expected", format!("write {name}(GROUP)")));
        }
        Ok(Some(group.to_owned()))
    }

    fn statistic(&mut self) -> Result<Statistic, Diagnostic> {
        if !self.rest().starts_with('.') {
            return Ok(Statistic::Mean);
        }
        self.at += 1;
        let start = self.at;
        match self.take(|c| c.is_ascii_alphanumeric()) {
            "mean" => Ok(Statistic::Mean),
            "lo" => Ok(Statistic::Low),
            "hi" => Ok(Statistic::High),
            other => {
                self.at = start;
                Err(self.wrong(format!("no statistic '{other}'"), "mean, or lo and hi for the ends of the interval"))
            }
        }
    }

    fn operator(&mut self) -> Result<Operator, Diagnostic> {
        let operators = [
            ("<=", Operator::AtMost),
            ("<", Operator::Below),
            (">=", Operator::AtLeast),
            (">", Operator::Above),
            ("==", Operator::Equal),
        ];
        let found = operators.into_iter().find(|(token, _)| self.accept(token));
        found.map(|(_, operator)| operator).ok_or_else(|| self.wrong("a comparison is missing", "<= < >= > or =="))
    }

    fn value(&mut self, quantity: Quantity) -> Result<Value, Diagnostic> {
        self.skip_blanks();
        let start = self.at;
        let digits = self.take(|c| c.is_ascii_digit() || c == '.');
        if digits.is_empty() && !self.rest().starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.wrong("a value is missing", "a number with its unit, FACTOR*METRIC or FACTOR*baseline"));
        }
        let factor = match digits {
            "" => 1.0,
            digits => digits.parse::<f64>().map_err(|_| {
                self.at = start;
                self.wrong(format!("'{digits}' is not a number"), "decimal digits with at most one point")
            })?,
        };
        if !digits.is_empty() && !self.accept("*") {
            return Ok(Value::Number(factor * self.unit(quantity)?));
        }
        self.skip_blanks();
        let (start, rest) = (self.at, self.rest());
        if rest.starts_with("baseline") && !rest["baseline".len()..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
            self.at += "baseline".len();
            return Ok(Value::Baseline { factor });
        }
        let figure = self.figure()?;
        if figure.metric.quantity() != quantity {
            self.at = start;
            let what = format!("{} is not of the same kind as the left side", figure.metric.name());
            return Err(self.wrong(what, "compare rates with rates, times with times, ratios with ratios"));
        }
        // The first selector after a figure belongs to the figure.
        let selector = self.selector()?;
        Ok(Value::Times { factor, figure, selector })
    }

    fn unit(&mut self, quantity: Quantity) -> Result<f64, Diagnostic> {
        self.skip_blanks();
        let start = self.at;
        let unit = self.take(|c| c.is_ascii_alphabetic() || c == '/' || c == '%');
        let allowed: Vec<&str> = UNITS.iter().filter(|row| row.1 == quantity).map(|row| row.0).collect();
        match UNITS.iter().find(|row| row.0 == unit && row.1 == quantity) {
            Some(&(_, _, factor)) => Ok(factor),
            None if unit.is_empty() && quantity != Quantity::Time => Ok(1.0),
            None if unit.is_empty() => Err(self.wrong("a time needs a unit", format!("one of {}", allowed.join(", ")))),
            None => {
                self.at = start;
                Err(self
                    .wrong(format!("'{unit}' is not a unit of this metric"), format!("one of {}", allowed.join(", "))))
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, Diagnostic> {
        let mut selector = Selector::default();
        if !self.accept("@") {
            return Ok(selector);
        }
        loop {
            self.skip_blanks();
            let start = self.at;
            let key = self.take(|c| c.is_ascii_alphabetic());
            if !self.accept("=") {
                return Err(self.wrong("key=value was expected", "keys are wl, sched, nr, dir"));
            }
            self.skip_blanks();
            let value_at = self.at;
            let value = if key == "sched" { self.scheduler() } else { self.take(is_plain) };
            if value.is_empty() {
                return Err(self.wrong(format!("{key} has no value"), "keys are wl, sched, nr, dir"));
            }
            match key {
                "wl" => selector.workload = Some(value.to_owned()),
                "sched" => selector.scheduler = Some(value.to_owned()),
                "nr" => selector.threads = Some(value.parse().map_err(|_| self.at(value_at, "nr is a whole number"))?),
                "dir" => {
                    selector.direction =
                        Some(direction(value).ok_or_else(|| self.at(value_at, "dir is read, write or trim"))?)
                }
                _ => return Err(self.at(start, "there is no such key")),
            }
            if !self.accept(",") {
                return Ok(selector);
            }
        }
    }

    fn at(&mut self, position: usize, what: &str) -> Diagnostic {
        self.at = position;
        self.wrong(what, "keys are wl, sched, nr, dir")
    }

    /// A scheduler's specification. It may contain `@version` and `:a=1,b=2`, and ends where
    /// another selector starts.
    fn scheduler(&mut self) -> &'a str {
        let start = self.at;
        self.take(is_plain);
        if self.rest().starts_with('@') && !begins_selector(&self.rest()[1..]) {
            self.at += 1;
            self.take(is_plain);
        }
        if self.rest().starts_with(':') {
            self.at += 1;
            self.take(|c| is_plain(c) || c == '=');
            while self.rest().starts_with(',') && !begins_selector(&self.rest()[1..]) {
                self.at += 1;
                self.take(|c| is_plain(c) || c == '=');
            }
        }
        &self.text[start..self.at]
    }
}

fn is_plain(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, ',' | '@' | '=' | ':')
}

fn begins_selector(text: &str) -> bool {
    ["wl", "sched", "nr", "dir"]
        .iter()
        .any(|key| text.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('=')))
}

fn direction(text: &str) -> Option<IoDirection> {
    match text {
        "read" => Some(IoDirection::Read),
        "write" => Some(IoDirection::Write),
        "trim" => Some(IoDirection::Trim),
        _ => None,
    }
}
