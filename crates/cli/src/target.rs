//! The target of the I/O: converts the user's text to something that a host can open, after all
//! checks.
//!
//! | text | host | what is opened |
//! | --- | --- | --- |
//! | `model:ssd` | simulator | nothing |
//! | `model:ssd,/path/disk.img`, or `model:ssd` with `--host engine` | engine | the file, or a temporary one, behind the model |
//! | a directory | engine, native | a temporary file in it |
//! | `--file PATH` | engine, native | our own file, marked as such |
//! | a file, a block device | engine, native | itself, read-only unless `--destructive` names it |
//! | `memory:1GiB`, `null:1TiB` | engine | memory, nothing; also behind a model |
//!
//! Temporary files lose their name as soon as their content is written: hosts open them through the
//! descriptor, so that they disappear however the process ends.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use hoistway_device::Model;
use hoistway_experiment::Refusal;
use hoistway_linux::device::{Kind, Opened, Opening, data_run_at};

use crate::exit::{Error, Reporter, of_target};
use crate::interrupt::Interrupt;
use crate::layout::{self, TestFile};
use crate::run_test::arguments::PlaceArguments;

/// The host that runs experiments.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum HostName {
    /// The simulator, in virtual time.
    Simulator,
    /// Our own engine, with real I/O.
    Engine,
    /// The kernel, with real I/O.
    Native,
}

impl HostName {
    /// The name on the command line and in results.
    pub const fn text(self) -> &'static str {
        match self {
            HostName::Simulator => "simulator",
            HostName::Engine => "engine",
            HostName::Native => "native",
        }
    }
}

/// A target that exists or can be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// As the user wrote it, or the text for the default target.
    pub text: String,
    /// The device model in front of it, or the simulated device.
    model: Option<String>,
    what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    /// The simulator only.
    Simulated,
    /// A temporary file in this directory.
    Directory(PathBuf),
    /// A permanent file created by us.
    Own(PathBuf),
    /// An existing file or device.
    Existing(PathBuf),
    /// The engine's memory or null target.
    Scratch(String),
}

/// A target in use.
#[derive(Debug)]
pub struct OpenTarget {
    /// The text for the host.
    pub host_text: String,
    /// The directory of a temporary file, for the head of the classic table.
    pub directory: Option<PathBuf>,
    file: Option<TestFile>,
    /// Held open for the whole run, so that it cannot be mounted meanwhile.
    _claim: Option<Opened>,
}

impl OpenTarget {
    /// The path of a file that stays.
    pub fn kept(&self) -> Option<&Path> {
        self.file.as_ref()?.kept()
    }
}

impl Target {
    /// Determines host and target; nothing is opened for writing or created.
    pub fn resolve(text: Option<&str>, arguments: &PlaceArguments) -> Result<(HostName, Target), Error> {
        let wanted = arguments.host.as_deref().map(host).transpose()?;
        if let Some(path) = &arguments.file {
            let target = Target { text: path.display().to_string(), model: None, what: What::Own(path.clone()) };
            return target.on(wanted.unwrap_or(HostName::Engine), arguments);
        }
        let text = text.unwrap_or("model:sata");
        let target = match text.strip_prefix("model:") {
            Some(model) => modelled(text, model, wanted),
            None if is_scratch(text) => {
                Target { text: text.to_owned(), model: None, what: What::Scratch(text.to_owned()) }
            }
            None => {
                let path = PathBuf::from(text);
                let is_directory = path.is_dir();
                let what = if is_directory { What::Directory(path) } else { What::Existing(path) };
                Target { text: text.to_owned(), model: None, what }
            }
        };
        let usual = if target.what == What::Simulated { HostName::Simulator } else { HostName::Engine };
        target.on(wanted.unwrap_or(usual), arguments)
    }

