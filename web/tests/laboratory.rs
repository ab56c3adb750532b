//! The folder that `web/build` makes: the same frames as the native run, and the page in headless Chromium
//! from a plain web server. `./check web` builds the folder and names it in `HOISTWAY_LABORATORY`.

#[path = "../../crates/cli/tests/lab/devtools.rs"]
#[allow(dead_code, reason = "this test does not call all functions of the module")]
mod devtools;
#[path = "../../crates/cli/tests/program/quiet.rs"]
mod quiet;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use devtools::{Page, browser};
use hoistway::lab::Choices;
use quiet::undisturbed;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SECONDS: Duration = Duration::from_secs(60);

/// A plain web server; the folder is below its root, as on a host with other pages.
struct Host {
    child: Child,
    root: tempfile::TempDir,
    address: String,
}

impl Host {
    fn start(folder: &Path) -> Self {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("some/place");
        fs::create_dir_all(&place).unwrap();
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), place.join(entry.file_name())).unwrap();
        }
        let mut child = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"])
            .arg(root.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split(" port ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a port");
        let address = format!("http://127.0.0.1:{port}/some/place/");
        Self { child, root, address }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("some/place").join(name)
    }

    fn browse(&self, browser: &str) -> Page {
        Page::start(browser, &self.root.path().join("profile"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The host of the folder, and a browser; nothing if one of them is missing.
fn opened() -> Option<(Host, Page)> {
    let Some(folder) = std::env::var_os("HOISTWAY_LABORATORY") else {
        eprintln!("skipped: HOISTWAY_LABORATORY names no folder (./check web, or web/build)");
        return None;
    };
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no browser (apt-get install chromium)");
        return None;
    };
    let host = Host::start(Path::new(&folder));
    let page = host.browse(browser);
    Some((host, page))
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// Wall time from one frame to the next, as it is passed to both simulations.
const FRAME_MS: f64 = 16.667;

/// Plays a script (a number of frames, or an order) natively; returns the texts of the frames. The
/// clock stands still, so that the work of a frame does not depend on the machine.
fn native(state: &Value, script: &Value) -> Vec<String> {
    let (mut course, lanes) = Choices::new("ssd", &[]).unwrap().start(read(state)).unwrap();
    let mut texts = vec![lanes.to_string()];
    for step in script.as_array().unwrap() {
        let Some(frames) = step.as_u64() else {
            course.carry_out(read(step)).unwrap();
            continue;
        };
        for _ in 0..frames {
            if course.advance(Duration::from_secs_f64(FRAME_MS / 1_000.0), &|| Duration::ZERO) {
                texts.push(serde_json::to_string(&course.frame()).unwrap());
            }
        }
    }
    texts
}

/// The same in the browser.
fn in_browser(page: &mut Page, state: &Value, script: &Value) -> Vec<String> {
    let texts = page.value(&format!(
        "(async () => {{
            const {{ Simulator }} = await import(new URL('simulator.js', location));
            const simulator = await Simulator.load('hoistway.wasm', () => 0);
            const texts = [JSON.stringify(simulator.ask('open', {state}))];
            for (const step of {script}) {{
                if (typeof step !== 'number') {{
                    const {{ error }} = simulator.ask('order', step);
                    if (error) throw new Error(error);
                    continue;
                }}
                for (let frame = 0; frame < step; frame += 1) {{
                    const text = simulator.advance({FRAME_MS});
                    if (text !== null) texts.push(text);
                }}
            }}
            return texts;
        }})()"
    ));
    texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn tenant(name: &str, weight: u32, depth: u32, more: Value) -> Value {
    let mut tenant =
        json!({"name": name, "weight": weight, "depth": depth, "block": 4096, "read": 100, "random": true});
    tenant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tenant
}

/// Fails if a frame differs; returns the native ones.
fn compared(page: &mut Page, state: &Value, script: &Value) -> Vec<String> {
    let (own, other) = (native(state, script), in_browser(page, state, script));
    if let Some(at) = (0..own.len()).find(|at| own.get(*at) != other.get(*at)) {
        panic!("frame {at} of {state}:\nnative  {}\nbrowser {:?}", own[at], other.get(at));
    }
    assert_eq!(own.len(), other.len(), "{state}");
    own
}

/// States and scripts: a disk, an array, flash, and writes through the page cache of an old kernel.
fn scripts() -> Vec<(Value, Value)> {
    let mix = || vec![tenant("a", 100, 4, json!({"read": 70})), tenant("b", 300, 16, json!({"block": 16384}))];
    let sequential = json!({"random": false, "block": 65536});
    let weight = json!({"change": {"what": "weight", "tenant": 0, "weight": 800}});
    let load =
        json!({"change": {"what": "load", "tenant": 1, "depth": 64, "block": 8192, "read": 50, "random": false}});
    let off = json!({"change": {"what": "on", "tenant": 0, "on": false}});
    let give = json!({"change": {"what": "tunable", "lane": 1, "name": "give", "value": "20"}});
    vec![
        (
            json!({"device": "model:sata", "seed": 5, "length_ms": 4000, "schedulers": ["mq-deadline", "bfq", "paternoster"],
                   "tenants": [tenant("a", 100, 1, sequential.clone()), tenant("b", 300, 8, json!({"read": 80}))]}),
            json!([1, {"pace": 1e9}, 60, off, 60, {"pace": -1}, 8]),
        ),
        (
            json!({"device": "model:raid5x12", "seed": 6, "length_ms": 1000, "schedulers": ["none", "cfq", "wfq"],
                   "tenants": mix()}),
            json!(["step", 1, "step", 1, {"pace": 3e8}, 90, {"pace": -1}, 8]),
        ),
        (
            json!({"device": "model:ssd", "seed": 7, "length_ms": 400, "schedulers": ["none", "paternoster"],
                   "tenants": mix()}),
            json!([{"pace": 1e8}, 60, weight, 60, load, give, 60, {"pace": -1}, 8]),
        ),
        (
            json!({"device": "model:sata", "machine": "era=2.4", "seed": 8, "length_ms": 3000, "schedulers": ["linus", "anticipatory"],
                   "tenants": [tenant("writer", 100, 1, json!({"workload": "bsw"})), tenant("reader", 100, 1, json!({"workload": "bsr"}))]}),
            json!([{"pace": 1e9}, 100, {"pace": -1}, 8]),
        ),
    ]
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let Some((host, mut page)) = opened() else { return };
    page.open(&host.address);
    for (state, script) in scripts() {
        let own = compared(&mut page, &state, &script);
        let last: Value = serde_json::from_str(own.last().unwrap()).unwrap();
        assert_eq!(last["over"], true, "{state}");
        let figures = &last["lanes"][0]["result"]["groups"][1]["ios"];
        assert!(figures.as_u64() > Some(0) && own.len() > 60, "{figures} in {} frames: {state}", own.len());
        let mut reseeded = state.clone();
        reseeded["seed"] = json!(99);
        assert_ne!(in_browser(&mut page, &reseeded, &script), own, "the seed counts: {state}");
        println!("{} frames of {} bytes: {}", own.len(), own.iter().map(String::len).sum::<usize>(), state["device"]);
    }
    assert_eq!(page.errors, Vec::<String>::new());
}

#[test]
fn every_story_gives_the_same_bytes() {
    let Some((host, mut page)) = opened() else { return };
    page.open(&host.address);
    let states = page.value(
        "import(new URL('stories.js', location)).then(({ STORIES }) => STORIES.flatMap((story) => story.steps.flatMap((step) => step.state ?? [])))",
    );
    let states = states.as_array().unwrap();
    assert!(states.len() >= 10, "{}", states.len());
    for state in states {
        let mut short = state.clone();
        short["length_ms"] = json!(700);
        let frames = compared(&mut page, &short, &json!([{"pace": 1e9}, 30, {"pace": -1}, 4]));
        assert!(frames.last().unwrap().contains("\"over\":true"), "{short}");
    }
    println!("{} states of stories", states.len());
}

#[test]
fn the_page_runs_from_any_web_host() {
    let Some((host, mut page)) = opened() else { return };
    page.open(&host.address);
    // It runs by itself.
    page.wait("laboratory.nowNs > 5e7", SECONDS);
    page.value("laboratory.live({ what: 'weight', tenant: 0, weight: 800 })");
    page.wait("laboratory.made.at(-1)?.weight === 800", SECONDS);
    // The state link and the command line.
    page.value("laboratory.copyCommand()");
    page.wait("document.getElementById('copied-text').value.startsWith('hoistway test model:ssd --group name=db,weight=800,')", SECONDS);
    page.value("document.getElementById('copy-link').click()");
    page.wait(
        "document.getElementById('copied-note').textContent.endsWith('It works wherever this page is served.')",
        SECONDS,
    );
    // Something impossible is refused, with the reason, and the page goes on.
    page.value("laboratory.restart((it) => { it.schedulers = ['no-such']; })");
    page.wait("document.getElementById('problem').textContent.includes('no-such') && laboratory.isOpen", SECONDS);
    page.value("laboratory.restart((it) => { it.length_ms = 300; })");
    page.value("laboratory.setPace(13); document.getElementById('run').click()");
    page.wait("laboratory.isOver && document.querySelectorAll('.figures tbody tr').length === 6", SECONDS);
    // A story from its first step to its last.
    page.value("document.getElementById('story').value = '5'; document.getElementById('story-begin').click()");
    for step in 1.. {
        page.wait(&format!("document.getElementById('story-place').textContent.startsWith('Step {step} of') && (laboratory.isRunning || !document.getElementById('story-next').disabled)"), SECONDS);
        page.value("laboratory.setPace(13)");
        page.wait("!document.getElementById('story-next').disabled", SECONDS);
        assert_eq!(page.value("document.getElementById('problem').textContent"), "", "step {step}");
        let is_last = page.value("document.getElementById('story-next').textContent") == "Done";
        page.value("document.getElementById('story-next').click()");
        if is_last {
            break;
        }
        assert!(step < 5, "the story has more than five steps");
    }
    page.wait("document.getElementById('story-card').hidden", SECONDS);
    assert_eq!(page.errors, Vec::<String>::new());
}

#[test]
fn eight_tenants_in_two_lanes_are_told_sixty_times_a_second() {
    let frames = undisturbed("sixty frames a second", || {
        let (host, mut page) = opened()?;
        page.open(&host.address);
        page.value(
            "laboratory.restart((it) => { it.tenants = [...Array(8).keys()].map((n) => ({ ...it.tenants[0], name: `t${n}`, weight: 100 * (n + 1), depth: 16, read: 80 })); })",
        );
        page.value("laboratory.setPace(6); document.getElementById('run').click()");
        page.wait("laboratory.nowNs > 0", SECONDS);
        page.value("(() => { const take = laboratory.views[0].history.take.bind(laboratory.views[0].history); window.frames_taken = 0; laboratory.views[0].history.take = (...all) => { window.frames_taken += 1; return take(...all); }; })()");
        let begin = Instant::now();
        std::thread::sleep(Duration::from_secs(3));
        let frames = page.value("window.frames_taken").as_f64().unwrap() / begin.elapsed().as_secs_f64();
        assert_eq!(page.errors, Vec::<String>::new());
        Some(frames)
    });
    let Some(frames) = frames.flatten() else { return };
    println!("{frames:.1} frames in a second");
    assert!(frames > 20.0, "{frames} frames in a second");
}

#[test]
fn a_simulation_that_cannot_be_had_is_a_message() {
    let Some((host, mut page)) = opened() else { return };
    fs::remove_file(host.path("hoistway.wasm")).unwrap();
    page.call("Page.navigate", &json!({"url": host.address}));
    let problem = "document.getElementById('problem').textContent";
    page.wait("Boolean(document.getElementById('problem')?.textContent)", SECONDS);
    let said = page.value(problem);
    assert!(said.as_str().unwrap().contains("hoistway.wasm cannot be loaded: 404"), "{said}");
}
