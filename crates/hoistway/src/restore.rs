//! `hoistway restore`: restores settings that a run left behind because neither it nor its watcher
//! could.

use std::fs;

use experiment::Exit;
use linux::setting::{self, Stale};

use crate::arguments::RestoreArguments;
use crate::exit::{Error, Outcome, Voice, print};

/// Runs the subcommand.
pub fn run(arguments: &RestoreArguments, voice: Voice) -> Outcome {
    setting::forget_earlier_boots();
    // Devices of `device create` whose processes are gone.
    rig::list();
    let stale = setting::stale();
    if stale.is_empty() {
        print("nothing to restore\n")?;
        return Ok(Exit::Done);
    }
    if arguments.list {
        let texts: Vec<String> = stale.iter().map(text).collect();
        print(&texts.concat())?;
        return Ok(Exit::Done);
    }
    put_back(stale, voice, print)
}

/// `--auto-restore`: restores before anything else is done, with a report on stderr. If it fails,
/// the command ends.
pub fn first(voice: Voice) -> Outcome {
    setting::forget_earlier_boots();
    rig::list();
    put_back(setting::stale(), voice, |line| {
        voice.note(line.trim_end());
        Ok(())
    })
}

fn put_back(stale: Vec<Stale>, voice: Voice, say: impl Fn(&str) -> Result<(), Error>) -> Outcome {
    let mut exit = Exit::Done;
    for Stale { path, content } in stale {
        let restored = setting::restore(&content);
        let pid = content.process.pid;
        restored.foreign.iter().for_each(|what| voice.warn(what, "it is left alone"));
        restored.failed.iter().for_each(|what| voice.warn(format!("not restored: {what}"), ""));
        if restored.is_complete() {
            fs::remove_file(&path).map_err(|error| Error::file(&path, "remove", &error))?;
            // The file that was being written when the process was killed; mostly there is none.
            let _ = fs::remove_file(path.with_extension("new"));
            say(&format!("restored what process {pid} had left: {} settings\n", restored.files))?;
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
pub fn warn(voice: Voice) {
    for Stale { content, .. } in setting::stale() {
        let what = format!("process {} was killed and has left settings of devices changed", content.process.pid);
        voice.warn(what, "hoistway restore puts them back; hoistway restore --list shows them");
    }
}
