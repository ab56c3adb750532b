//! The page that `--format html` writes, in a real browser: its layout in Chromium at three widths,
//! with light and dark colours.
//!
//! Screenshots stay in `CARGO_TARGET_TMPDIR` (target/tmp/page-*.png). Without Chromium all of it is
//! skipped with a message.

#[allow(dead_code, reason = "one part of it is enough here")]
mod program;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use program::hoistway;
use serde_json::Value;

/// Widths of windows: a desktop, a tablet, a telephone.
const WIDTHS: [u32; 3] = [1200, 760, 390];

fn browser() -> Option<&'static str> {
    let is_there = |name: &&&str| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    ["chromium", "chromium-browser", "google-chrome"].iter().find(is_there).copied()
}

/// Headless Chromium, in a profile of its own.
fn chromium(browser: &str, profile: &Path, arguments: &[String]) -> String {
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display())).args(arguments).stderr(Stdio::null());
    let output = command.output().expect("the browser starts");
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The page with the probe, in a frame of this width: Chromium's windows have a minimum width,
/// frames have none.
fn framed(directory: &Path, page: &str, width: u32) -> PathBuf {
    let probed = directory.join(format!("probed-{width}.html"));
    // The page forbids scripts; what it says about styles stays in force.
    let page = page.replacen("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';", 1);
    fs::write(&probed, format!("{page}<script>{}</script>", include_str!("page_probe.js"))).unwrap();
    let frame = directory.join(format!("frame-{width}.html"));
    let text = format!(
        "<!doctype html><body style=\"margin:0\"><iframe src=\"probed-{width}.html\" style=\"border:0;width:{width}px;height:6400px\"></iframe>
        <pre id=\"probe\"></pre><script>addEventListener(\"message\", (it) => document.getElementById(\"probe\").textContent = it.data)</script>"
    );
    fs::write(&frame, text).unwrap();
    frame
}

/// The probe's result.
fn look(browser: &str, directory: &Path, page: &str, width: u32, more: &[&str]) -> Value {
    let frame = framed(directory, page, width);
    let profile = directory.join(format!("profile-{width}-{}", more.len()));
    let mut arguments = vec!["--dump-dom".to_owned(), "--window-size=1300,900".to_owned()];
    arguments.push("--virtual-time-budget=8000".to_owned());
    arguments.extend(more.iter().map(|more| (*more).to_owned()));
    arguments.push(format!("file://{}", frame.display()));
    let dom = chromium(browser, &profile, &arguments);
    let told = dom.split_once("<pre id=\"probe\">").expect("a probe").1.split_once("</pre>").expect("its end").0;
    let told = told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"))
}

fn screenshot(browser: &str, directory: &Path, name: &str, width: u32, more: &[&str]) {
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{name}.png"));
    let profile = directory.join(format!("profile-{name}"));
    let mut arguments = vec![format!("--screenshot={}", picture.display()), format!("--window-size={width},5200")];
    arguments.extend(more.iter().map(|more| (*more).to_owned()));
    arguments.push(format!("file://{}", directory.join(format!("frame-{width}.html")).display()));
    chromium(browser, &profile, &arguments);
    assert!(fs::metadata(&picture).unwrap().len() > 50_000, "{} is empty", picture.display());
}

