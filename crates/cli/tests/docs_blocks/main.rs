//! Runs the shell blocks of the documents that call `hoistway`, so that no page shows a command that fails, and compares
//! the printed outputs on the pages with what the commands print, so that no page shows figures of the past.
//!
//! The blocks of a page run in order, each in a shell of its own, in one temporary directory with the built binary
//! first on the path. `/run/hoistway`, `/srv` and `/etc/hoistway` are replaced by folders of that directory, and
//! `hoistway serve` stays in the background until the page is done. A block without a language, or `text`, is the output
//! of the block before it; `HOISTWAY_BLESS=1` rewrites those that differ. HTML comments directly before a block change
//! that:
//!
//! - `<!-- run -->`: nothing, the default
//! - `<!-- run after: COMMANDS -->`: commands that make what the block takes for granted; `$REPOSITORY` is the source
//! - `<!-- run with: WORDS OPTIONS -->`: options for the commands that begin with these words, to shorten the block; they take
//!   the place of the same options in it
//! - `<!-- run without sudo: REASON -->`: the lines that begin with `sudo` are left out
//! - `<!-- not run: REASON -->`
//! - `<!-- output of: COMMAND -->`: the output is that of this command
//! - `<!-- shape only: REASON -->`: numbers in the output depend on the machine or the moment, and are not compared
//! - `<!-- not compared: REASON -->`: a formula, a drawing, or the output of what cannot be run here

mod output;
mod page;

use output::{Comparison, difference, rewritten};
use page::{Block, Kind, blocks};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// After this time a block counts as hung. The slowest one takes 5 s of an idle processor; a busy machine is many times
/// slower.
const BLOCK_LIMIT: Duration = Duration::from_secs(300);

/// Most processor time for all blocks together, so that the documents stay quick to test. It does not grow with what else
/// the machine does, as the time on the clock would.
const PROCESSOR_LIMIT: Duration = Duration::from_secs(200);

/// The folders of the pages for which the temporary directory has its own.
const FOLDERS: [&str; 3] = ["/run/hoistway", "/srv/", "/etc/hoistway/"];