    fn on(self, host: HostName, arguments: &PlaceArguments) -> Result<(HostName, Target), Error> {
        if host == HostName::Simulator && self.what != What::Simulated {
            let what = format!("the simulator has no target '{}'", self.text);
            return Err(Error::usage(what, "name a model (hoistway list devices), or leave --host simulator out"));
        }
        let is_real =
            matches!(self.what, What::Existing(_) | What::Directory(_) | What::Own(_)) && self.model.is_none();
        if host == HostName::Native && !is_real {
            let what =
                format!("the native host needs a block device, a file or a directory, and '{}' is not one", self.text);
            let help = "lsblk lists the devices of this machine; hoistway device create --model NAME makes one";
            return Err(Error::usage(what, help).at("--host"));
        }
        if arguments.keep && !matches!(self.what, What::Directory(_)) {
            let what = format!("--keep needs a directory as the target: {} is not a directory", self.text);
            return Err(Error::usage(what, "leave it out; a file of --file is always kept"));
        }
        if arguments.exclusive && !matches!(self.what, What::Existing(_)) {
            let what = format!("--exclusive has no meaning for {}", self.text);
            return Err(Error::usage(what, "leave it out; it is for block devices"));
        }
        self.check(arguments)?;
        Ok((host, self))
    }

    /// Checks whether the target can be read or, if a file is to be created, written.
    fn check(&self, arguments: &PlaceArguments) -> Result<(), Error> {
        if let Some(model) = &self.model {
            Model::parse(model)
                .map_err(|wrong| Error::usage(wrong.to_string(), "all models: hoistway list devices"))?;
        }
        match &self.what {
            What::Simulated => {}
            What::Scratch(text) => {
                hoistway_engine::Backing::parse(text).map_err(|error| Error::usage(error.message, error.help))?;
            }
            What::Existing(path) => {
                let opening =
                    Opening { writable: false, direct: false, exclusive: arguments.exclusive, claimed_bytes: (0, 0) };
                refuse_holes(path, &open(path, opening)?)?;
            }
            What::Own(path) if path.exists() => {
                layout::check_mark(path)?;
            }
            What::Own(path) => {
                if path.starts_with("/dev") {
                    let what = format!("{} would be a file in /dev, which is in memory", path.display());
                    return Err(Error::refused(what, "choose a path on a disk"));
                }
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
                directory_is_writable(parent)?;
            }
            What::Directory(path) => directory_is_writable(path)?,
        }
        Ok(())
    }

    /// Whether a file has to be created first.
    pub fn is_made(&self) -> bool {
        matches!(self.what, What::Directory(_) | What::Own(_))
    }

    /// A line about how it will be accessed.
    pub fn access(&self, writes: bool) -> String {
        match &self.what {
            What::Simulated => "simulated".to_owned(),
            What::Directory(path) => format!("temporary file in {}, removed at the end", path.display()),
            What::Own(path) => format!("test file {}, kept", path.display()),
            What::Existing(_) if writes => "WRITES, its content is lost".to_owned(),
            What::Existing(_) => "READ ONLY".to_owned(),
            What::Scratch(text) => format!("{text}, no disk is touched"),
        }
    }

    /// The host's text of a substitute of the same kind, with which schedulers and jobs can be
    /// checked before files are created.
    pub fn stand_in(&self, host: HostName, bytes: u64) -> String {
        match &self.what {
            // The kernel schedules the disk that the file will be on.
            What::Directory(directory) if host == HostName::Native => {
                hoistway_native::target::placeholder(directory, bytes)
            }
            What::Own(path) if host == HostName::Native => {
                hoistway_native::target::placeholder(path.parent().unwrap_or(Path::new("")), bytes)
            }
            What::Simulated => self.text.clone(),
            What::Existing(path) => self.behind_model(path.display().to_string()),
            What::Scratch(text) => self.behind_model(text.clone()),
            What::Directory(_) | What::Own(_) => self.behind_model(format!("null:{bytes}")),
        }
    }

    fn behind_model(&self, text: String) -> String {
        match &self.model {
            Some(model) if self.what != What::Simulated => format!("model:{model},{text}"),
            _ => text,
        }
    }

