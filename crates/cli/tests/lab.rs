//! `hoistway lab`: the server's answers, and its page in headless Chromium.
//!
//! Screenshots stay in `CARGO_TARGET_TMPDIR` (target/tmp/lab-*.png). Without Chromium the tests of the
//! page are skipped with a message.

#[path = "lab/devtools.rs"]
mod devtools;
#[allow(dead_code, reason = "one part of it is enough here")]
mod program;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use devtools::{Page, browser};
use program::{command, hoistway};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A laboratory on a free port.
struct Lab {
    child: Child,
    address: String,
    directory: tempfile::TempDir,
}

impl Lab {
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut all = vec!["lab", "--port", "0", "--no-browser", "--quiet"];
        all.extend(arguments);
        let mut child = command(directory.path(), &all).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        Self { child, address, directory }
    }

    fn host(&self) -> &str {
        self.address.trim_start_matches("http://").trim_end_matches('/')
    }

    /// Sends a request and returns the status and the body.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    fn post(&self, path: &str, body: &Value) -> (u16, String) {
        let headers = format!("Host: {}\r\nContent-Type: application/json\r\n", self.host());
        self.ask("POST", path, &headers, &body.to_string())
    }

    fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// Of all its threads, those that have ended included.
    fn processor_time_s(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // Behind the name: the state is the first field, utime and stime are the 12th and 13th.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|it| it.parse::<u64>().unwrap()).sum();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Ends it as Ctrl-C does; returns its exit code.
    fn interrupt(&mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn state() -> Value {
    let tenant = |name: &str, weight: u32| json!({"name": name, "weight": weight, "depth": 32, "block": 4096, "read": 100, "random": true});
    json!({
        "device": "model:ssd", "seed": 7, "length_ms": 400, "schedulers": ["none", "paternoster"],
        "tenants": [tenant("a", 100), tenant("b", 300)],
    })
}

#[test]
fn only_its_own_page_is_answered() {
    let lab = Lab::start(&[]);
    let host = format!("Host: {}\r\n", lab.host());
    let (code, page) = lab.ask("GET", "/", &host, "");
    assert_eq!((code, page.contains("<title>Hoistway: the laboratory</title>")), (200, true));
    let text = state().to_string();
    for (headers, why) in [
        ("Host: example.org\r\nContent-Type: application/json\r\n".to_owned(), "a name that points to this machine"),
        (format!("{host}Origin: http://example.org\r\nContent-Type: application/json\r\n"), "another site"),
        (format!("{host}Content-Type: text/plain\r\n"), "a form of another site"),
    ] {
        assert_eq!(lab.ask("POST", "/open", &headers, &text).0, 403, "{why}");
    }
    assert_eq!(lab.ask("GET", "/../../etc/passwd", &host, "").0, 404);
    assert_eq!(lab.post("/open", &state()).0, 200);
    let (code, answer) = lab.post("/open", &json!({"device": "model:ssd"}));
    assert_eq!((code, answer.contains("missing field")), (400, true), "{answer}");
    let mut tampered = state();
    tampered["tenants"][0]["depth"] = json!(1_000_000);
    let (code, answer) = lab.post("/open", &tampered);
    assert_eq!((code, answer.contains("1000000 is outside 1 to 256")), (400, true), "{answer}");
    assert_eq!(lab.post("/do?id=1234", &json!("step")).0, 400);
}

#[test]
fn a_second_laboratory_on_the_port_says_so() {
    let lab = Lab::start(&[]);
    let port = lab.host().rsplit_once(':').unwrap().1;
    let second = hoistway(lab.directory.path(), &["lab", "--no-browser", "--port", port]);
    assert_eq!((second.code, second.stdout.as_str()), (1, ""), "{}", second.stderr);
    assert!(second.stderr.contains(&format!("cannot listen on port {port}")), "{}", second.stderr);
    assert!(second.stderr.contains("--port 0"), "{}", second.stderr);
    let wrong = hoistway(lab.directory.path(), &["lab", "--no-browser", "--port", "0", "--model", "sdd"]);
    assert_eq!((wrong.code, wrong.stderr.contains("ssd")), (2, true), "{}", wrong.stderr);
}

/// The id of a new page.
fn opened(lab: &Lab) -> String {
    let (code, answer) = lab.post("/open", &state());
    assert_eq!(code, 200, "{answer}");
    serde_json::from_str::<Value>(&answer).unwrap()["id"].as_str().unwrap().to_owned()
}

/// Reads the stream of a page.
fn frames(lab: &Lab, id: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(lab.host()).unwrap();
    write!(stream, "GET /frames?id={id} HTTP/1.1\r\nHost: {}\r\n\r\n", lab.host()).unwrap();
    BufReader::new(stream)
}

/// The next frame for which `is` holds.
fn frame(stream: &mut BufReader<TcpStream>, is: impl Fn(&Value) -> bool) -> Value {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream has ended");
        if let Some(text) = line.strip_prefix("data: ") {
            let frame: Value = serde_json::from_str(text).unwrap();
            if is(&frame) {
                return frame;
            }
        }
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_browser_that_vanishes_leaves_nothing_and_neither_does_the_laboratory() {
    let mut lab = Lab::start(&[]);
    let id = opened(&lab);
    let mut stream = frames(&lab, &id);
    frame(&mut stream, |_| true);
    let busy = lab.threads();
    assert_eq!(lab.post(&format!("/do?id={id}"), &json!({"pace": 1e6})).0, 200);
    frame(&mut stream, |it| it["now_ns"].as_u64() > Some(0));
    drop(stream);
    until("the thread of the page ends", || lab.threads() < busy);
    assert_eq!(lab.post(&format!("/do?id={id}"), &json!("step")).0, 400, "the page is gone");
    // One that is frozen.
    let frozen = opened(&lab);
    let mut stream = frames(&lab, &frozen);
    frame(&mut stream, |_| true);
    let busy = lab.threads();
    drop(stream);
    until("the thread of the frozen page ends", || lab.threads() < busy);
    // One that never reads its frames. Not before, because the end of its thread would be taken for another's.
    let idle = opened(&lab);
    until("the page that does not read is forgotten", || lab.post(&format!("/do?id={idle}"), &json!("step")).0 == 400);
    assert_eq!(lab.interrupt(), Some(130));
    assert_eq!(program::entries(lab.directory.path()), Vec::<String>::new());
}

/// Runs a command line that the page gave, and returns for each scheduler the requests and the
/// longest latency of each group.
fn tested(directory: &Path, line: &str) -> Vec<(String, Vec<(u64, u64)>)> {
    let words: Vec<&str> = line.split(' ').skip(1).chain(["--format", "json", "--quiet", "--no-store"]).collect();
    let said = hoistway(directory, &words);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    let figures = |group: &Value| {
        let reads = &group["lat_ns"]["read"];
        // Requests per second in a window of 0.4 s.
        #[expect(clippy::cast_possible_truncation, reason = "a count")]
        let ios = (group["iops"]["mean"].as_f64().unwrap() * 0.4).round() as u64;
        (ios, reads["max"].as_u64().unwrap())
    };
    let cell = |cell: &Value| {
        let groups = cell["groups"].as_array().unwrap().iter().map(figures).collect();
        (cell["sched"].as_str().unwrap().to_owned(), groups)
    };
    told["cells"].as_array().unwrap().iter().map(cell).collect()
}

#[test]
fn the_command_line_repeats_the_figures() {
    let lab = Lab::start(&[]);
    let id = opened(&lab);
    let mut stream = frames(&lab, &id);
    let order = |order: &Value| {
        let (code, answer) = lab.post(&format!("/do?id={id}"), order);
        assert_eq!(code, 200, "{answer}");
    };
    order(&json!({"pace": -1}));
    let last = frame(&mut stream, |it| it["over"] == true);
    let (code, answer) = lab.post("/command", &state());
    assert_eq!(code, 200, "{answer}");
    let told: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(told["is_exact"], true);
    let line = told["command"].as_str().unwrap();
    let runs = tested(lab.directory.path(), line);
    for (lane, scheduler) in ["none", "paternoster"].iter().enumerate() {
        let own = last["lanes"][lane]["result"]["groups"].as_array().unwrap();
        let own: Vec<_> =
            own.iter().map(|it| (it["ios"].as_u64().unwrap(), it["latency_ns_max"].as_u64().unwrap())).collect();
        let (_, groups) = runs.iter().find(|(name, _)| name == scheduler).unwrap();
        assert_eq!(&own, groups, "{scheduler}: {line}");
    }
}

/// For what happens soon or, if it is broken, never. Not less, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// The figures of the whole run as the page shows them, lane by lane.
const FIGURES: &str = "JSON.stringify([...document.querySelectorAll('.figures tbody')].map((it) => it.innerText))";

/// Moves a slider as a hand does: through all places between.
fn drag(page: &mut Page, selector: &str, to: &str) {
    page.value(&format!(
        "(async () => {{
            const input = document.querySelector({selector:?});
            const [from, to] = [Number(input.value), {to}];
            for (let at = from; at !== to; at += Math.sign(to - from)) {{
                input.value = at + Math.sign(to - from);
                input.dispatchEvent(new Event('input', {{ bubbles: true }}));
                await new Promise((done) => setTimeout(done, 15));
            }}
        }})()"
    ));
}