/// Gives a command the options of the mark, and runs a server in the background as soon as it listens.
const SHELL: &str = r#"
set -euo pipefail
hoistway() {
    local subcommand=(${OPTIONS%% -*})
    if ((${#subcommand[@]})) && [[ "$* " == "${subcommand[*]} "* ]]; then
        # An option of the mark takes the place of the same one in the block.
        local given=("${@:${#subcommand[@]} + 1}") kept=() at
        for ((at = 0; at < ${#given[@]}; at++)); do
            if [[ ${given[at]} == --* && " $OPTIONS " == *" ${given[at]} "* ]]; then ((++at)); else kept+=("${given[at]}"); fi
        done
        set -- $OPTIONS "${kept[@]}"
    fi
    if [[ $1 != serve || " $* " == *" --check "* ]]; then
        command hoistway "$@"
        return
    fi
    command hoistway "$@" >server.log 2>&1 &
    while kill -0 $! 2>/dev/null; do
        ! grep -q '^listening' server.log || return 0
        sleep 0.05
    done
    return 1
}
"#;

/// What the shell gets: the commands of the mark, and those of the block that need no other user.
fn script(block: &Block, directory: &Path) -> String {
    let own: Vec<String> = match block.kind {
        Kind::Commands => block.commands().into_iter().filter(|command| !command.starts_with("sudo ")).collect(),
        Kind::Output => block.marks.output_of.clone().into_iter().collect(),
    };
    let mut commands = format!("{}\n{}\n", block.marks.after, own.join("\n"));
    for folder in FOLDERS {
        commands = commands.replace(folder, &format!("{}{folder}", directory.display()));
    }
    format!("{SHELL}mkdir -p run/hoistway srv etc/hoistway\n{commands}")
}

/// A path in what prepares a block that is not one of the temporary directory's: what is left there fails the next run.
fn outside(block: &Block) -> Option<&str> {
    let mut paths = block.marks.after.split([' ', '>', '=', ';']).filter(|word| word.starts_with('/'));
    let is_inside =
        |path: &&str| FOLDERS.iter().any(|folder| format!("{path}/").starts_with(folder.trim_end_matches('/')));
    paths.find(|path| !path.starts_with("/dev/") && !is_inside(path))
}

/// Waits for a child at most this long, and leaves it a zombie: its process group keeps its number until it is killed.
/// Returns what is wrong with its end.
fn failure(child: &Child, limit: Duration) -> Option<String> {
    let begin = Instant::now();
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    loop {
        if let Some(status) = waitid(WaitId::Pid(Pid::from_child(child)), options).expect("a child of ours") {
            let code = status.exit_status();
            return (code != Some(0)).then(|| code.map_or("killed".into(), |code| format!("exit status: {code}")));
        }
        if begin.elapsed() > limit {
            return Some(format!("not done after {} s", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// What is wrong with a block: its code, and the last lines of its output and of the server's.
fn failed(page: &str, block: &Block, failure: &str, log: &Path) -> String {
    let last_lines = |path: &Path| {
        let said = std::fs::read(path).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    };
    let (said, served) = (last_lines(log), last_lines(&log.with_file_name("server.log")));
    format!("{page}:{}: {failure}\n{}\n{said}\n{served}", block.line, block.code)
}

/// An output of a page as the command prints it now.
struct Blessed {
    line: usize,
    shown: String,
    printed: String,
}

/// What running a page showed.
#[derive(Default)]
struct Outcome {
    failures: Vec<String>,
    blessed: Vec<Blessed>,
}

impl Outcome {
    /// Compares an output of the page with what was printed.
    fn compare(&mut self, page: &str, block: &Block, printed: &str) {
        let comparison = if block.marks.shape_only.is_some() { Comparison::Shape } else { Comparison::Exact };
        let Some(line) = difference(&block.code, printed, comparison) else { return };
        // Without the lines of progress.
        let table: String =
            printed.lines().filter(|line| !line.starts_with('[')).map(|line| format!("{line}\n")).collect();
        self.failures.push(format!(
            "{page}:{}: not what the command prints: {line}\nit prints:\n{table}HOISTWAY_BLESS=1 rewrites the page",
            block.line
        ));
        let rewritten = rewritten(&block.code, printed);
        self.blessed.extend(rewritten.map(|printed| Blessed { line: block.line, shown: block.code.clone(), printed }));
    }
}

/// The text of a page with the outputs that commands print now.
fn blessed(text: &str, outputs: &[Blessed]) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for Blessed { line, shown, printed } in outputs.iter().rev() {
        lines.splice(*line..line + shown.lines().count(), printed.lines());
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Runs the blocks of a page until one fails, and compares its outputs; returns what is wrong.
fn run_page(page: &str, text: &str, limit: Duration) -> Outcome {
    let (blocks, wrong) = blocks(text);
    let failures = wrong.iter().map(|(line, what)| format!("{page}:{line}: {what}")).collect();
    let mut outcome = Outcome { failures, ..Outcome::default() };
    let directory = tempfile::tempdir().expect("a directory");
    let binary = Path::new(env!("CARGO_BIN_EXE_hoistway")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut children: Vec<Child> = Vec::new();
    let mut printed = String::new();
    for block in &blocks {
        let is_run = matches!(block.kind, Kind::Commands) || block.marks.output_of.is_some();
        if let Some(path) = outside(block) {
            let folders = FOLDERS.join(" ");
            outcome.failures.push(format!("{page}:{}: {path} is this machine's; use one of {folders}", block.line));
            break;
        }
        if is_run {
            let log = directory.path().join(format!(".output-{}", block.line));
            let output = File::create(&log).expect("a file");
            let mut command = Command::new("bash");
            command.args(["-c", &script(block, directory.path())]).current_dir(directory.path()).process_group(0);
            command.env("PATH", &path).env("HOME", directory.path()).env("REPOSITORY", root());
            command.env("OPTIONS", &block.marks.with).env_remove("COLUMNS");
            command.stdin(Stdio::null()).stdout(output.try_clone().expect("the file")).stderr(output);
            let begin = Instant::now();
            let child = command.spawn().expect("bash");
            let failure = failure(&child, limit);
            println!("{page}:{}: {:.1} s", block.line, begin.elapsed().as_secs_f64());
            children.push(child);
            if let Some(failure) = failure {
                outcome.failures.push(failed(page, block, &failure, &log));
                break;
            }
            printed = String::from_utf8_lossy(&std::fs::read(&log).expect("a file")).into_owned();
            for folder in FOLDERS {
                printed = printed.replace(&format!("{}{folder}", directory.path().display()), folder);
            }
        }
        if matches!(block.kind, Kind::Output) {
            outcome.compare(page, block, &printed);
        }
    }
    // Killing the process group of a block ends its servers as well.
    for mut child in children {
        kill_process_group(Pid::from_child(&child), Signal::KILL).expect("a group of ours");
        child.wait().expect("a child of ours");
    }
    outcome
}

/// The pages whose blocks are instructions for a reader, with their texts.
fn pages() -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)).into();
    for folder in ["start", "howto", "reference", "concepts"] {
        let entries = std::fs::read_dir(root().join("docs").join(folder)).expect("the folder").flatten();
        paths.extend(entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    paths.sort();
    let page = |path: &PathBuf| {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        (name, std::fs::read_to_string(path).expect("a page"))
    };
    paths.iter().map(page).collect()
}

/// The processor time of the children that have ended.
fn processor_time() -> Duration {
    let ticks: u64 =
        std::fs::read_to_string("/proc/self/stat").expect("Linux").rsplit(')').next().map_or(0, |fields| {
            let children = fields.split_whitespace().skip(13).take(2);
            children.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
        });
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[test]
fn the_blocks_of_the_documents_run() {
    let is_blessing = std::env::var_os("HOISTWAY_BLESS").is_some_and(|value| value == "1");
    let pages = Mutex::new(pages());
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = pages.lock().expect("no panic").pop();
                    let Some((page, text)) = next else { break };
                    let outcome = run_page(&page, &text, BLOCK_LIMIT);
                    if is_blessing && !outcome.blessed.is_empty() {
                        std::fs::write(root().join(&page), blessed(&text, &outcome.blessed)).expect("a page");
                    }
                    failures.lock().expect("no panic").extend(outcome.failures);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{} blocks\n{}", failures.len(), failures.join("\n\n"));
    assert!(processor_time() < PROCESSOR_LIMIT, "{:?} of processor time for all blocks", processor_time());
}

/// The first lines of what failed on a planted page.
fn planted(text: &str) -> Vec<String> {
    planted_within(text, BLOCK_LIMIT)
}

fn planted_within(text: &str, limit: Duration) -> Vec<String> {
    let failures = run_page("a.md", text, limit).failures;
    failures.iter().filter_map(|failure| failure.lines().next().map(str::to_owned)).collect()
}

#[test]
fn blocks_that_fail_are_found() {
    let none: [&str; 0] = [];
    let call = |code: &str| format!("```sh\n{code}\n```\n");
    assert_eq!(planted(&call("hoistway --version")), none);
    assert_eq!(planted(&call("hoistway no-such-command")), ["a.md:1: exit status: 2"]);
    assert_eq!(planted(&call("hoistway list no-such-scheduler\ntrue")).len(), 1, "an error in the middle");
    assert_eq!(planted(&call("hoistway no-such-command | cat")).len(), 1, "an error in a pipe");
    let endless = planted_within(&call("hoistway --version\nsleep 60"), Duration::from_secs(1));
    assert_eq!(endless, ["a.md:1: not done after 1 s"]);
    assert_eq!(planted(&call("cargo run -- no-such-command")), none, "another program");

    let marked = |mark: &str, code: &str| format!("<!-- {mark} -->\n{}", call(code));
    let sudo = ["a.md:2: `sudo` and the mark `run without sudo: REASON` go together"];
    assert_eq!(planted(&marked("run", "sudo hoistway tune /dev/sdb")), sudo);
    assert_eq!(planted(&marked("run without sudo: it needs a disk", "hoistway --version")), sudo);
    assert_eq!(
        planted(&marked("run without sudo: it needs a disk", "sudo hoistway \\\n  x\nhoistway --version")),
        none
    );
    assert_eq!(planted(&marked("not run: it needs a disk", "sudo hoistway tune /dev/sdb")), none);
    for wrong in ["not run", "not run:", "not run because of x", "run without sudo:", "runs", "run afterwards: x"] {
        let failures = planted(&marked(wrong, "hoistway --version"));
        assert!(failures.len() == 1 && failures[0].contains("no such mark"), "{wrong}: {failures:?}");
    }
    assert_eq!(planted(&marked("run after: touch /srv/x", "hoistway --version\ntest -e srv/x")), none);
    let shorter = "hoistway test model:null --runtime 1h -s none --no-store | grep -q 10ms";
    assert_eq!(planted(&marked("run with: test --runtime 10ms", shorter)), none);
    assert_eq!(planted(&marked("run with: list --json", "hoistway list limiters | grep -q '{'")), none);
    assert!(planted(&marked("run after: touch /images/x", "hoistway --version"))[0].contains("/images/x is this"));
    let server = "hoistway serve --nbd unix:/run/hoistway.sock --control /run/hoistway.ctl --export a=/srv/a.img";
    let page = format!("{}\n{}", call(server), call("hoistway ctl --control /run/hoistway.ctl status"));
    assert_eq!(planted(&page), ["a.md:1: exit status: 1"], "there is no image");
    let prepared = "<!-- run after: truncate -s 1M /srv/a.img -->\n<!-- run with: serve --rotational no -->\n";
    assert_eq!(planted(&format!("{prepared}{page}")), none);
}

#[test]
fn outputs_that_differ_are_found() {
    let none: [&str; 0] = [];
    let call = "```sh\nhoistway test model:ssd -w drr --runtime 50ms --no-store -s noop\n```\n";
    let page = |mark: &str, output: &str| format!("{call}\n{mark}\n```\n{output}\n```\n");
    let wrong = ["a.md:6: not what the command prints: noop  1 2 3"];
    assert_eq!(planted(&page("", "...\ncgrp1  100  ...")), ["a.md:6: not what the command prints: cgrp1  100  ..."]);
    assert_eq!(planted(&page("", "target: model:ssd on the simulator   access: simulated")), none);
    assert_eq!(planted(&page("", "noop  1 2 3")), wrong);
    assert_eq!(planted(&page("<!-- output of: echo noop  1 2 3 -->", "noop 1 2 3")), none);
    assert_eq!(planted(&page("<!-- output of: echo noop  1 2 4 -->", "noop  1 2 3")), wrong);
    assert_eq!(
        planted(&page("<!-- shape only: a clock -->\n<!-- output of: echo noop 4 5 6 -->", "noop  1 2 3")),
        none
    );
    assert_eq!(planted(&page("<!-- not compared: a formula -->", "noop  1 2 3")), none);
    assert_eq!(
        planted(&page("<!-- output of: hoistway --version; cat /srv/no -->", "hoistway ..."))[0],
        "a.md:6: exit status: 1"
    );
    let prepared = |mark: &str| format!("<!-- run with: test --sets 1 -->\n{}", page(mark, "noop  1 2 3"));
    assert!(planted(&prepared(""))[0].contains("a reader gets other figures"), "shortened");
    assert_eq!(planted("text\n\n```\na message\n```\n").len(), 1, "of nothing");
    assert_eq!(planted("```python\nprint(1)\n```\n\n```\n2\n```\n"), none, "compared with Python");
    for wrong in ["not compared", "not compared because of x", "output: x", "output", "shape:", "shape only"] {
        let failures = planted(&page(&format!("<!-- {wrong} -->"), "noop  1 2 3"));
        assert!(failures[0].contains("no such mark"), "{wrong}: {failures:?}");
    }

    // Blessed, a page is as the test wants it, and nothing else of it has changed.
    let text = page("<!-- output of: printf 'a 1\\nb 2\\n' -->", "a 2\nb 3") + "\nThe end.\n";
    let outcome = run_page("a.md", &text, BLOCK_LIMIT);
    let text = blessed(&text, &outcome.blessed);
    assert_eq!(text.split_once("-->").map(|(_, rest)| rest), Some("\n```\na 1\nb 2\n```\n\nThe end.\n"));
    assert_eq!(planted(&text), none);
}