    /// Refuses writes that were not allowed.
    pub fn check_writes(&self, host: HostName, arguments: &PlaceArguments) -> Result<(), Error> {
        let What::Existing(path) = &self.what else { return Ok(()) };
        if host == HostName::Native && arguments.destructive.is_some() {
            return Ok(());
        }
        let what = format!("the workload writes, and {} may not be written to", path.display());
        let help = match host {
            HostName::Native => {
                "use a workload that only reads, or allow writes: --destructive followed by the path of the device"
            }
            _ => {
                "name a directory (a temporary file is created there) or --file NEW; or use a workload that only reads"
            }
        };
        Err(Error::refused(what, help))
    }

    /// `--destructive` must name exactly what will be destroyed.
    pub fn check_destructive(&self, host: HostName, arguments: &PlaceArguments, writes: bool) -> Result<(), Error> {
        let Some(named) = &arguments.destructive else { return Ok(()) };
        let is_target = matches!(&self.what, What::Existing(path) if path == named);
        let wrong = |what: String, help: &str| Err(Error::usage(what, help).at("--destructive"));
        if !is_target || named.as_os_str() != self.text.as_str() {
            let what = format!("{} is not the target, which is {}", named.display(), self.text);
            return wrong(what, "repeat the path of the device exactly as it is given as TARGET");
        }
        if named.is_file() {
            let help = "name a directory or --file NEW, and a file is created";
            return wrong(format!("{} is a file, not a device", named.display()), help);
        }
        if host != HostName::Native {
            return wrong("only the native host writes to devices".to_owned(), "add --host native");
        }
        if !writes {
            return wrong("this test does not write".to_owned(), "leave it out");
        }
        Ok(())
    }

    /// Creates or opens it. `bytes` is the size that the jobs need of a file that is created.
    pub fn open(
        &self,
        bytes: u64,
        arguments: &PlaceArguments,
        interrupt: &Interrupt,
        reporter: Reporter,
    ) -> Result<OpenTarget, Error> {
        let plain = |host_text| OpenTarget { host_text, directory: None, file: None, _claim: None };
        match &self.what {
            What::Simulated => Ok(plain(self.text.clone())),
            What::Scratch(text) => Ok(plain(self.behind_model(text.clone()))),
            What::Directory(directory) => {
                reporter.note(format!("writing a test file of {} MiB in {}", bytes >> 20, directory.display()));
                let file = TestFile::temporary(directory, bytes, arguments.keep, interrupt)?;
                let host_text = self.behind_model(file.host_text());
                Ok(OpenTarget { directory: Some(directory.clone()), file: Some(file), ..plain(host_text) })
            }
            What::Own(path) => {
                let file = if path.exists() {
                    TestFile::again(path, bytes)?
                } else {
                    reporter.note(format!("writing the test file {} of {} MiB", path.display(), bytes >> 20));
                    TestFile::create(path, bytes, interrupt)?
                };
                let host_text = self.behind_model(file.host_text());
                Ok(OpenTarget { file: Some(file), ..plain(host_text) })
            }
            What::Existing(path) => {
                let claim = match &arguments.destructive {
                    Some(_) => claim_for_writing(path, arguments.overwrite_signature)?,
                    None => claim(path, arguments.exclusive, reporter)?,
                };
                Ok(OpenTarget { _claim: Some(claim), ..plain(self.behind_model(path.display().to_string())) })
            }
        }
    }
}

/// Parses `--host`.
fn host(text: &str) -> Result<HostName, Error> {
    match text {
        "simulator" | "sim" => Ok(HostName::Simulator),
        "engine" => Ok(HostName::Engine),
        "native" | "kernel" => Ok(HostName::Native),
        _ => {
            let meant =
                hoistway_experiment::diagnostic::did_you_mean(text, ["simulator", "engine", "native", "kernel"]);
            let what = format!("there is no host '{text}'");
            Err(Error::usage(what, format!("{meant}hosts are simulator (sim), engine and native (kernel)"))
                .at("--host"))
        }
    }
}

