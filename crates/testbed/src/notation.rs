//! The notation of the specifications: `R1000` is a read of 8 sectors at 1000, `W100rt+16` a
//! real-time write of 16.
//!
//! A transfer is a letter (R read, W write, D discard, Z write-zeroes, E secure erase, A zone
//! append, P passthrough, F flush), the first sector, and marks in any order: `+n` sectors (8 if
//! omitted), `rt` or `idle` (class), `be<n>` (explicit level), `sync`, `fua`, `flush`, `meta`,
//! `nomerge`, `barrier`, `@n` (context), `g<n>` (group), `q<n>` (software queue). A script is a
//! list of steps separated by blanks:
//!
//! | step | meaning |
//! | --- | --- |
//! | `R1000` | submit |
//! | `{R1000 W8 R5}` | submit through one plug, then flush it |
//! | `d`, `d3` | one, three dispatches |
//! | `rest` | dispatch until nothing is left, completing each request at once |
//! | `unplug` | a process waits for I/O: the queue is unplugged (eras 2.4 and 2.6) |
//! | `c:R1000` | the device completes the request that begins there |
//! | `back:R1000` | the driver requeues it |
//! | `t+600`, `t+50us`, `t+1ns` | advance the time (milliseconds without a unit) |
//! | `fifo_batch=1` | set a tunable |

use hoistway_block::{Class, ContextId, Extent, Flags, GroupId, Nanos, Operation, Priority, SoftwareQueue};
use hoistway_elevator::Bio;

/// Sectors of a transfer without a length.
pub const DEFAULT_SECTORS: u32 = 8;

const OPERATIONS: [(char, Operation); 8] = [
    ('R', Operation::Read),
    ('W', Operation::Write),
    ('D', Operation::Discard),
    ('Z', Operation::WriteZeroes),
    ('E', Operation::SecureErase),
    ('A', Operation::ZoneAppend),
    ('P', Operation::Passthrough),
    ('F', Operation::Flush),
];

const FLAGS: [(&str, Flags); 6] = [
    ("sync", Flags::SYNC),
    ("fua", Flags::FUA),
    ("flush", Flags::PREFLUSH),
    ("meta", Flags::META),
    ("nomerge", Flags::NOMERGE),
    ("barrier", Flags::BARRIER),
];

/// One step of a script.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Submit one bio.
    Submit(Bio),
    /// Submit these through one plug.
    Batch(Vec<Bio>),
    /// Dispatch up to this many requests.
    Dispatch(u32),
    /// Dispatch until nothing is left.
    Rest,
    /// Unplug the queue.
    Unplug,
    /// Complete the request that begins like this bio.
    Complete(Bio),
    /// Requeue the request that begins like this bio.
    Requeue(Bio),
    /// Advance the time by this much.
    Pass(Nanos),
    /// Set a tunable.
    Set(String, String),
}

/// Parses a script.
///
/// # Panics
/// On an invalid step, which the message names.
pub fn script(text: &str) -> Vec<Step> {
    let text = text.replace('{', " { ").replace('}', " } ");
    let mut steps = Vec::new();
    let mut batch: Option<Vec<Bio>> = None;
    for word in text.split_whitespace() {
        match (word, &mut batch) {
            ("{", None) => batch = Some(Vec::new()),
            ("}", Some(_)) => steps.extend(batch.take().map(Step::Batch)),
            (_, Some(bios)) => bios.push(bio(word)),
            (_, None) => steps.push(step(word)),
        }
    }
    assert!(batch.is_none(), "a batch is not closed in {text:?}");
    steps
}

fn step(word: &str) -> Step {
    if word == "rest" {
        return Step::Rest;
    }
    if word == "unplug" {
        return Step::Unplug;
    }
    if let Some(which) = word.strip_prefix("c:") {
        return Step::Complete(bio(which));
    }
    if let Some(which) = word.strip_prefix("back:") {
        return Step::Requeue(bio(which));
    }
    if let Some(span) = word.strip_prefix("t+") {
        return Step::Pass(span_ns(span));
    }
    if let Some((name, value)) = word.split_once('=') {
        return Step::Set(name.to_owned(), value.to_owned());
    }
    if let Some(count) = word.strip_prefix('d')
        && let Ok(count) = if count.is_empty() { Ok(1) } else { count.parse() }
    {
        return Step::Dispatch(count);
    }
    Step::Submit(bio(word))
}

fn span_ns(text: &str) -> Nanos {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("t+{text}: no number"));
    match text.get(digits.len()..) {
        Some("") | Some("ms") => number * hoistway_block::time::MILLISECOND,
        Some("us") => number * hoistway_block::time::MICROSECOND,
        Some("s") => number * hoistway_block::time::SECOND,
        Some("ns") => number,
        _ => panic!("t+{text}: the unit is ms (default), us, s or ns"),
    }
}

