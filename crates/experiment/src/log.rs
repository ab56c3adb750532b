//! Records a thread's I/Os, one by one or summed over short intervals, for fio's log files.
//!
//! Only threads whose job requests a log record anything. The number of entries is limited; a log
//! that would be longer is cut and marked. Source: docs/specifications/harness.md, section 7.6.

use hoistway_block::time::MILLISECOND;
use hoistway_block::{Nanos, Operation};
use hoistway_workload::Io;
use hoistway_workload::output::Output;
use serde::{Deserialize, Serialize};

use crate::histogram::bucket_of;
use crate::recorder::{IoDirection, Window};

/// Maximum number of entries of a log: 50 MB as JSON, the format in which results store it.
const MOST_ENTRIES: usize = 500_000;

/// One thread's log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadLog {
    /// Single I/Os in order of completion; times count from the start of the window.
    pub ios: Vec<LoggedIo>,
    /// Sums over intervals; times count from the start of the window.
    pub spans: Vec<LoggedSpan>,
    /// Histograms of latency.
    pub histograms: Vec<LoggedHistogram>,
    /// All I/Os, ramp included, in order of submission; times count from the first.
    pub issued: Vec<IssuedIo>,
    /// Whether the log was cut.
    pub is_cut: bool,
}

/// A completed I/O.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LoggedIo {
    /// Time of completion in nanoseconds.
    pub at_ns: Nanos,
    /// Latency in nanoseconds.
    pub latency_ns: Nanos,
    /// 0 read, 1 write, 2 trim.
    pub direction: u8,
    /// Length in bytes.
    pub bytes: u32,
    /// Offset in bytes.
    pub offset_bytes: u64,
    /// Its priority in Linux's encoding.
    pub priority_bits: u16,
}

/// The completions of one interval.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LoggedSpan {
    /// End of the interval in nanoseconds.
    pub end_ns: Nanos,
    /// Length of the interval in nanoseconds.
    pub length_ns: Nanos,
    /// 0 read, 1 write, 2 trim.
    pub direction: u8,
    /// I/Os.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Mean latency, or the largest if the job requests that.
    pub latency_ns: Nanos,
}

/// The latencies of one interval.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LoggedHistogram {
    /// End of the interval in nanoseconds.
    pub end_ns: Nanos,
    /// 0 read, 1 write, 2 trim.
    pub direction: u8,
    /// Length of the last I/O.
    pub bytes: u32,
    /// Bucket number ([`crate::histogram`]) and count of each bucket in use.
    pub counts: Vec<(u16, u32)>,
}

/// A submitted I/O.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IssuedIo {
    /// Time of submission in nanoseconds.
    pub at_ns: Nanos,
    /// 0 read, 1 write, 2 trim, 3 sync.
    pub direction: u8,
    /// Offset in bytes.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// Records the log of one thread.
#[derive(Debug)]
pub struct Logger {
    output: Output,
    log: ThreadLog,
    /// I/Os in flight, indexed by token.
    in_flight: Vec<Option<(Nanos, Io)>>,
    spans: [Span; 3],
    histograms: [Buckets; 3],
    begun_ns: Option<Nanos>,
}

/// Sums for the next entry.
#[derive(Copy, Clone, Debug, Default)]
struct Span {
    begin_ns: Nanos,
    ios: u64,
    bytes: u64,
    sum_ns: u64,
    largest_ns: Nanos,
}

#[derive(Clone, Debug, Default)]
struct Buckets {
    begin_ns: Nanos,
    bytes: u32,
    /// Sorted by bucket; only few are used in a short interval.
    counts: Vec<(u16, u32)>,
}

impl Logger {
    /// A logger for a job that requests logs.
    pub fn new(output: &Output) -> Self {
        Self {
            output: output.clone(),
            log: ThreadLog::default(),
            in_flight: Vec::new(),
            spans: [Span::default(); 3],
            histograms: Default::default(),
            begun_ns: None,
        }
    }

