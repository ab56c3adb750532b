//! The parent of a worker: waits for it, and reports a panic, an abort or a hang of the worker as a
//! finding.
//!
//! A finding is confirmed and shortened in fresh processes, so that an abort, a hang or a stack
//! overflow is handled like a panic.

use crate::shorten::shorten;
use crate::target::Target;
use crate::worker::{Budget, read_current};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A target that takes longer for one input counts as hanging. Others may have the processors meanwhile.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of one attempt of shortening.
const TRY_TIME_LIMIT: Duration = Duration::from_secs(5);
/// Attempts of shortening: a process each, a few milliseconds.
const SHORTENING_TRIES: usize = 2_000;
/// How often the parent checks the worker.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Inputs up to this length are printed.
const PRINTED_BYTES: usize = 1_024;
/// Size at which a worker's error output is cut.
const MESSAGE_BYTES: usize = 4_096;

/// The result of fuzzing one target.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing was found; the worker's last line of output.
    Clean(String),
    /// A property was violated.
    Found(Finding),
}

/// An input on which a target violates its property.
#[derive(Debug)]
pub struct Finding {
    /// The shortened input.
    pub input: Vec<u8>,
    /// How the target ended on it: its exit status, or a hang.
    pub ended: String,
    /// The target's output, shortened.
    pub message: String,
    /// The file with the shortened input.
    pub file: PathBuf,
}

/// Fuzzes one target in a process of its own.
pub fn fuzz(target: &Target, seed: u64, budget: Budget) -> std::io::Result<Outcome> {
    let folder = folder()?;
    // Two runs at once must not share the file.
    let current = folder.join(format!("{}-{}.current", target.name, std::process::id()));
    let mut command = this_program()?;
    command.args([target.name, "--seed", &seed.to_string(), "--worker"]).arg(&current);
    if let Some(runs) = budget.runs {
        command.args(["--runs", &runs.to_string()]);
    }
    if let Some(time) = budget.time {
        command.args(["--seconds", &time.as_secs().max(1).to_string()]);
    }
    let ended = watch(command, || idle_time(&current).is_some_and(|idle| idle > TIME_LIMIT))?;
    let outcome = match (ended.status, read_current(&current)) {
        (Some(status), _) if status.success() => Ok(Outcome::Clean(ended.output.trim().to_owned())),
        (_, Some(input)) => finding(target, &input, &folder, ended.message).map(Outcome::Found),
        (_, None) => Err(std::io::Error::other(format!("the worker did not start: {}", ended.message))),
    };
    let _ = std::fs::remove_file(&current);
    outcome
}

/// Runs one input in a process of its own; returns nothing if it causes no failure.
pub fn replay(target: &Target, input: &[u8], patience: Duration) -> std::io::Result<Option<(String, String)>> {
    let file = folder()?.join(format!("{}-{}.try", target.name, std::process::id()));
    std::fs::write(&file, input)?;
    let mut command = this_program()?;
    command.args([target.name, "--once", "--file"]).arg(&file);
    let begin = Instant::now();
    let ended = watch(command, || begin.elapsed() > patience)?;
    let _ = std::fs::remove_file(&file);
    Ok(match ended.status {
        Some(status) if status.success() => None,
        Some(status) => Some((status.to_string(), ended.message)),
        None => Some((format!("no end within {} s", patience.as_secs()), ended.message)),
    })
}

/// `message` is the worker's output for the input.
fn finding(target: &Target, input: &[u8], folder: &Path, message: String) -> std::io::Result<Finding> {
    let Some(first) = replay(target, input, TIME_LIMIT)? else {
        // This is still a finding. It may depend on state that earlier inputs left in the worker,
        // or on a shortage of memory.
        return keep(folder, target, input.to_vec(), ("not seen again in a fresh process".into(), message));
    };
    // A different failure is a different finding: the shortened input must fail in the same way.
    let is_same = |again: &(String, String)| again.0 == first.0 && place_of(&again.1) == place_of(&first.1);
    let short = shorten(
        input,
        SHORTENING_TRIES,
        |bytes| matches!(replay(target, bytes, TRY_TIME_LIMIT), Ok(Some(again)) if is_same(&again)),
    );
    let ended = replay(target, &short, TIME_LIMIT)?.unwrap_or(first);
    keep(folder, target, short, ended)
}

fn keep(folder: &Path, target: &Target, input: Vec<u8>, ended: (String, String)) -> std::io::Result<Finding> {
    let hash = hoistway_block::random::fnv1a64(&input);
    let file = folder.join(format!("{}-{hash:016x}", target.name));
    std::fs::write(&file, &input)?;
    Ok(Finding { input, ended: ended.0, message: ended.1, file })
}

/// The location that a panic reports.
fn place_of(message: &str) -> Option<&str> {
    let (_, after) = message.split_once("panicked at ")?;
    after.lines().next()
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "  ended   {}", self.ended)?;
        for line in self.message.lines() {
            writeln!(f, "  | {line}")?;
        }
        if self.input.len() <= PRINTED_BYTES {
            writeln!(f, "  input   b\"{}\"", self.input.escape_ascii())?;
        }
        write!(f, "  bytes   {} in {}", self.input.len(), self.file.display())
    }
}

/// How a process ended; no status if it was killed.
struct Ended {
    status: Option<ExitStatus>,
    output: String,
    message: String,
}

/// Runs a process to its end, or kills it when `is_stuck` returns true.
fn watch(mut command: Command, is_stuck: impl Fn() -> bool) -> std::io::Result<Ended> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output = drain(child.stdout.take());
    let message = drain(child.stderr.take());
    let status = wait(&mut child, is_stuck)?;
    let text = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
    Ok(Ended { status, output: text(output), message: text(message) })
}

fn wait(child: &mut Child, is_stuck: impl Fn() -> bool) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if is_stuck() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Reads a stream to its end, so that the child never blocks on it, and keeps its first bytes.
fn drain(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.by_ref().take(MESSAGE_BYTES as u64).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// How long ago the worker began its present input.
fn idle_time(current: &Path) -> Option<Duration> {
    let begun = std::fs::metadata(current).ok()?.modified().ok()?;
    SystemTime::now().duration_since(begun).ok()
}

fn this_program() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    // The location of the panic and the input suffice; a backtrace would use up the part of the
    // output that is kept, in which the calls are printed.
    command.env("RUST_BACKTRACE", "0");
    Ok(command)
}

/// The directory of findings: below the build directory, which git ignores.
fn folder() -> std::io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new(".")).join("fuzz-findings");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