/// Parses one transfer.
///
/// # Panics
/// If it is invalid.
pub fn bio(text: &str) -> Bio {
    let mut rest = text;
    let letter = take(&mut rest, 1);
    let Some((_, operation)) = OPERATIONS.into_iter().find(|(known, _)| letter == known.to_string()) else {
        panic!(
            "{text:?} is neither a step nor a transfer: R1000, W100rt+16, {{..}}, d1, rest, c:R100, t+600, name=value"
        );
    };
    let first_sector = number(&mut rest).unwrap_or(0);
    let sectors = if operation == Operation::Flush { 0 } else { DEFAULT_SECTORS };
    let mut bio = Bio::new(operation, Extent::new(first_sector, sectors));
    while !rest.is_empty() {
        mark(&mut rest, &mut bio).unwrap_or_else(|| panic!("{text:?}: cannot read {rest:?}"));
    }
    bio
}

/// Parses one mark after the first sector.
fn mark(rest: &mut &str, bio: &mut Bio) -> Option<()> {
    for (word, flag) in FLAGS {
        if let Some(tail) = rest.strip_prefix(word) {
            *rest = tail;
            bio.flags = bio.flags.with(flag);
            return Some(());
        }
    }
    for (word, class) in [("rt", Class::RealTime), ("idle", Class::Idle), ("be", Class::BestEffort)] {
        if let Some(tail) = rest.strip_prefix(word) {
            *rest = tail;
            let level = number(rest).unwrap_or(4);
            bio.priority = Priority::new(class, u8::try_from(level).ok()?);
            return Some(());
        }
    }
    let letter = take(rest, 1);
    let value = number(rest)?;
    match letter {
        "+" => bio.extent.sectors = u32::try_from(value).ok()?,
        "@" => bio.context = ContextId(u32::try_from(value).ok()?),
        "g" => bio.group = GroupId(u32::try_from(value).ok()?),
        "q" => bio.software_queue = SoftwareQueue(u16::try_from(value).ok()?),
        _ => return None,
    }
    Some(())
}

fn number(rest: &mut &str) -> Option<u64> {
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    take(rest, digits).parse().ok()
}

fn take<'a>(rest: &mut &'a str, bytes: usize) -> &'a str {
    let (head, tail) = rest.split_at_checked(bytes).unwrap_or((rest, ""));
    *rest = tail;
    head
}

/// Writes a transfer in the form that [`bio`] parses.
pub fn show(bio: &Bio) -> String {
    let (letter, _) = OPERATIONS.into_iter().find(|(_, known)| *known == bio.operation).unwrap_or(OPERATIONS[0]);
    let mut text = format!("{letter}{}", bio.extent.first_sector);
    if bio.priority != Priority::NONE {
        let (word, usual) = match bio.priority.class() {
            Class::RealTime => ("rt", 4),
            Class::BestEffort => ("be", 8),
            Class::Idle => ("idle", 4),
        };
        let level = bio.priority.level();
        text += word;
        if level != usual {
            text += &level.to_string();
        }
    }
    for (word, flag) in FLAGS {
        if bio.flags.contains(flag) {
            text += word;
        }
    }
    for (letter, value) in [('@', bio.context.0), ('g', bio.group.0), ('q', u32::from(bio.software_queue.0))] {
        if value != 0 {
            text += &format!("{letter}{value}");
        }
    }
    if bio.extent.sectors != DEFAULT_SECTORS && bio.operation != Operation::Flush {
        text += &format!("+{}", bio.extent.sectors);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["R1000", "W100rt+16", "R5000idle", "W8be0", "D64g3", "R1@2q1", "W7syncfua", "F0"] {
            assert_eq!(show(&bio(text)), text);
        }
    }

    #[test]
    fn marks_come_in_any_order() {
        assert_eq!(bio("R5000idle+16"), bio("R5000+16idle"));
    }

    #[test]
    fn a_script_is_a_list_of_steps() {
        let expected = [
            Step::Batch(vec![bio("R1"), bio("W2")]),
            Step::Dispatch(1),
            Step::Pass(600_000_000),
            Step::Complete(bio("R1")),
            Step::Set("fifo_batch".into(), "3".into()),
            Step::Rest,
        ];
        assert_eq!(script("{R1 W2} d t+600 c:R1 fifo_batch=3 rest"), expected);
    }

    #[test]
    #[should_panic(expected = "neither a step nor a transfer")]
    fn an_unknown_step_is_named() {
        script("X9");
    }
}