    /// Notes an I/O that is submitted.
    pub fn begun(&mut self, io: &Io, now: Nanos) {
        let token = io.token as usize;
        if self.in_flight.len() <= token {
            self.in_flight.resize(token + 1, None);
        }
        self.in_flight[token] = Some((now, *io));
        if self.output.iolog.is_some() {
            let begun_ns = *self.begun_ns.get_or_insert(now);
            let direction = IoDirection::from(io.operation) as u8;
            let issued =
                IssuedIo { at_ns: now - begun_ns, direction, offset_bytes: io.offset_bytes, bytes: io.length_bytes };
            push(&mut self.log.issued, issued, &mut self.log.is_cut);
        }
    }

    /// Notes that an I/O has completed.
    pub fn ended(&mut self, token: u32, window: Window, now: Nanos) {
        let Some((begun_ns, io)) = self.in_flight.get_mut(token as usize).and_then(Option::take) else { return };
        let is_data = io.operation != Operation::Flush && io.length_bytes > 0;
        if !is_data || !window.contains(now) {
            return;
        }
        let direction = IoDirection::from(io.operation) as u8;
        let (at_ns, latency_ns) = (now - window.start_ns, now.saturating_sub(begun_ns));
        let output = &self.output;
        if output.bandwidth_log.is_some() || output.latency_log.is_some() || output.ios_log.is_some() {
            if output.average_over_ns == 0 {
                let (bytes, offset_bytes, priority_bits) = (io.length_bytes, io.offset_bytes, io.priority.0);
                let entry = LoggedIo { at_ns, latency_ns, direction, bytes, offset_bytes, priority_bits };
                push(&mut self.log.ios, entry, &mut self.log.is_cut);
            } else {
                self.sum_up(direction, at_ns, latency_ns, u64::from(io.length_bytes));
            }
        }
        if self.output.histogram_log.is_some() && self.output.histogram_every_ns > 0 {
            self.count(direction, at_ns, latency_ns, io.length_bytes);
        }
    }

    /// The log; the last intervals end with the window.
    pub fn finish(mut self, length_ns: Nanos) -> ThreadLog {
        for direction in 0..3 {
            self.close_span(direction, length_ns);
            self.close_histogram(direction, length_ns);
        }
        self.log.spans.sort_by_key(|span| (span.end_ns, span.direction));
        self.log.histograms.sort_by_key(|it| (it.end_ns, it.direction));
        self.log
    }

    fn sum_up(&mut self, direction: u8, at_ns: Nanos, latency_ns: Nanos, bytes: u64) {
        let every_ns = self.output.average_over_ns.max(MILLISECOND);
        let begin_ns = self.spans[usize::from(direction)].begin_ns;
        if at_ns >= begin_ns + every_ns {
            self.close_span(direction, begin_ns + every_ns);
            self.spans[usize::from(direction)].begin_ns = at_ns - at_ns % every_ns;
        }
        let span = &mut self.spans[usize::from(direction)];
        (span.ios, span.bytes) = (span.ios + 1, span.bytes + bytes);
        span.sum_ns = span.sum_ns.saturating_add(latency_ns);
        span.largest_ns = span.largest_ns.max(latency_ns);
    }

    fn close_span(&mut self, direction: u8, end_ns: Nanos) {
        let Span { begin_ns, ios, bytes, sum_ns, largest_ns } = self.spans[usize::from(direction)];
        if let Some(mean_ns) = sum_ns.checked_div(ios) {
            let latency_ns = if self.output.largest { largest_ns } else { mean_ns };
            let length_ns = end_ns.saturating_sub(begin_ns).max(1);
            let span = LoggedSpan { end_ns, length_ns, direction, ios, bytes, latency_ns };
            push(&mut self.log.spans, span, &mut self.log.is_cut);
        }
        self.spans[usize::from(direction)] = Span { begin_ns: end_ns, ..Span::default() };
    }