/// `model:NAME[,KEY=VALUE...][,PATH]`: with a path the engine runs it, behind the model.
fn modelled(text: &str, rest: &str, wanted: Option<HostName>) -> Target {
    let is_setting = |word: &str| word.split_once('=').is_some_and(|(key, _)| !key.contains('/'));
    let mut end = rest.find(',').unwrap_or(rest.len());
    let mut path = None;
    while let Some(behind) = rest.get(end + 1..) {
        let word = behind.split(',').next().unwrap_or(behind);
        // A word that is neither a setting nor a path stays in the model's text, and the model's
        // parser reports it.
        if !is_setting(word) && (word.contains('/') || is_scratch(behind) || Path::new(behind).exists()) {
            path = Some(behind);
            break;
        }
        end += 1 + word.len();
    }
    let model = Some(rest[..end.min(rest.len())].to_owned());
    let target = |what| Target { text: text.to_owned(), model, what };
    match (path, wanted) {
        (Some(scratch), _) if is_scratch(scratch) => target(What::Scratch(scratch.to_owned())),
        (Some(path), _) if Path::new(path).is_dir() => target(What::Directory(path.into())),
        (Some(path), _) => target(What::Existing(path.into())),
        (None, Some(HostName::Engine)) => target(What::Directory(std::env::temp_dir())),
        (None, _) => target(What::Simulated),
    }
}

/// Whether the engine provides it without a file.
fn is_scratch(text: &str) -> bool {
    text.starts_with("memory:") || text.starts_with("null:")
}

fn directory_is_writable(path: &Path) -> Result<(), Error> {
    if path.starts_with("/dev") && !path.starts_with("/dev/shm") {
        let what = format!("{} is in /dev, which is in memory", path.display());
        return Err(Error::refused(what, "choose a directory on a disk"));
    }
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::usage(format!("the directory {} does not exist", path.display()), "create it, or name another")
        }
        _ => Error::file(path, "look at", &error),
    })?;
    if !metadata.is_dir() {
        return Err(Error::usage(format!("{} is not a directory", path.display()), "name a directory"));
    }
    if metadata.permissions().readonly() {
        return Err(Error::failed(
            format!("{} cannot be written to", path.display()),
            "name a directory that you may write to",
        ));
    }
    Ok(())
}

fn open(path: &Path, opening: Opening) -> Result<Opened, Error> {
    hoistway_linux::device::open(path, None, opening).map_err(|refusal| of_target(&refusal))
}

/// Opens a file or device for reading and keeps it open; a device that is in use is reported. With
/// an exclusive claim others, including the host, can still read it, but it cannot be mounted.
fn claim(path: &Path, exclusive: bool, reporter: Reporter) -> Result<Opened, Error> {
    let opening = Opening { writable: false, direct: false, exclusive: true, claimed_bytes: (0, 0) };
    match hoistway_linux::device::open(path, None, opening) {
        Err(hoistway_linux::device::Refusal::InUse { user, .. }) if !exclusive => {
            reporter.note(format!(
                "{} is in use ({}): other I/O may disturb the figures",
                path.display(),
                user.display()
            ));
            open(path, Opening { exclusive: false, ..opening })
        }
        opened => opened.map_err(|refusal| of_target(&refusal)),
    }
}

