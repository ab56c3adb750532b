//! The real `hoistway serve` in a process and a directory of its own.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The time after which a program or a condition that a test waits for counts as hung. It is long,
/// because speed is not tested here.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Whether all of these programs are installed; if not, prints a message.
pub fn requires(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<&&str> = programs.iter().filter(|program| !is_installed(program)).collect();
    if !missing.is_empty() {
        println!("SKIPPED {test}: not installed: {missing:?} (Debian: fio libnbd-bin qemu-utils)");
    }
    missing.is_empty()
}

fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// A file of `size` bytes without data.
pub fn sparse_file(path: &Path, size: u64) {
    File::create(path).unwrap().set_len(size).unwrap();
}

/// Bytes of which no two 512-byte blocks are equal.
pub fn pattern(length: usize) -> Vec<u8> {
    let word = |at: usize| (at as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..length).step_by(8).flat_map(word).take(length).collect()
}

/// Runs a program to its end; returns its output. Panics if it hangs.
///
/// Its working directory is a temporary one, because fio leaves the state of `verify` there.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    let working_directory = directory();
    run_command(Command::new(program).args(arguments).current_dir(working_directory.path()))
}

/// As [`run`], for a given command.
pub fn run_command(command: &mut Command) -> Output {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = err.read_to_end(&mut bytes);
        bytes
    });
    let mut stdout = Vec::new();
    let _ = out.read_to_end(&mut stdout);
    let status = wait_for_exit(&mut child);
    Output { status, stdout, stderr: reader.join().unwrap() }
}

/// Runs a program that must succeed; returns its standard output.
#[track_caller]
pub fn succeed(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}\n{err}", output.status);
    out
}

/// Waits for a child, with a time limit.
pub fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > TIME_LIMIT {
            let _ = child.kill();
            panic!("a program hung for {TIME_LIMIT:?}");
        }
        // Polls for the end of a child, because there is no portable wait with a timeout.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a condition holds, with a time limit.
#[track_caller]
pub fn await_that(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < TIME_LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The program under test.
pub fn hoistway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hoistway"))
}

/// A directory for one test's files, on tmpfs if possible, so that most tests do not wear a disk
/// out.
pub fn directory() -> TempDir {
    if Path::new("/dev/shm").is_dir() {
        tempfile::tempdir_in("/dev/shm").unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// A listening server. Killed when dropped, if it still runs.
pub struct Served {
    pub directory: TempDir,
    pub child: Child,
    /// The lines that it printed when it was ready.
    pub ready: Vec<String>,
}

impl Served {
    /// Serves a sparse file of `size` bytes as `x`, configured by flags, with a control socket.
    pub fn file(size: u64) -> Self {
        let directory = directory();
        sparse_file(&directory.path().join("x.img"), size);
        Self::flags(directory, &["--export", "x=@/x.img"])
    }

    /// Serves with flags, on `nbd.sock` in the directory; `@` stands for the directory.
    pub fn flags(directory: TempDir, arguments: &[&str]) -> Self {
        let place = directory.path().display().to_string();
        let mut command = hoistway();
        command.args(["serve", "--nbd", &format!("unix:{place}/nbd.sock")]);
        command.args(["--control", &format!("unix:{place}/control.sock"), "--memory", "64MiB"]);
        command.args(arguments.iter().map(|argument| argument.replace('@', &place)));
        Self::start(directory, command, 1)
    }

    /// Serves with a configuration file, `serve.toml` in the directory; `@/` stands for the
    /// directory.
    pub fn configured(directory: TempDir, text: &str) -> Self {
        let path = directory.path().join("serve.toml");
        fs::write(&path, text.replace("@/", &format!("{}/", directory.path().display()))).unwrap();
        let mut command = hoistway();
        command.arg("serve").arg(&path);
        let listeners = text.matches("[[listen]]").count();
        Self::start(directory, command, listeners)
    }

    /// Starts a server and waits for its ready lines.
    pub fn start(directory: TempDir, mut command: Command, lines: usize) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut ready = Vec::new();
        for _ in 0..lines {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            assert!(line.starts_with("listening nbd "), "no ready line but {line:?}");
            ready.push(line.trim_end().to_owned());
        }
        Self { directory, child, ready }
    }

    /// A path inside the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The NBD URI of an export on the unix socket.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.path("nbd.sock").display())
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        succeed("kill", &[&format!("-{name}"), &self.child.id().to_string()]);
    }

    /// Ends the server with SIGTERM; returns its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        self.signal("TERM");
        wait_for_exit(&mut self.child).code()
    }

    /// `hoistway ctl --json ...`: returns the answer as text and the exit code.
    pub fn ctl(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let socket = self.path("control.sock");
        let output = run_command(hoistway().args(["ctl", "--json", "--control"]).arg(socket).args(arguments));
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    }

    /// The answer to `hoistway ctl status`.
    pub fn status(&self) -> serde_json::Value {
        let (text, code) = self.ctl(&["status"]);
        assert_eq!(code, Some(0), "{text}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["ok"].clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
