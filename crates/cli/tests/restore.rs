//! `hoistway restore` obeys no journal that another user may have written, and no other file of another user.
//!
//! Each case is a process of its own in a mount namespace with an empty `/run` and `/tmp`.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "the program runs in a namespace here")]
mod program;

use std::process::{Command, Stdio};

use program::Said;

/// Users that exist nowhere: the one who runs the command, and the one who lays out the trap.
const CALLER: &str = "47110";
const OTHER: &str = "47111";

/// What the trap's journal does if it is obeyed: it writes to the caller's file, and to a setting.
const JOURNAL: &str = r#"{"version":1,"pid":1,"start_time_ticks":1,"cmdline":["\u001b[31mevil"],
"entries":[{"path":"/tmp/victim","old":"evil","new":null}],"cgroups":[],"subtree_controls":[]}"#;

/// Runs `prepare` as root, where `$BOOT` is this boot and `$JOURNAL` the text above, and then `restore` as `user`.
fn restore(test: &str, user: &str, prepare: &str) -> Option<Said> {
    let script = format!(
        "set -e; cp \"$PROGRAM\" \"$OWN\"; mount -t tmpfs -o mode=755 none /run
        mount -t tmpfs -o mode=1777 none /tmp; echo kept >/tmp/victim; chown {CALLER} /tmp/victim
        mkdir -p /run/user/{CALLER}; cd /; BOOT=$(cat /proc/sys/kernel/random/boot_id)
        trap_in() {{ mkdir -p \"$1/$BOOT\"; printf %s \"$JOURNAL\" >\"$1/$BOOT/1.json\"; }}
        {prepare}
        setpriv --reuid {user} --regid {user} --clear-groups \"$OWN\" restore || echo \"code $?\"
        echo \"victim: $(cat /tmp/victim)\""
    );
    // Other users cannot reach the directory of the build on every machine, nor what lies in the /tmp that is covered.
    let own = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(own.path(), permissions).expect("its mode");
    let run = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]).args(arguments);
        command.env("PROGRAM", env!("CARGO_BIN_EXE_hoistway")).env("OWN", own.path().join("hoistway"));
        command.env("JOURNAL", JOURNAL).env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null()).output()
    };
    let possible = "setpriv --reuid 47110 --clear-groups true && mount -t tmpfs none /run";
    if !run(&[possible]).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {test}: it needs root, unshare and setpriv");
        return None;
    }
    let said: Said = run(&[&script]).expect("sh").into();
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    Some(said)
}

#[test]
fn a_journal_in_the_directory_of_another_user_is_not_obeyed() {
    for prepare in [
        // The service's directory, in which its user may write; and with a journal of root in it.
        format!("trap_in /run/hoistway; chown -R {OTHER} /run/hoistway"),
        format!("trap_in /run/hoistway; chown {OTHER} /run/hoistway"),
        // A session directory that was passed on, or that anybody may write to.
        format!(
            "trap_in /run/user/{OTHER}/hoistway; chown -R {OTHER} /run/user/{OTHER}; export XDG_RUNTIME_DIR=/run/user/{OTHER}"
        ),
        format!(
            "trap_in /run/x/hoistway; chmod -R a+rwX /run/x; chown -R {CALLER} /run/x; export XDG_RUNTIME_DIR=/run/x"
        ),
        format!(
            "cd /run; trap_in trap/hoistway; chown -R {CALLER} trap; chmod -R go-rwx trap; export XDG_RUNTIME_DIR=trap"
        ),
    ] {
        let Some(said) = restore("a_journal_in_the_directory_of_another_user", CALLER, &prepare) else { return };
        assert_eq!(said.stdout, "nothing to restore\nvictim: kept\n", "{prepare}: {}", said.stderr);
        assert_eq!(said.stderr, "", "{prepare}");
    }
}

#[test]
fn what_lies_where_the_own_journals_would_be_is_named_and_not_obeyed() {
    let session = format!("/run/user/{CALLER}");
    let own = format!("chown -R {CALLER} {session}; chmod -R go-rwx {session}");
    for (prepare, reason) in [
        // The user who makes the directory in /tmp first has it.
        (format!("trap_in /tmp/hoistway-{CALLER}; chown -R {OTHER} /tmp/hoistway-{CALLER}"), "belongs to user 47111"),
        (format!("trap_in /run/x; chown -R {CALLER} /run/x; ln -s /run/x /tmp/hoistway-{CALLER}"), "not a directory"),
        (format!("trap_in {session}/hoistway; {own}; chmod 777 {session}/hoistway/$BOOT"), "mode 0777"),
        (
            format!(
                "trap_in {session}/hoistway; {own}; chown {OTHER} {session}/hoistway/$BOOT/1.json; chmod 644 {session}/hoistway/$BOOT/1.json; chmod 644 {session}/hoistway/$BOOT/1.json"
            ),
            "belongs to user",
        ),
        (format!("trap_in {session}/hoistway; {own}; chmod 0666 {session}/hoistway/$BOOT/1.json"), "mode 0666"),
        (format!("trap_in {session}/hoistway; {own}; ln {session}/hoistway/$BOOT/1.json /run/twin"), "2 names"),
        (
            format!("trap_in {session}/hoistway; {own}; cd {session}/hoistway/$BOOT; mv 1.json a; ln -s a 1.json"),
            "a symbolic link",
        ),
        (
            format!("mkdir -p {session}/hoistway/$BOOT; mkfifo {session}/hoistway/$BOOT/1.json; {own}"),
            "not a regular file",
        ),
    ] {
        let Some(said) = restore("what_lies_where_the_own_journals_would_be", CALLER, &prepare) else { return };
        assert_eq!(said.stdout, "nothing to restore\ncode 6\nvictim: kept\n", "{prepare}: {}", said.stderr);
        assert!(said.stderr.contains(reason) && said.stderr.contains("is not obeyed"), "{prepare}: {}", said.stderr);
    }
}

#[test]
fn root_obeys_its_own_journals_for_settings_of_the_kernel_only() {
    let test = "root_obeys_its_own_journals";
    let Some(said) = restore(test, "0", "trap_in /run/hoistway-root") else { return };
    assert_eq!(said.stdout, "code 6\nvictim: kept\n");
    assert!(said.stderr.contains("/tmp/victim: it is no setting of the kernel"), "{}", said.stderr);
    for prepare in ["trap_in /run/hoistway; chown -R 47111 /run/hoistway", "trap_in /tmp/hoistway-0"] {
        let said = restore(test, "0", prepare).expect("possible");
        assert_eq!(said.stdout, "nothing to restore\nvictim: kept\n");
    }
    let said = restore(test, "0", "trap_in /run/hoistway-root; chown 47111 /run/hoistway-root").expect("possible");
    assert_eq!(said.stdout, "nothing to restore\ncode 6\nvictim: kept\n");
    assert!(said.stderr.contains("belongs to user 47111"), "{}", said.stderr);
}
