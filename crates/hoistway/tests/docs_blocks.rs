//! Runs the shell blocks of the documents that call `hoistway`, so that no page shows a command that fails.
//!
//! The blocks of a page run in order, each in a shell of its own, in one temporary directory with the built binary
//! first on the path. `/run/hoistway`, `/srv` and `/etc/hoistway` are replaced by folders of that directory, and
//! `hoistway serve` stays in the background until the page is done. HTML comments directly before a block change that:
//!
//! - `<!-- run -->`: nothing, the default
//! - `<!-- run after: COMMANDS -->`: commands that make what the block takes for granted; `$REPOSITORY` is the source
//! - `<!-- run with: WORDS OPTIONS -->`: options for the commands that begin with these words, to shorten the block
//! - `<!-- run without sudo: REASON -->`: the lines that begin with `sudo` are left out
//! - `<!-- not run: REASON -->`

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Longest time for one block, many times what the slowest one takes on an idle machine.
const BLOCK_LIMIT: Duration = Duration::from_secs(60);

/// Longest time for all blocks together.
const TOTAL_LIMIT: Duration = Duration::from_secs(120);

/// Gives a command the options of the mark, and runs a server in the background as soon as it listens.
const SHELL: &str = r#"
set -euo pipefail
hoistway() {
    local subcommand=(${OPTIONS%% -*})
    if ((${#subcommand[@]})) && [[ "$* " == "${subcommand[*]} "* ]]; then
        set -- $OPTIONS "${@:${#subcommand[@]} + 1}"
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

#[derive(Default)]
struct Marks {
    after: String,
    with: String,
    without_sudo: Option<String>,
    not_run: Option<String>,
}

struct Block {
    line: usize,
    code: String,
    marks: Marks,
}

impl Block {
    /// The commands with their continued lines.
    fn commands(&self) -> Vec<String> {
        let joined = self.code.replace("\\\n", "\\\r");
        joined.lines().map(|line| line.replace("\\\r", "\\\n")).collect()
    }

    fn calls_hoistway(&self) -> bool {
        self.commands().iter().any(|command| command.trim_start_matches("sudo ").starts_with("hoistway"))
    }

    fn calls_sudo(&self) -> bool {
        self.commands().iter().any(|command| command.starts_with("sudo "))
    }

    /// What the shell gets: the commands of the mark, and those of the block that need no other user.
    fn script(&self, directory: &Path) -> String {
        let own: Vec<String> = self.commands().into_iter().filter(|command| !command.starts_with("sudo ")).collect();
        let mut commands = format!("{}\n{}\n", self.marks.after, own.join("\n"));
        for folder in ["/run/hoistway", "/srv/", "/etc/hoistway/"] {
            commands = commands.replace(folder, &format!("{}{folder}", directory.display()));
        }
        format!("{SHELL}mkdir -p run/hoistway srv etc/hoistway\n{commands}")
    }
}

/// The content of an HTML comment.
fn comments(html: &str) -> impl Iterator<Item = &str> {
    html.split("<!--").skip(1).filter_map(|rest| Some(rest.split_once("-->")?.0.trim()))
}

/// Reads the marks before a block; what looks like a mark and is none is an error.
fn marks(html: &str) -> Result<Marks, String> {
    let mut marks = Marks::default();
    for comment in comments(html) {
        let (name, value) = comment.split_once(':').map_or((comment, ""), |(name, value)| (name, value.trim()));
        match (name, value.is_empty()) {
            ("run", true) => {}
            ("run after", false) => marks.after = value.into(),
            ("run with", false) => marks.with = value.into(),
            ("run without sudo", false) => marks.without_sudo = Some(value.into()),
            ("not run", false) => marks.not_run = Some(value.into()),
            _ if name.starts_with("run") || name.starts_with("not run") => {
                return Err(format!("no such mark, or one without a reason: {comment:?}"));
            }
            _ => {}
        }
    }
    Ok(marks)
}

/// The shell blocks of a page that call `hoistway`, and what is wrong with their marks.
fn blocks(text: &str) -> (Vec<Block>, Vec<(usize, String)>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    let mut html = String::new();
    let mut block: Option<Block> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Html(part) => html.push_str(&part),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                let line = 1 + text[..range.start].matches('\n').count();
                let marks = marks(&std::mem::take(&mut html)).unwrap_or_else(|error| {
                    wrong.push((line, error));
                    Marks::default()
                });
                let is_shell = matches!(&*language, "sh" | "bash" | "shell" | "console");
                block = is_shell.then_some(Block { line, code: String::new(), marks });
            }
            Event::Text(part) if block.is_some() => {
                if let Some(block) = &mut block {
                    block.code.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some(block) = block.take().filter(Block::calls_hoistway) else { continue };
                let is_left_out = block.marks.not_run.is_some();
                if block.calls_sudo() != block.marks.without_sudo.is_some() && !is_left_out {
                    wrong.push((block.line, "`sudo` and the mark `run without sudo: REASON` go together".into()));
                } else if !is_left_out {
                    found.push(block);
                }
            }
            _ => html.clear(),
        }
    }
    (found, wrong)
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

/// Runs the blocks of a page until one fails; returns what is wrong.
fn run_page(page: &str, text: &str, limit: Duration) -> Vec<String> {
    let (blocks, wrong) = blocks(text);
    let mut failures: Vec<String> = wrong.iter().map(|(line, what)| format!("{page}:{line}: {what}")).collect();
    let directory = tempfile::tempdir().expect("a directory");
    let binary = Path::new(env!("CARGO_BIN_EXE_hoistway")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut children: Vec<Child> = Vec::new();
    for block in &blocks {
        let log = directory.path().join(format!(".output-{}", block.line));
        let output = File::create(&log).expect("a file");
        let mut command = Command::new("bash");
        command.args(["-c", &block.script(directory.path())]).current_dir(directory.path()).process_group(0);
        command.env("PATH", &path).env("HOME", directory.path()).env("REPOSITORY", root());
        command.env("OPTIONS", &block.marks.with);
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("the file")).stderr(output);
        let begin = Instant::now();
        let child = command.spawn().expect("bash");
        let failure = failure(&child, limit);
        println!("{page}:{}: {:.1} s", block.line, begin.elapsed().as_secs_f64());
        children.push(child);
        if let Some(failure) = failure {
            failures.push(failed(page, block, &failure, &log));
            break;
        }
    }
    // Killing the process group of a block ends its servers as well.
    for mut child in children {
        kill_process_group(Pid::from_child(&child), Signal::KILL).expect("a group of ours");
        child.wait().expect("a child of ours");
    }
    failures
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

#[test]
fn the_blocks_of_the_documents_run() {
    let begin = Instant::now();
    let pages = Mutex::new(pages());
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = pages.lock().expect("no panic").pop();
                    let Some((page, text)) = next else { break };
                    let found = run_page(&page, &text, BLOCK_LIMIT);
                    failures.lock().expect("no panic").extend(found);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{} blocks\n{}", failures.len(), failures.join("\n\n"));
    assert!(begin.elapsed() < TOTAL_LIMIT, "{} s for all blocks", begin.elapsed().as_secs());
}

/// The first lines of what failed on a planted page.
fn planted(text: &str) -> Vec<String> {
    planted_within(text, BLOCK_LIMIT)
}

fn planted_within(text: &str, limit: Duration) -> Vec<String> {
    let failures = run_page("a.md", text, limit);
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
    assert_eq!(planted("text\n\n```\nhoistway: a message\n```\n"), none, "an output");

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
    assert_eq!(planted(&marked("run with: list --json", "hoistway list limiters | grep -q '{'")), none);
    let server = "hoistway serve --nbd unix:/run/hoistway.sock --control /run/hoistway.ctl --export a=/srv/a.img";
    let page = format!("{}\n{}", call(server), call("hoistway ctl --control /run/hoistway.ctl status"));
    assert_eq!(planted(&page), ["a.md:1: exit status: 1"], "there is no image");
    let prepared = "<!-- run after: truncate -s 1M /srv/a.img -->\n<!-- run with: serve --rotational no -->\n";
    assert_eq!(planted(&format!("{prepared}{page}")), none);
}