#[test]
fn a_browser_chooses_runs_changes_and_passes_on() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no browser (apt-get install chromium)");
        return;
    };
    let lab = Lab::start(&[]);
    let mut page = Page::start(browser, &lab.directory.path().join("profile"));
    page.look((1400, 1000), false);
    page.open(&lab.address);
    // The weights 100 and 400 on the device of the page, in real time.
    page.value("laboratory.restart((it) => { it.length_ms = 4000; it.tenants.length = 2; it.tenants[0].weight = 100; it.tenants[1].weight = 400; it.tenants[0].depth = 64; })");
    page.wait("document.querySelectorAll('.tenant').length === 2 && laboratory.isOpen", PATIENCE);
    page.value("laboratory.setPace(9); document.getElementById('run').click()");
    page.wait("laboratory.nowNs > 6e8", PATIENCE);
    let row = "document.querySelectorAll('.lane')[1].querySelector('.shares tbody tr').dataset";
    page.wait(&format!("Math.abs(Number({row}.share) - 0.2) < 0.03"), PATIENCE);
    drag(
        &mut page,
        "[data-tenant=\"0\"] .weight",
        "(() => { const w = [1, 10, 100, 1000].flatMap((d) => [1, 1.5, 2, 3, 4, 5, 6, 8].map((it) => Math.floor(it * d))).filter((it, at, all) => it !== all[at - 1]); return w.indexOf(800); })()",
    );
    page.wait("laboratory.made.at(-1)?.weight === 800", PATIENCE);
    let changed = page.value("laboratory.made.at(-1).at_ns").as_f64().unwrap();
    // Both tenants keep the device full alone, so that two thirds of it are due by weight.
    let due = "(() => { const due = [...document.querySelectorAll('.lane')[1].querySelectorAll('.shares tbody tr')].map((it) => Number(it.dataset.due)); return due[0] / (due[0] + due[1]); })()";
    page.wait(&format!("Math.abs({due} - 2 / 3) < 0.01"), PATIENCE);
    page.wait(&format!("Math.abs(Number({row}.share) - 2 / 3) < 0.02"), PATIENCE);
    let reached = page.value("laboratory.nowNs").as_f64().unwrap();
    assert!(reached - changed < 2e9, "the share was reached after {} s of virtual time", (reached - changed) / 1e9);
    // A dispatch tells its reason.
    page.value("document.querySelector('.lane canvas.device').focus()");
    page.value("document.querySelectorAll('.lane')[1].querySelector('canvas.device').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft' }))");
    let hint = page.value("document.getElementById('hint').textContent");
    let hint = hint.as_str().unwrap();
    assert!(hint.contains(" reads 4 KiB at sector ") && hint.contains("Chosen: "), "{hint}");
    // To the end, and the same again by the link.
    page.value("laboratory.setPace(13)");
    page.wait("laboratory.isOver && document.querySelectorAll('.figures tbody tr').length === 4", PATIENCE);
    let figures = page.value(FIGURES);
    let link = page.value("location.href").as_str().unwrap().to_owned();
    assert!(page.value("laboratory.made.length").as_u64() >= Some(1));
    let mut other = Page::start(browser, &lab.directory.path().join("other"));
    other.open(&link);
    other.value("laboratory.setPace(13); document.getElementById('run').click()");
    other.wait("laboratory.isOver && document.querySelectorAll('.figures tbody tr').length === 4", PATIENCE);
    assert_eq!(other.value(FIGURES), figures, "{link}");
    assert_eq!(other.value("location.href"), link);
    // Links that were tampered with.
    other.open(&format!("{}#bm9uc2Vuc2U", lab.address));
    other.wait("document.getElementById('problem').textContent.includes('This link is damaged')", PATIENCE);
    assert_eq!(other.errors, Vec::<String>::new());
    // The present run writes its own link before the page hears of the new one.
    other.value("(() => { const own = location.href; location.hash = btoa(JSON.stringify({ ...laboratory.start, seed: -1 })).replaceAll('=', ''); history.replaceState(null, '', own); })()");
    other.wait("document.getElementById('problem').textContent.includes('not possible')", PATIENCE);
    assert_eq!(page.errors, Vec::<String>::new());
}