/// Relative luminance of `rgb(r, g, b)`.
fn luminance(colour: &str) -> f64 {
    let parts = colour.trim_start_matches("rgb(").trim_end_matches(')').split(',');
    let linear = |part: &str| {
        let part = part.trim().parse::<f64>().unwrap_or_else(|_| panic!("{colour}")) / 255.0;
        if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    parts.map(linear).zip([0.2126, 0.7152, 0.0722]).map(|(part, weight)| part * weight).sum()
}

#[test]
fn case_13_a_browser_shows_the_page_whole_at_every_width_by_day_and_by_night() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no browser (apt-get install chromium)");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let arguments = "test model:sata --quiet --no-store --runtime 4s --ramp 500ms -w dsr --sets 2 --format html=page.html \
        --group name=backup,weight=100 --group name=web,weight=200 --group name=database-of-the-shop,weight=400 \
        -s noop -s mq-deadline -s cfq -s bfq:low_latency=0,slice_idle=8,strict_guarantees=1 -s wfq";
    let said = hoistway(directory.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let page = fs::read_to_string(directory.path().join("page.html")).unwrap();
    let directory = directory.path();
    // Schedulers with the same dispatches share a chart.
    let work = page.split_once("<h2>At work</h2>").unwrap().1.split_once("</section>").unwrap().0;
    let works = work.matches("role=\"img\"").count();
    assert!((3..=5).contains(&works) && (works == 5) != work.contains("Exactly the same sequence as under"), "{works}");
    const DAY: &[&str] = &[];
    const NIGHT: &[&str] = &["--force-dark-mode"];
    for width in WIDTHS {
        // Dark colours only at the largest width, because the layout is the same.
        let times: &[&[&str]] = if width == 1200 { &[DAY, NIGHT] } else { &[DAY] };
        for more in times {
            let seen = look(browser, directory, &page, width, more);
            check_width(&seen, width, works);
            let [ink, card] = ["ink", "card"].map(|key| luminance(seen[key].as_str().unwrap()));
            let contrast = (ink.max(card) + 0.05) / (ink.min(card) + 0.05);
            assert!(contrast > 10.0 && (card > 0.9) == more.is_empty(), "{contrast}, {card} with {more:?}");
        }
    }
    screenshot(browser, directory, "day", 1200, &[]);
    screenshot(browser, directory, "night", 1200, NIGHT);
    screenshot(browser, directory, "phone", 390, &[]);
}

/// The page's own policy, in a browser: a script that got into the page would not run.
#[test]
fn a_script_in_the_page_does_not_run() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no browser (apt-get install chromium)");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let arguments = "test model:sata --quiet --no-store --runtime 1s -w dsr --format html=page.html";
    let said = hoistway(directory.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let page = fs::read_to_string(directory.path().join("page.html")).unwrap();
    let script =
        "<script>document.body.dataset.ran = 'yes'</script><img src=x onerror=\"document.body.dataset.ran = 'yes'\">";
    let run = |page: String| {
        let path = directory.path().join("script.html");
        fs::write(&path, page.replacen("</main>", &format!("{script}</main>"), 1)).unwrap();
        let url = format!("file://{}", path.display());
        chromium(browser, &directory.path().join("profile"), &["--dump-dom".to_owned(), url])
            .contains("data-ran=\"yes\"")
    };
    assert!(!run(page.clone()), "the script ran");
    assert!(run(page.replacen("http-equiv", "data-off", 1)), "without the policy it does, so this test sees it");
}

/// Every reason that a policy may give has its line on the page.
#[test]
fn every_reason_of_every_scheduler_is_explained() {
    let configuration = hoistway_elevator::Configuration::default();
    for entry in hoistway_elevator::registry::ENTRIES {
        let policy = hoistway_elevator::registry::build(entry.name, None, &configuration).expect(entry.name);
        for reason in hoistway_elevator::Elevator::reasons(&policy) {
            assert!(
                hoistway_report::page::gloss(reason).is_some(),
                "{}: '{reason}' (crates/report/src/page/glossary.rs)",
                entry.name
            );
        }
    }
}

fn check_width(seen: &Value, width: u32, works: usize) {
    let number = |key: &str| seen[key].as_f64().unwrap_or_else(|| panic!("{key} at {width}"));
    assert_eq!(seen["width"], width);
    assert!(number("needed") <= f64::from(width), "wider than the window: {} of {width}", seen["needed"]);
    assert_eq!(seen["requests"], 0, "something was fetched");
    // The drawings are throughput and shares; the latency of three groups; for each of five
    // schedulers the ranges and the course over time; and the dispatches. The mixture of all groups
    // is collapsed.
    assert_eq!(seen["drawings"], 2 + 3 + 2 * 5 + works, "at {width}");
    // The parts of drawings that show their figures when the Tab key selects them: a bar of shares
    // for each of five schedulers, a curve for each scheduler in each of three groups, and a range
    // for each of three groups under each scheduler.
    assert_eq!(seen["series"], 5 + 3 * 5 + 3 * 5, "at {width}");
    assert_eq!(seen["mute"].as_array().map(Vec::len), Some(0), "no figures on focus at {width}: {}", seen["mute"]);
    assert_eq!(
        seen["outside"].as_array().map(Vec::len),
        Some(0),
        "text outside its drawing at {width}: {}",
        seen["outside"]
    );
    assert_eq!(seen["overlaps"].as_array().map(Vec::len), Some(0), "text over text at {width}: {}", seen["overlaps"]);
    assert!(number("smallest") >= 7.5, "letters of {} pixels at {width}", seen["smallest"]);
    assert!(number("marks") > 500.0 && seen["marks"] == seen["marksSeen"], "{} marks", seen["marks"]);
    assert_eq!(seen["shapes"], 3, "three groups, three shapes");
    let hint = seen["hint"].as_str().unwrap();
    assert!(hint.starts_with("backup, ") && hint.contains(": read 32k at ") && hint.contains(" took "), "{hint}");
}
