//! `hoistway restore`: restores settings that a run left behind because neither it nor its watcher
//! could.

use clap::Args;
use hoistway_experiment::Exit;
use hoistway_linux::own_files;
use hoistway_linux::setting::{self, Stale};

use crate::exit::{Error, Outcome, Reporter, print};

/// `hoistway restore`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway restore --list\n  hoistway restore\n\nSettings that another program has changed since then are left alone. Exit code 6 if a setting could not be restored."
)]
pub struct RestoreArguments {
    /// Only print what would be restored
    #[arg(long)]
    pub list: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &RestoreArguments, reporter: Reporter) -> Outcome {
    setting::forget_earlier_boots();
    // Listing the devices of `device create` removes those whose processes are gone.
    hoistway_rig::list();
    let (stale, exit) = found(reporter);
    if stale.is_empty() {
        print("nothing to restore\n")?;
        return Ok(exit);
    }
    if arguments.list {
        let texts: Vec<String> = stale.iter().map(text).collect();
        print(&texts.concat())?;
        return Ok(exit);
    }
    Ok(exit.worse(put_back(stale, reporter, print)?))
}

/// The journals to restore. What is there and is not obeyed is said, because it may be a journal all the same.
fn found(reporter: Reporter) -> (Vec<Stale>, Exit) {
    let (stale, refused) = setting::stale();
    let exit = if refused.is_empty() { Exit::Done } else { Exit::NotRestored };
    refused.into_iter().for_each(|what| reporter.warn(what, "another user may have written it"));
    (stale, exit)
}

/// `--auto-restore`: restores before anything else is done, with a report on stderr. If it fails,
/// the command ends.
pub fn first(reporter: Reporter) -> Outcome {
    setting::forget_earlier_boots();
    hoistway_rig::list();
    let (stale, exit) = found(reporter);
    let restored = put_back(stale, reporter, |line| {
        reporter.note(line.trim_end());
        Ok(())
    })?;
    Ok(exit.worse(restored))
}

fn put_back(stale: Vec<Stale>, reporter: Reporter, report: impl Fn(&str) -> Result<(), Error>) -> Outcome {
    let mut exit = Exit::Done;
    for Stale { path, content } in stale {
        let restored = setting::restore(&content);
        let pid = content.process.pid;
        restored.foreign.iter().for_each(|what| reporter.warn(what, "it is not restored"));
        restored.failed.iter().for_each(|what| reporter.warn(format!("not restored: {what}"), ""));
        if restored.is_complete() {
            own_files::remove(&path).map_err(|error| Error::file(&path, "remove", &error))?;
            report(&format!("restored {} settings that process {pid} left changed\n", restored.files))?;
        } else {
            exit = Exit::NotRestored;
        }
    }
    Ok(exit)
}

/// The settings that a journal would restore.
fn text(stale: &Stale) -> String {
    let content = &stale.content;
    let mut text = format!("left by process {}: {}\n", content.process.pid, content.cmdline.join(" "));
    for entry in &content.entries {
        let now = entry.new.as_deref().unwrap_or("reset by the kernel");
        text += &format!("  {} was {}, is {now}\n", entry.path.display(), entry.old);
    }
    for cgroup in &content.cgroups {
        text += &format!("  {} to remove\n", cgroup.display());
    }
    text
}

/// Warns that there is something to restore.
pub fn warn(reporter: Reporter) {
    for Stale { content, .. } in setting::stale().0 {
        let what = format!("process {} was killed and left settings of devices changed", content.process.pid);
        reporter.warn(what, "hoistway restore restores them; hoistway restore --list shows them");
    }
}
