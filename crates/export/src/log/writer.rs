//! The queue of lines and the thread that writes them.
//!
//! The queue is a channel of the standard library with a bound, whose `try_send` never waits. It is
//! ours, and not that of the crate tracing-appender, because a line that was dropped must be told in
//! the log itself, and because of the end: a reader that reads no more must not keep the server alive.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tracing::Level;

use super::format::Record;
use super::limit::{Admission, INTERVAL, LeftOut, Limiter};
use super::settings::InForce;
use super::style;

/// The most lines that wait to be written.
pub(super) const QUEUED_LINES: usize = 1_024;
/// How long a flush waits for a slow reader, twice.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a flush tries a full queue again.
const POLL: Duration = Duration::from_millis(5);

enum Message {
    Line(String),
    /// Events are being left out: the end of their interval must be waited for.
    Wake,
    /// Write everything, then answer.
    Flush(mpsc::Sender<()>),
}

/// The sending end of the queue.
#[derive(Clone)]
pub(super) struct LineQueue {
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    limiter: Mutex<Limiter>,
    /// Lines that found the queue full, since the last report.
    dropped: AtomicU64,
}

impl Shared {
    fn limiter(&self) -> std::sync::MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the log when it is dropped.
pub(super) struct Flusher(SyncSender<Message>);

impl std::fmt::Debug for Flusher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flusher")
    }
}

impl LineQueue {
    /// Starts the writer's thread.
    pub fn start(sink: Box<dyn Write + Send>, in_force: Arc<RwLock<InForce>>) -> std::io::Result<Self> {
        let (sender, lines) = mpsc::sync_channel(QUEUED_LINES);
        let shared = Arc::new(Shared::default());
        let writer = Writer { sink, lines, shared: Arc::clone(&shared), in_force };
        thread::Builder::new().name("log".into()).spawn(move || writer.run())?;
        Ok(Self { sender, shared })
    }

    pub fn flusher(&self) -> Flusher {
        Flusher(self.sender.clone())
    }

    pub fn admit(&self, name: &'static str, target: &'static str, level: Level, now: Instant) -> Admission {
        self.shared.limiter().admit(name, target, level, now)
    }

    /// Queues a line, or drops it if the queue is full.
    pub fn push(&self, line: String) {
        if self.sender.try_send(Message::Line(line)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets the writer look when it has to report what is left out.
    pub fn wake(&self) {
        // A writer that is behind looks anyway.
        let _ = self.sender.try_send(Message::Wake);
    }
}

impl Flusher {
    /// Waits until everything queued is written, or for a time if the reader is too slow.
    pub fn flush(&self) {
        let (ended, is_ended) = mpsc::channel();
        let start = Instant::now();
        let mut message = Message::Flush(ended);
        while let Err(TrySendError::Full(back)) = self.0.try_send(message) {
            if start.elapsed() > FLUSH_TIMEOUT {
                return;
            }
            message = back;
            thread::sleep(POLL);
        }
        let _ = is_ended.recv_timeout(FLUSH_TIMEOUT);
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.flush();
    }
}

struct Writer {
    sink: Box<dyn Write + Send>,
    lines: Receiver<Message>,
    shared: Arc<Shared>,
    in_force: Arc<RwLock<InForce>>,
}

impl Writer {
    fn run(mut self) {
        loop {
            let next_end = self.shared.limiter().next_end();
            let message = match next_end {
                None => self.lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(end) => self.lines.recv_timeout(end.saturating_duration_since(Instant::now())),
            };
            match message {
                Ok(Message::Line(line)) => self.write(&line),
                Ok(Message::Wake) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Flush(ended)) => {
                    self.report(true);
                    // The thread that waits may have given up.
                    let _ = ended.send(());
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.report(false);
        }
    }

    /// Writes how many lines were left out or dropped.
    fn report(&mut self, at_once: bool) {
        let left_out = self.shared.limiter().take_left_out(Instant::now(), at_once);
        for LeftOut { name, target, level, count } in left_out {
            let seconds = INTERVAL.as_secs();
            let message = format!("{count} more events '{name}' within {seconds} s were left out of the log");
            let fields = [("kind".to_owned(), json!(name)), ("count".to_owned(), json!(count))];
            self.write_record(Record {
                level,
                target,
                name: "left_out",
                message,
                fields: fields.into_iter().collect(),
            });
        }
        let dropped = self.shared.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let message = format!("{dropped} lines of the log were dropped, because its reader is too slow");
            let fields = [("count".to_owned(), json!(dropped))].into_iter().collect();
            self.write_record(Record { level: Level::WARN, target: "server", name: "dropped", message, fields });
        }
    }

    fn write_record(&mut self, record: Record) {
        let line = record.line(style(&self.in_force));
        self.write(&line);
    }

    /// Writes a line in one call, so that those of several processes do not mix. A full or closed sink is
    /// ignored: there is no other place to tell it.
    fn write(&mut self, line: &str) {
        let _ = self.sink.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Format, LogOverrides, LogSettings};
    use super::*;

    /// A sink whose writes wait until they are let through.
    struct Slow {
        gate: Receiver<()>,
        written: Arc<Mutex<String>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Without a sender everything is let through.
            let _ = self.gate.recv();
            self.written.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_delays_no_event_and_the_dropped_lines_are_counted() {
        let (open, gate) = mpsc::channel();
        let written = Arc::new(Mutex::new(String::new()));
        let slow = Slow { gate, written: Arc::clone(&written) };
        let human = LogSettings { format: Format::Human, ..LogSettings::default() };
        let in_force = Arc::new(RwLock::new(InForce::new(&LogOverrides::default(), &human)));
        let lines = LineQueue::start(Box::new(slow), in_force).unwrap();
        for at in 0..QUEUED_LINES + 100 {
            lines.push(format!("{at}\n"));
        }
        let dropped = lines.shared.dropped.load(Ordering::Relaxed);
        assert!((99..=100).contains(&dropped), "the writer may have taken one line: {dropped}");
        drop(open);
        drop(lines.flusher());
        let expected =
            format!("hoistway: warning: {dropped} lines of the log were dropped, because its reader is too slow");
        let is_written = || written.lock().unwrap().contains(&expected);
        // The flusher waits for a second only, in which a busy machine may not have run the writer.
        let end = Instant::now() + Duration::from_secs(60);
        while !is_written() && Instant::now() < end {
            thread::sleep(POLL);
        }
        assert!(is_written() && written.lock().unwrap().starts_with("0\n"), "{}", written.lock().unwrap());
    }

    #[test]
    fn the_end_does_not_wait_for_a_reader_that_reads_no_more() {
        let (_open, gate) = mpsc::channel();
        let slow = Slow { gate, written: Arc::default() };
        let human = LogSettings { format: Format::Human, ..LogSettings::default() };
        let in_force = Arc::new(RwLock::new(InForce::new(&LogOverrides::default(), &human)));
        let lines = LineQueue::start(Box::new(slow), in_force).unwrap();
        (0..QUEUED_LINES * 2).for_each(|_| lines.push("x\n".to_owned()));
        let start = Instant::now();
        drop(lines.flusher());
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }
}