/// What the stories claim.
const CLAIMS: &str = include_str!("lab/claims.js");

/// The claims of a step that the figures on the page contradict, with those figures.
const FALSE_CLAIMS: &str = "(story, step) => {
    const lanes = laboratory.views.map((view) => {
        const window = view.history.window();
        const { at, bytes } = view.history.points.at(-1);
        const lane = { rate: window.rate / 1048576, words: view.node.querySelector('.words').textContent };
        laboratory.state.tenants.forEach((tenant, index) => {
            const { rate, p50, p99 } = window.tenants[index];
            const due = view.history.last.groups[index].due_bytes_per_s;
            // The words and the table are of the same window.
            if (Number(view.rows[index].row.dataset.got) !== rate) throw new Error('the table shows another window');
            const whole = bytes[index] / 1048576 / (at / 1e9);
            lane[tenant.name] = { got: rate / 1048576, whole, due: due / 1048576, part: due ? Math.min(1, rate / due) : 1, p50, p99 };
        });
        return lane;
    });
    const of = claims[story][step - 1];
    return Object.keys(of).filter((claim) => !of[claim](lanes)).map((claim) => [claim, JSON.stringify(lanes)]);
}";

#[test]
fn every_story_is_told_to_its_end_and_its_claims_hold() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no browser (apt-get install chromium)");
        return;
    };
    let lab = Lab::start(&[]);
    let mut page = Page::start(browser, &lab.directory.path().join("profile"));
    page.look((1400, 1000), false);
    page.open(&lab.address);
    let stories = page.value("document.getElementById('story').options.length").as_u64().unwrap();
    assert_eq!(stories, 11);
    page.value(&format!("window.claims = {CLAIMS}"));
    for story in 0..stories {
        page.value(&format!(
            "document.getElementById('story').value = '{story}'; document.getElementById('story-begin').click()"
        ));
        for step in 1..=5 {
            page.wait(&format!("document.getElementById('story-place').textContent.startsWith('Step {step} of') && (laboratory.isRunning || !document.getElementById('story-next').disabled)"), PATIENCE);
            // A reader takes longer; the step ends at about the same virtual time.
            page.value("laboratory.setPace(13)");
            page.wait("!document.getElementById('story-next').disabled", PATIENCE);
            let problem = page.value("document.getElementById('problem').textContent");
            assert_eq!(problem, "", "story {story}, step {step}");
            // The last frames may still be on their way.
            page.value("new Promise((done) => setTimeout(() => { laboratory.redraw(); requestAnimationFrame(() => requestAnimationFrame(done)); }, 200))");
            assert_eq!(
                page.value(&format!("({FALSE_CLAIMS})({story}, {step})")),
                json!([]),
                "story {story}, step {step}"
            );
            let words = page.value("[...document.querySelectorAll('.words')].map((it) => it.textContent)");
            let words = words.as_array().unwrap();
            assert!(words.iter().all(|it| it.as_str().unwrap().len() > 20), "story {story}, step {step}: {words:?}");
            if std::env::var_os("LAB_STORIES").is_some() {
                println!("story {story} step {step} at {}", page.value("laboratory.nowNs"));
                println!("{}", page.value("[...document.querySelectorAll('.lane')].map((it) => it.querySelector('.spec').value + ': ' + it.querySelector('.shares tbody').innerText.replaceAll('\\n', ' | ') + ' // ' + it.querySelector('.words').textContent).join('\\n')").as_str().unwrap());
            }
            let is_last = page.value("document.getElementById('story-next').textContent") == "Done";
            page.value("document.getElementById('story-next').click()");
            if is_last {
                break;
            }
            assert!(step < 5, "story {story} has more than five steps");
        }
        page.wait("document.getElementById('story-card').hidden", PATIENCE);
    }
    assert_eq!(page.errors, Vec::<String>::new());
}

