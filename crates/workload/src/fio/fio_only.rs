//! Rewrites a job file that only fio can run so that it touches nothing but the target
//! (`--generator fio` for a file that is refused here).

use super::engines;
use super::lex::uncommented;

/// Settings that name files, contain commands, or change more than the target's data: its
/// scheduler, the check that it is not mounted, its deletion. The target replaces the files; the
/// others must have no effect.
const LEFT_OUT: &[&str] = &[
    "filename",
    "directory",
    "filename_format",
    "opendir",
    "exec_prerun",
    "exec_postrun",
    "replay_redirect",
    "ioscheduler",
    "allow_mounted_write",
    "unlink",
    "unlink_each_loop",
];

/// The file with `target` as the only file or device of all its jobs.
///
/// # Errors
/// What fio must not be allowed to do, in one sentence.
pub fn on_target(text: &str, target: &str) -> Result<String, String> {
    // fio separates names by colons.
    let target = target.replace(':', "\\:");
    let own = format!("filename={target}\nreplay_redirect={target}\n");
    let mut made = format!("[global]\nallow_file_create=0\nallow_mounted_write=0\n{own}\n");
    for line in text.lines() {
        let bare = line.trim();
        let (key, value) = setting(bare);
        if key == "include" || bare.starts_with("include ") {
            return Err(format!("'{bare}': put the included lines into the file"));
        }
        if key == "ioengine" && (value == "exec" || value.starts_with("external")) {
            return Err(format!("ioengine={value} runs programs of the file's choice"));
        }
        if !LEFT_OUT.contains(&key) {
            made.push_str(line);
            made.push('\n');
        }
    }
    Ok(made)
}

/// Whether the file cannot change anything: all directions are reads, by known engines.
pub fn only_reads(text: &str) -> bool {
    text.lines().map(|line| setting(line.trim())).all(|(key, value)| match key {
        "rw" | "readwrite" => matches!(value.split(':').next(), Some("read" | "randread")),
        "ioengine" => engines::is_known(value),
        "profile" | "read_iolog" => false,
        _ => true,
    })
}

fn setting(line: &str) -> (&str, &str) {
    if line.starts_with([';', '#', '[']) {
        return ("", "");
    }
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    (uncommented(key).trim(), uncommented(value).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "; c\n[global]\nfilename=/dev/sda ; all of it\nzonemode=zbd\n[a]\nrw=read\nexec_prerun=rm x\n";

    #[test]
    fn nothing_but_the_target_is_named_and_no_command_is_left() {
        let text = on_target(FILE, "/tmp/a:b").unwrap();
        assert!(text.contains("filename=/tmp/a\\:b\n") && text.contains("\nzonemode=zbd\n"), "{text}");
        assert!(!text.contains("/dev/sda") && !text.contains("exec_prerun"), "{text}");
        for refused in ["[a]\nioengine=exec\n", "[a]\nioengine=external:/x.so\n", "[a]\ninclude more.fio\n"] {
            assert!(on_target(refused, "/tmp/x").is_err(), "{refused}");
        }
    }

    #[test]
    fn a_file_counts_as_reading_only_if_every_line_says_so() {
        assert!(only_reads(FILE));
        for writes in ["[a]\nrw=randrw\n", "[a]\nreadwrite = write:8k\n", "[a]\nioengine=e4defrag\n", "[a]\nrw=trim\n"]
        {
            assert!(!only_reads(writes), "{writes}");
        }
    }
}