    fn count(&mut self, direction: u8, at_ns: Nanos, latency_ns: Nanos, bytes: u32) {
        let every_ns = self.output.histogram_every_ns.max(MILLISECOND);
        let begin_ns = self.histograms[usize::from(direction)].begin_ns;
        if at_ns >= begin_ns + every_ns {
            self.close_histogram(direction, begin_ns + every_ns);
            self.histograms[usize::from(direction)].begin_ns = at_ns - at_ns % every_ns;
        }
        let buckets = &mut self.histograms[usize::from(direction)];
        buckets.bytes = bytes;
        let bucket = u16::try_from(bucket_of(latency_ns)).unwrap_or(u16::MAX);
        match buckets.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => buckets.counts[at].1 += 1,
            Err(at) => buckets.counts.insert(at, (bucket, 1)),
        }
    }

    fn close_histogram(&mut self, direction: u8, end_ns: Nanos) {
        let Buckets { bytes, counts, .. } = std::mem::take(&mut self.histograms[usize::from(direction)]);
        if !counts.is_empty() {
            let entry = LoggedHistogram { end_ns, direction, bytes, counts };
            push(&mut self.log.histograms, entry, &mut self.log.is_cut);
        }
        self.histograms[usize::from(direction)].begin_ns = end_ns;
    }
}

fn push<T>(list: &mut Vec<T>, entry: T, is_cut: &mut bool) {
    if list.len() < MOST_ENTRIES {
        list.push(entry);
    } else {
        *is_cut = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::time::SECOND;
    use hoistway_block::{Flags, Priority};

    const WINDOW: Window = Window { start_ns: SECOND, end_ns: 2 * SECOND };

    fn logger(change: impl FnOnce(&mut Output)) -> Logger {
        let mut output = Output { latency_log: Some("x".to_owned()), ..Output::default() };
        change(&mut output);
        Logger::new(&output)
    }

    fn io(token: u32, operation: Operation) -> Io {
        Io {
            token,
            operation,
            flags: Flags::NONE,
            offset_bytes: 8192,
            length_bytes: 4096,
            priority: Priority::NONE,
            call: hoistway_workload::Call::Data,
            actor: 0,
            deadline_ns: None,
            due_ns: None,
            is_plugged: false,
        }
    }

    /// Alternating reads and writes of 1 ms each, from the middle of the ramp to the end.
    fn run(mut logger: Logger) -> ThreadLog {
        for number in 0..1_500 {
            let begun_ns = SECOND / 2 + number * MILLISECOND;
            let operation = if number % 2 == 0 { Operation::Read } else { Operation::Write };
            logger.begun(&io(3, operation), begun_ns);
            logger.ended(3, WINDOW, begun_ns + MILLISECOND);
        }
        logger.finish(SECOND)
    }

    #[test]
    fn every_io_of_the_window_is_an_entry() {
        let log = run(logger(|_| ()));
        assert_eq!((log.ios.len(), log.spans.len(), log.issued.len()), (1_000, 0, 0));
        let LoggedIo { at_ns, latency_ns, direction, offset_bytes, .. } = log.ios[1];
        assert_eq!((at_ns, latency_ns, direction, offset_bytes), (MILLISECOND, MILLISECOND, 0, 8192));
    }

    #[test]
    fn averages_have_an_entry_per_direction_and_time() {
        let log = run(logger(|output| output.average_over_ns = SECOND / 4));
        let ends: Vec<_> = log.spans.iter().map(|span| (span.end_ns / MILLISECOND, span.direction, span.ios)).collect();
        assert_eq!(ends[..4], [(250, 0, 125), (250, 1, 125), (500, 0, 125), (500, 1, 125)]);
        assert_eq!(ends.len(), 8);
        assert!(log.spans.iter().all(|span| span.latency_ns == MILLISECOND && span.length_ns == SECOND / 4));
    }

    #[test]
    fn an_iolog_has_everything_and_histograms_their_buckets() {
        let log = run(logger(|output| {
            (output.latency_log, output.iolog) = (None, Some("y".to_owned()));
            (output.histogram_log, output.histogram_every_ns) = (Some("z".to_owned()), SECOND / 2);
        }));
        assert_eq!((log.ios.len(), log.issued.len(), log.issued[1].at_ns), (0, 1_500, MILLISECOND));
        assert_eq!(log.histograms.len(), 4);
        assert_eq!(log.histograms[0].counts, [(954, 250)]);
    }
}