/// Writes a picture of the page, and checks that nothing is wider than the window.
fn picture(page: &mut Page, name: &str, size: (u32, u32), is_dark: bool) {
    page.look(size, is_dark);
    page.value("new Promise((done) => requestAnimationFrame(() => { laboratory.redraw(); setTimeout(done, 120); }))");
    let needed = page.value("document.documentElement.scrollWidth").as_u64().unwrap();
    assert!(needed <= u64::from(size.0), "{name}: {needed} pixels wide");
    let text = page.screenshot();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{name}.png"));
    let mut decode = Command::new("base64")
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&path).unwrap())
        .spawn()
        .unwrap();
    decode.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(decode.wait().unwrap().success());
    assert!(fs::metadata(&path).unwrap().len() > 30_000, "{} is empty", path.display());
}

#[test]
fn it_looks_right_by_day_by_night_and_on_a_telephone() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no browser (apt-get install chromium)");
        return;
    };
    let lab = Lab::start(&[]);
    let mut page = Page::start(browser, &lab.directory.path().join("profile"));
    page.look((1400, 1000), false);
    page.open(&lab.address);
    // It runs by itself: a newcomer sees something at work on the first screen, and where to begin.
    page.wait("laboratory.nowNs > 0 && laboratory.isRunning", PATIENCE);
    page.value("laboratory.setPace(7)");
    page.wait("laboratory.nowNs > 7e8", PATIENCE);
    page.value("document.getElementById('run').click()");
    for (size, last) in
        [((1400, 900), "document.querySelector('.words')"), ((390, 844), "document.querySelector('.shares')")]
    {
        page.look(size, false);
        let lowest = page.value(&format!("{last}.getBoundingClientRect().bottom")).as_f64().unwrap();
        assert!(lowest <= f64::from(size.1), "{size:?}: the first screen ends above {lowest}");
        assert_eq!(page.value("document.getElementById('story-begin').getBoundingClientRect().top < 200"), true);
    }
    picture(&mut page, "light", (1400, 1000), false);
    picture(&mut page, "dark", (1400, 1000), true);
    picture(&mut page, "phone", (390, 844), false);
    picture(&mut page, "4k", (3840, 2160), false);
    // Every control has a name for those who cannot see it.
    let nameless = page.value("[...document.querySelectorAll('button, input, select, textarea, canvas')].filter((it) => !it.closest('template') && !(it.labels?.length || it.textContent.trim() || it.ariaLabel || it.getAttribute('aria-labelledby'))).map((it) => it.outerHTML)");
    assert_eq!(nameless, json!([]));
    page.look((1400, 1000), false);
    page.value("laboratory.restart((it) => { it.device = 'model:sata'; it.schedulers = ['mq-deadline', 'bfq']; it.tenants.forEach((tenant) => Object.assign(tenant, { random: false, block: 32768, depth: 1 })); })");
    page.value("laboratory.setPace(9); document.getElementById('run').click()");
    page.wait("laboratory.nowNs > 2e9", PATIENCE);
    page.value("document.getElementById('run').click()");
    picture(&mut page, "disk", (1400, 1000), false);
    page.value("laboratory.restart((it) => { it.device = 'model:raid5x12'; it.schedulers = ['none', 'paternoster', 'cfq']; it.tenants.forEach((tenant) => Object.assign(tenant, { random: true, block: 16384, depth: 16 })); })");
    page.value("laboratory.setPace(9); document.getElementById('run').click()");
    page.wait("laboratory.nowNs > 1e9", PATIENCE);
    page.value("document.getElementById('run').click()");
    picture(&mut page, "array", (1800, 1000), true);
    // Three lanes beside each other, without a sideways scroll.
    for width in [900, 1024, 1280, 1600, 1920] {
        picture(&mut page, &format!("lanes-{width}"), (width, 900), width == 1280);
        let tops = page.value("new Set([...document.querySelectorAll('.lane')].map((it) => Math.round(it.getBoundingClientRect().top))).size");
        assert_eq!(tops, 1, "{width}");
    }
    assert_eq!(page.value("new Set([...document.querySelectorAll('.lane canvas.device')].map((it) => Math.round(it.getBoundingClientRect().height))).size"), 1);
    assert_eq!(page.errors, Vec::<String>::new());
}

