//! `device create`, `list` and `delete`: models as block devices of this machine.
//!
//! ```text
//! create --starts--> serve --starts--> keep
//!    |  stdin: K = outlive the creator; EOF without K = remove the device
//!    +- stdout: a line of JSON once the device exists, or the reason why it does not
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hoistway_experiment::Exit;
use hoistway_linux::device::Opening;
use hoistway_rig::{Lifetime, Rig, RigError, Settings};

use super::left;
use crate::device::arguments::{CreateArguments, DeleteArguments, RigListArguments};
use crate::exit::{Error, Outcome, Reporter, print};
use crate::interrupt::Interrupt;

/// A server takes some tens of milliseconds to start.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Time for I/O in flight when a device is deleted; the server itself waits 5 s.
const END_PATIENCE: Duration = Duration::from_secs(9);

/// `hoistway device create`.
pub fn create(arguments: &CreateArguments, reporter: Reporter) -> Outcome {
    settings(arguments).resolve().map_err(refused)?;
    if !rustix::process::geteuid().is_root() {
        let what = "only root can create a block device";
        return Err(Error::failed(what, "sudo hoistway device create ..., or measure on the simulator: model:NAME"));
    }
    let interrupt = Interrupt::install()?;
    let mut server = again(&["device", "serve"]);
    server.args(serve_arguments(arguments)).stdin(Stdio::piped()).stdout(Stdio::piped());
    // The server gets its own standard error, so that a process that waits for the end of ours does
    // not wait for the server's.
    server.stderr(Stdio::piped());
    let mut child = server.spawn().map_err(|error| Error::failed(format!("cannot start the server: {error}"), ""))?;
    let (mut lifetime_pipe, output) = (child.stdin.take(), child.stdout.take());
    let line = first_line(output, &interrupt);
    let outcome = match line.as_deref().map(serde_json::from_str::<Rig>) {
        Some(Ok(rig)) => {
            print(&format!("{}\n", rig.node().display()))?;
            if arguments.foreground {
                reporter.note(format!("model {} until Ctrl-C", rig.model));
                while !interrupt.is_asked() && matches!(child.try_wait(), Ok(None)) {
                    interrupt.rest(Duration::from_millis(200));
                }
            } else if !interrupt.is_asked() {
                // From here on the server outlives this process.
                let _ = lifetime_pipe.as_mut().map(|lifetime_pipe| lifetime_pipe.write_all(b"K"));
                return Ok(Exit::Done);
            }
            Ok(interrupt.exit().unwrap_or(Exit::Done))
        }
        Some(Err(_)) => Err(Error::failed("the server sent an invalid answer", "")),
        None => interrupt.exit().ok_or_else(|| Error::failed("the device could not be created", "")),
    };
    // Closing its stdin tells the server to exit.
    drop(lifetime_pipe);
    match child.wait_with_output() {
        Ok(output) if outcome.is_err() && !output.stderr.is_empty() => {
            // The server has already reported the error in the usual form.
            let _ = std::io::stderr().write_all(&output.stderr);
            Err(Error { messages: Vec::new(), exit: Exit::Failed })
        }
        _ => outcome,
    }
}

/// The first line of the server, or nothing if it exits without one, takes too long or a signal
/// arrives.
fn first_line(output: Option<std::process::ChildStdout>, interrupt: &Interrupt) -> Option<String> {
    let (sender, lines) = std::sync::mpsc::channel();
    let output = output?;
    std::thread::spawn(move || {
        let mut line = String::new();
        // Without a line there is nothing to send, and the receiver notices.
        if BufReader::new(output).read_line(&mut line).is_ok_and(|length| length > 0) {
            let _ = sender.send(line);
        }
    });
    let begin = Instant::now();
    loop {
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => return Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(_) if interrupt.is_asked() || begin.elapsed() > START_PATIENCE => return None,
            Err(_) => {}
        }
    }
}

/// Starts this program again.
fn again(arguments: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments);
    command
}

fn settings(arguments: &CreateArguments) -> Settings {
    let CreateArguments { model, size_bytes, seed, memory_bytes, .. } = arguments.clone();
    let model = model.strip_prefix("model:").unwrap_or(&model).to_owned();
    let memory_bytes = memory_bytes.unwrap_or_else(|| available_memory_bytes() / 2);
    Settings { model, size_bytes, seed, memory_bytes }
}

fn serve_arguments(arguments: &CreateArguments) -> Vec<String> {
    let settings = settings(arguments);
    let mut texts = vec![
        format!("--model={}", settings.model),
        format!("--seed={}", settings.seed),
        format!("--memory={}", settings.memory_bytes),
    ];
    texts.extend(settings.size_bytes.map(|bytes| format!("--size={bytes}")));
    texts
}

