//! A server inside the test's own process, on a socket in a directory of its own.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hoistway_export::configuration::check::check;
use hoistway_export::configuration::{Problem, file};
use hoistway_export::control::socket::ask;
use hoistway_export::server::{CHECKS, Event, Origin, Server};
use tempfile::TempDir;

/// A server that runs until this is dropped.
pub struct Running {
    directory: TempDir,
    socket: PathBuf,
    sender: Sender<Event>,
    thread: Option<JoinHandle<u8>>,
}

impl Running {
    /// Serves the devices in `devices` (tables of a serve.toml without listeners).
    pub fn with(devices: &str) -> Self {
        Self::listening("", devices)
    }

    /// As [`Running::with`], with further lines for the listener.
    pub fn listening(listen: &str, devices: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::start(directory, listen, devices)
    }

    /// Serves one export called `file` on a sparse file.
    pub fn with_file(size_bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("backing");
        File::create(&path).unwrap().set_len(size_bytes).unwrap();
        let export = format!("[[device.export]]\nname = \"file\"\nbacking = \"{}\"\n", path.display());
        Self::start(directory, "", &format!("[[device]]\nname = \"file\"\n{export}"))
    }

    fn start(directory: TempDir, listen: &str, devices: &str) -> Self {
        let socket = directory.path().join("nbd.sock");
        let text = format!(
            "{devices}\n[[listen]]\nunix = \"{}\"\n{listen}\n[control]\nunix = \"{}\"\n[metrics]\nunix = \"{}\"\n",
            socket.display(),
            directory.path().join("control.sock").display(),
            directory.path().join("metrics.sock").display(),
        );
        let path = directory.path().join("serve.toml");
        std::fs::write(&path, &text).unwrap();
        let shown = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n");
        let configuration = file::read("serve.toml", &text).unwrap_or_else(|problems| panic!("{}", shown(problems)));
        let problems = check(&configuration, CHECKS);
        assert!(problems.is_empty(), "{}", shown(problems));
        let server = Server::start(configuration, Origin::File(path), Vec::new());
        let server = server.unwrap_or_else(|failure| panic!("{}", shown(failure.problems)));
        let sender = server.sender();
        let thread = Some(thread::spawn(move || server.run()));
        Self { directory, socket, sender, thread }
    }

    /// The socket that clients connect to.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The directory of sockets, configuration (`serve.toml`) and backing.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The server's status from the control socket.
    pub fn status(&self) -> serde_json::Value {
        let request = serde_json::json!({"command": "status"});
        ask(&self.directory.path().join("control.sock"), &request).unwrap()["ok"].clone()
    }

    /// Waits until the status satisfies `so`.
    pub fn await_that(&self, what: &str, so: impl Fn(&serde_json::Value) -> bool) {
        let start = Instant::now();
        loop {
            let status = self.status();
            if so(&status) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "never: {what}\n{status:#}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Bytes of the first device's arena that are in use.
    pub fn memory_in_use(&self) -> u64 {
        self.status()["devices"][0]["memory_used_bytes"].as_u64().unwrap()
    }

    /// Sends an event to the server.
    pub fn send(&self, event: Event) {
        self.sender.send(event).unwrap();
    }

    /// Waits for the server to end; returns its exit status.
    pub fn wait(mut self) -> u8 {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Sent twice: requests that a failed test left in flight must not keep the process alive.
        let _ = self.sender.send(Event::Terminate);
        let _ = self.sender.send(Event::Terminate);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