/// Two lanes with eight tenants: how much processor time a frame takes. How many come in a second depends on what else
/// the machine does.
#[test]
fn eight_tenants_in_two_lanes_are_told_sixty_times_a_second() {
    const FRAMES: u32 = 120;
    let lab = Lab::start(&[]);
    let mut eight = state();
    eight["length_ms"] = json!(60_000);
    let tenant = |index: u32| json!({"name": format!("t{index}"), "weight": 100 * index, "depth": 16, "block": 4096, "read": 80, "random": true});
    eight["tenants"] = (1..=8).map(tenant).collect();
    let (code, answer) = lab.post("/open", &eight);
    assert_eq!(code, 200, "{answer}");
    let id = serde_json::from_str::<Value>(&answer).unwrap()["id"].as_str().unwrap().to_owned();
    let mut stream = frames(&lab, &id);
    assert_eq!(lab.post(&format!("/do?id={id}"), &json!({"pace": 1e8})).0, 200);
    let before_s = lab.processor_time_s();
    (0..FRAMES).for_each(|_| drop(frame(&mut stream, |_| true)));
    let frame_ms = (lab.processor_time_s() - before_s) * 1e3 / f64::from(FRAMES);
    println!("{frame_ms:.2} ms of processor time for a frame");
    // A sixtieth of a second is 16.7 ms; a build without optimization takes more for its work.
    assert!(frame_ms < 25.0, "{frame_ms:.2} ms of processor time for a frame");
}