fn available_memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(1 << 20) << 10
}

/// Runs the hidden `hoistway device serve`.
pub fn serve(arguments: &CreateArguments) -> Outcome {
    // A terminal's Ctrl-C is meant for the process that started this one, which passes it on
    // through stdin.
    let _ = rustix::process::setsid();
    let mut ready = |rig: &Rig| {
        let Ok(mut line) = serde_json::to_string(rig) else { return false };
        line.push('\n');
        let mut stdout = std::io::stdout();
        stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_ok()
    };
    let keeper = again(&["device", "keep"]);
    hoistway_rig::serve(&settings(arguments), keeper, Lifetime::StandardInput, &mut ready).map_err(refused)?;
    Ok(Exit::Done)
}

/// Runs the hidden `hoistway device keep`.
pub fn keep() -> Outcome {
    // The server reports the error itself.
    Ok(hoistway_rig::hold().map_or(Exit::Failed, |()| Exit::Done))
}

/// `hoistway device list`.
pub fn list(arguments: &RigListArguments) -> Outcome {
    let rigs = hoistway_rig::list();
    if arguments.json {
        let text = serde_json::to_string_pretty(&rigs).map_err(|error| Error::failed(error.to_string(), ""))?;
        print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    let mut text =
        format!("{:<12} {:>10} {:>5} {:>9} {:>15}  MODEL\n", "DEVICE", "SIZE", "DEPTH", "WRITTEN", "LATE us 50/99%");
    for rig in rigs {
        let late = match rig.lateness.replies() {
            0 => "-".to_owned(),
            _ => format!("<{} / <{}", rig.lateness.below_us(50), rig.lateness.below_us(99)),
        };
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let (node, size, written) = (rig.node(), mib(rig.size_bytes), mib(rig.memory_bytes));
        text += &format!("{:<12} {size:>10} {:>5} {written:>9} {late:>15}  {}\n", node.display(), rig.depth, rig.model);
    }
    print(&(text + &left::lines()))?;
    Ok(Exit::Done)
}

/// `hoistway device delete`.
pub fn delete(arguments: &DeleteArguments, reporter: Reporter) -> Outcome {
    let all = arguments.devices.iter().any(|name| name == "all");
    for number in arguments.devices.iter().filter_map(|name| left::number(name)) {
        left::delete(number, arguments.force)?;
    }
    let found = if all {
        hoistway_rig::list()
    } else {
        let find = |name: &String| {
            let help = "hoistway device list shows them";
            hoistway_rig::find(name)
                .ok_or_else(|| Error::usage(format!("{name} is not a device of `hoistway device create`"), help))
        };
        arguments.devices.iter().filter(|name| left::number(name).is_none()).map(find).collect::<Result<_, _>>()?
    };
    if !arguments.force {
        for rig in &found {
            refuse_used(&rig.node())?;
        }
    }
    let mut exit = Exit::Done;
    for rig in &found {
        rig.server.terminate();
        if !rig.server.is_alive() {
            rig.holder.terminate();
        }
        let begin = Instant::now();
        while rig.is_alive() && begin.elapsed() < END_PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        if rig.is_alive() {
            let help = "end the processes that use it, and delete it again";
            reporter.warn(format!("{} cannot be removed: a process has it open", rig.node().display()), help);
            exit = Exit::NotRestored;
        }
    }
    // Listing the devices also removes the records of those that ended in other ways.
    hoistway_rig::list();
    Ok(exit)
}

/// Refuses a device that is mounted or part of another one.
fn refuse_used(node: &Path) -> Result<(), Error> {
    let opening = Opening { writable: false, direct: false, exclusive: true, claimed_bytes: (0, 0) };
    match hoistway_linux::device::open(node, None, opening) {
        Err(hoistway_linux::device::Refusal::InUse { user, .. }) => {
            let what = format!("{} is in use ({})", node.display(), user.display());
            Err(Error::refused(what, "unmount it; with --force its users get I/O errors"))
        }
        // Any other problem with the device does not prevent its deletion.
        _ => Ok(()),
    }
}

fn refused(error: RigError) -> Error {
    match error {
        RigError::Model(error) => super::wrong_model(error),
        RigError::Size(what) => {
            Error::usage(what, "write for example --size 8G, or leave it out to use the model's size").at("--size")
        }
        RigError::System { .. } | RigError::Holder(_) => {
            Error::failed(error.to_string(), "it needs root, /dev/fuse and loop devices (modprobe fuse loop)")
        }
    }
}