/// Opens a device for writing, after every check, and keeps it open: it cannot be mounted or
/// claimed by another process meanwhile. Source: docs/specifications/harness.md, section 2.2.
fn claim_for_writing(path: &Path, overwrite_signature: bool) -> Result<Opened, Error> {
    let opening = Opening { writable: true, direct: false, exclusive: true, claimed_bytes: (0, 0) };
    let opened = open(path, opening)?;
    let is_zoned = hoistway_linux::block_queue::BlockQueue::of(path).ok().and_then(|queue| queue.attribute("zoned"));
    if is_zoned.is_some_and(|kind| kind != "none") {
        let what = format!("{} is zoned: it can only be written in the order of its zones", path.display());
        return Err(Error::refused(what, "choose a workload that only reads, or another device"));
    }
    let found = hoistway_linux::signature::find(opened.file.as_fd(), opened.facts.size_bytes)
        .map_err(|error| Error::file(path, "read", &error))?;
    match found {
        Some(found) if !overwrite_signature => {
            let what = format!("{} holds {found}", path.display());
            Err(Error::refused(what, "if it may be lost, add --overwrite-signature"))
        }
        _ => Ok(opened),
    }
}

/// Refuses a file with holes, because reading a hole measures memory and not the disk.
fn refuse_holes(path: &Path, opened: &Opened) -> Result<(), Error> {
    if opened.facts.kind == Kind::BlockDevice {
        return Ok(());
    }
    let size_bytes = opened.facts.size_bytes;
    let first =
        data_run_at(opened.file.as_fd(), 0, size_bytes).map_err(|error| Error::file(path, "look at", &error))?;
    if !first.is_hole && first.end_bytes >= size_bytes {
        return Ok(());
    }
    let at = if first.is_hole { 0 } else { first.end_bytes };
    Err(Error::usage(
        format!("{} has a hole at byte {at}: reading it would measure memory", path.display()),
        "fill it (cp --sparse=never OLD NEW), or have a file created: --file NEW",
    ))
}

/// Replaces the host's text for the target by the user's in a refusal.
pub fn refusal_for_user(refusal: &Refusal, host_text: &str, text: &str) -> Refusal {
    let renamed = |message: &str| with_user_target_name(message, host_text, text);
    Refusal { message: renamed(&refusal.message), help: renamed(&refusal.help), exit: refusal.exit }
}

/// The message with our `/dev/fd/N` replaced by the user's name of the target.
pub fn with_user_target_name(message: &str, host_text: &str, text: &str) -> String {
    if host_text.is_empty() {
        return message.to_owned();
    }
    let message = message.replace(host_text, text);
    let Some((_, rest)) = host_text.split_once("/dev/fd/") else { return message };
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let with_slice = format!("/dev/fd/{rest}");
    let names = [with_slice, format!("/proc/{}/fd/{number}", std::process::id()), format!("/dev/fd/{number}")];
    names.iter().fold(message, |message, name| without_name(&message, name, text))
}

/// Replaces `name` by `text` wherever no further digit follows: descriptor 3 is not 31.
fn without_name(message: &str, name: &str, text: &str) -> String {
    let mut parts = message.split(name).peekable();
    let mut renamed = String::new();
    while let Some(part) = parts.next() {
        renamed.push_str(part);
        if let Some(next) = parts.peek() {
            renamed.push_str(if next.starts_with(|c: char| c.is_ascii_digit()) { name } else { text });
        }
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::with_user_target_name;

    #[test]
    fn a_descriptor_is_never_shown_for_the_target() {
        let host_text = "/dev/fd/3@4096+1048576";
        let renamed = |message: &str| with_user_target_name(message, host_text, "/srv");
        assert_eq!(renamed("/dev/fd/3@4096+1048576: too small"), "/srv: too small");
        assert_eq!(renamed("/dev/fd/3: Input/output error"), "/srv: Input/output error");
        assert_eq!(renamed(&format!("fio: /proc/{}/fd/3: gone", std::process::id())), "fio: /srv: gone");
        assert_eq!(renamed("/dev/fd/31 and /dev/fd/3"), "/dev/fd/31 and /srv");
        assert_eq!(
            with_user_target_name("ssd@/dev/fd/3@4096+8 fails", "ssd@/dev/fd/3@4096+8", "model:ssd@/srv"),
            "model:ssd@/srv fails"
        );
        assert_eq!(with_user_target_name("disk.img fails", "disk.img", "disk.img"), "disk.img fails");
    }
}
