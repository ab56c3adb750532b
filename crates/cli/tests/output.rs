//! No way of printing ends in a panic: every subcommand with a full disk and with a closed pipe as its output.

mod program;
mod served;

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use program::{Said, command, hoistway};
use served::Served;

/// The subcommands with arguments that make each of them print something; `@` is the test's directory.
const COMMANDS: [&str; 23] = [
    "--help",
    "test model:null -s noop --runtime 50ms --ramp 0 --no-store",
    "test model:null --dry-run",
    "tune",
    "trace info @/trace.txt",
    "trace cat @/trace.txt",
    "trace convert @/trace.txt --to csv --out -",
    "replay @/trace.txt model:null -s noop --no-store",
    "compare @/result @/result",
    "serve --check @/serve.toml",
    "ctl status --interval 10ms --control @/control.sock",
    "ctl status --all --control @/control.sock",
    "ctl --json status --control @/control.sock",
    "top --batch --iterations 2 --interval 50ms --control @/control.sock",
    "stat --control @/control.sock",
    "image info @/a.ov",
    "list schedulers",
    "device show sata",
    "demo --no-file --output @/demo.html",
    "restore",
    "completions bash",
    "man",
    "schema test",
];

/// It runs until it is interrupted, so it is tried only with an output that ends it.
const UNTIL_INTERRUPTED: &str = "lab --no-browser --port 0";

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("/dev/full").into()
}

/// A pipe whose reader is gone.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    OwnedFd::from(writer).into()
}

fn run(directory: &Path, line: &str, out: Stdio, err: Stdio) -> Said {
    let line = line.replace('@', &directory.display().to_string());
    let arguments: Vec<&str> = line.split(' ').collect();
    let child = command(directory, &arguments).stdout(out).stderr(err).spawn().expect("the program starts");
    child.wait_with_output().expect("an output").into()
}

#[test]
fn no_output_path_panics() {
    let text = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
                [[listen]]\nunix = \"@/nbd.sock\"\n[control]\nunix = \"@/control.sock\"\n\
                [[group]]\npath = \"unused\"\nweight = 5\n";
    let served = Served::configured(served::directory(), text);
    let directory = served.directory.path();
    fs::write(directory.join("trace.txt"), "8,0 0 1 0.000000000 1 Q R 0 + 8 [a]\n8,0 0 2 0.1 1 C R 0 + 8 [0]\n")
        .unwrap();
    fs::write(directory.join("base.img"), [7; 100_000]).unwrap();
    assert_eq!(hoistway(directory, &["image", "create", "--base", "base.img", "a.ov"]).code, 0);
    let stored = ["test", "model:null", "-s", "noop", "--runtime", "50ms", "--ramp", "0", "--quiet"];
    let stored = hoistway(directory, &stored);
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    let state = directory.join("state/hoistway");
    let stored = program::entries(&state).into_iter().find(|name| name.starts_with("hoistway-test-")).unwrap();
    fs::rename(state.join(stored), directory.join("result")).unwrap();
    for line in COMMANDS {
        let usual = run(directory, line, Stdio::piped(), Stdio::piped());
        assert!(usual.code == 0 && !usual.stdout.is_empty(), "{line}: {} {}", usual.code, usual.stderr);
        let on_full = run(directory, line, full(), Stdio::piped());
        assert_eq!(on_full.code, 1, "{line}: {}", on_full.stderr);
        assert!(on_full.stderr.contains("cannot write"), "{line}: {}", on_full.stderr);
        assert!(on_full.stderr.contains("No space left on device"), "{line}: {}", on_full.stderr);
        let on_closed = run(directory, line, closed(), Stdio::piped());
        assert_eq!(on_closed.code, 0, "{line}: {}", on_closed.stderr);
        for messages in [full(), closed()] {
            let said = run(directory, line, Stdio::piped(), messages);
            assert_eq!((said.code, said.stdout.is_empty()), (0, false), "{line} without a readable stderr");
        }
        assert_eq!(run(directory, line, full(), full()).code, 1, "{line}");
        assert_eq!(run(directory, line, closed(), closed()).code, 0, "{line}");
    }
    let on_full = run(directory, UNTIL_INTERRUPTED, full(), Stdio::piped());
    assert_eq!((on_full.code, on_full.stderr.contains("cannot write")), (1, true), "{}", on_full.stderr);
}

#[test]
fn errors_without_a_reader_keep_their_exit_code() {
    let directory = served::directory();
    fs::write(directory.path().join("serve.toml"), "nonsense = 1\n").unwrap();
    for line in ["serve --check @/serve.toml", "ctl status --control @/none.sock", "list nonsense", "test model:no"] {
        let usual = run(directory.path(), line, Stdio::piped(), Stdio::piped());
        assert!([1, 2].contains(&usual.code) && usual.stderr.contains("hoistway: error: "), "{line}: {}", usual.stderr);
        for messages in [full(), closed()] {
            assert_eq!(run(directory.path(), line, full(), messages).code, usual.code, "{line}");
        }
    }
}

#[test]
fn every_subcommand_is_tried() {
    let directory = served::directory();
    let help = hoistway(directory.path(), &["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 10, "{help}");
    for name in names {
        assert!(
            COMMANDS.iter().chain([&UNTIL_INTERRUPTED]).any(|line| line.split(' ').next() == Some(name)),
            "{name} is not tried"
        );
    }
}

/// A server whose messages no process reads serves on.
#[test]
fn a_server_without_a_readable_output_serves_on() {
    for (index, (out, err)) in [(full(), full()), (closed(), closed())].into_iter().enumerate() {
        let directory = served::directory();
        let place = directory.path().display();
        let text = format!(
            "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
             [[listen]]\nunix = \"{place}/nbd.sock\"\n[control]\nunix = \"{place}/control.sock\"\n\
             [[group]]\npath = \"unused\"\n"
        );
        let path = directory.path().join("serve.toml");
        fs::write(&path, &text).unwrap();
        let mut child = command(directory.path(), &["serve", "serve.toml"]).stdout(out).stderr(err).spawn().unwrap();
        let control = directory.path().join("control.sock").display().to_string();
        let status = || hoistway(directory.path(), &["ctl", "--control", &control, "status"]).code;
        served::await_that("the server answers", || status() == 0);
        // A refused reload is reported on stderr, which must not end the server.
        fs::write(&path, "nonsense = 1\n").unwrap();
        let pid = child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        assert_eq!(hoistway(directory.path(), &["ctl", "--control", &control, "reload"]).code, 2, "{index}");
        assert_eq!(status(), 0, "{index}");
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(served::wait_for_exit(&mut child).code(), Some(0), "{index}");
    }
}
