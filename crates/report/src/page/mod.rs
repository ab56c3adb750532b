//! One self-contained HTML file: inline SVG, no network, no scripts; light or dark by the reader's
//! system setting.
//!
//! The information that a pointer shows over a mark is also available by keyboard and touch: a
//! series is focused as a whole and shows its figures (`svg::Svg::series`); dispatches, of which
//! there are thousands, are listed below their chart. Nothing depends on colour alone: series have
//! their own marks, dashes or patterns, and their names are beside them.

mod chart_width;
mod dispatches;
mod figure;
mod glossary;
pub mod isolation;
mod latency;
mod legend;
mod scale;
mod shares;
mod svg;
mod tables;
mod throughput;
mod timeline;
pub mod verdicts;

use std::fmt::Write;

use hoistway_experiment::cell::Cell;

use crate::Results;
use crate::quantity::{jobs, scheduler, weights};
use crate::table::length;
use crate::winners;
use sha2::{Digest, Sha256};
use svg::escaped;

pub use figure::figure;
pub use glossary::gloss;

/// Number of requests that a measurement should record for the chart of dispatches.
pub const DISPATCHES: usize = 1_200;

const STYLE: &str = include_str!("style.css");

const AT_WORK: &str = "The first requests of the window in the order in which the device got them: where they went and for whom, and below how many of each group it had. Hollow marks are writes; a rim says that a request was chosen for another reason than most; grey is time in which the scheduler kept requests back. Point at a mark to see why it was chosen; the list below each chart has the same in words.";

const LATENCY: &str = "The value at 99 % is the time within which 99 % of a group's requests completed. Point at a curve, or reach it with the Tab key, to see its figures.";

/// The whole page.
pub fn html(results: &Results<'_>) -> String {
    let cells = results.cells();
    let title = title(results, &cells);
    let mut page = beginning(&title, &shares::patterns());
    let _ = writeln!(page, "<p class=\"lead\">{}</p>", escaped(&lead(results, &cells)));
    if !results.complete {
        page.push_str("<p class=\"warn\">This test was interrupted: some of the planned runs are missing.</p>\n");
    }
    let blocks: Vec<&[Cell<'_>]> = cells.chunk_by(|a, b| a.workload == b.workload).collect();
    for block in &blocks {
        if blocks.len() > 1 {
            let name = block.first().map_or("", |cell| cell.workload);
            let what = block.first().map(jobs).unwrap_or_default();
            let _ = writeln!(
                page,
                "<div class=\"workload\">{} <span class=\"note\">{}</span></div>",
                escaped(name),
                escaped(&what)
            );
        }
        workload(&mut page, block);
    }
    page.push_str(&tables::verdicts(results));
    let _ = writeln!(
        page,
        "<section><h2>Plan</h2>\n{}<h3>Environment</h3>\n{}</section>",
        tables::plan(results, &cells),
        tables::environment(results),
    );
    page.push_str("<footer>Written by hoistway. ± is the half width of the 95 % interval over the sets; one set has none. Percentiles are of the merged histograms of all sets.</footer>\n</main>\n</body>\n</html>\n");
    page
}

/// A page up to its heading; `first` stands before the visible part.
///
/// The policy lets a browser apply the page's own style and nothing else: whatever a name in the results holds, no
/// script runs and nothing is fetched.
fn beginning(title: &str, first: &str) -> String {
    let style = format!("\n{STYLE}");
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        base64(&Sha256::digest(style.as_bytes()))
    );
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n{first}<main>\n<h1>{title}</h1>\n"
    )
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(three.get(at).copied().unwrap_or(0)));
        for digit in 0..4 {
            let is_filler = digit > three.len();
            text.push(if is_filler { '=' } else { char::from(DIGITS[bits >> (18 - 6 * digit) & 63]) });
        }
    }
    text
}

fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{count} {many}") }
}

/// What was measured, in one line.
fn title(results: &Results<'_>, cells: &[Cell<'_>]) -> String {
    let target = &results.matrix.target;
    let mut names: Vec<String> = Vec::new();
    for cell in cells {
        let name = scheduler(cell);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let name = match &names[..] {
        [] => return format!("No results for {target}"),
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        more => format!("{} schedulers", more.len()),
    };
    let plural = names.len() > 1;
    match cells.first().map_or(0, |cell| cell.groups.len()) {
        0 | 1 => format!("What {name} {} out of {target}", if plural { "get" } else { "gets" }),
        groups => format!("How {name} {} {target} among {groups} groups", if plural { "divide" } else { "divides" }),
    }
}

fn lead(results: &Results<'_>, cells: &[Cell<'_>]) -> String {
    let Some(first) = cells.first() else { return "Nothing was measured.".to_owned() };
    let mut workloads: Vec<&str> = cells.iter().map(|cell| cell.workload).collect();
    workloads.dedup();
    let what = match &workloads[..] {
        [one] => format!("{one}: {}", jobs(first)),
        many => format!("workloads {}", many.join(", ")),
    };
    let groups = if first.groups.len() > 1 { format!("; weights {}", weights(first)) } else { String::new() };
    let sets = cells.iter().map(|cell| cell.runs.len()).max().unwrap_or(1);
    let sets = if sets > 1 { format!(" × {sets} sets") } else { String::new() };
    let started = results.started();
    let day = started.split('T').next().unwrap_or(&started);
    format!("{what}{groups}; {}{sets} per run on the {} host, {day}.", length(results, first), results.host)
}

/// All charts of one workload.
fn workload(page: &mut String, block: &[Cell<'_>]) {
    // A chart without room for thread counts shows the highest one of each scheduler.
    let highest: Vec<&Cell<'_>> = block.chunk_by(|a, b| a.spec == b.spec).filter_map(<[_]>::last).collect();
    let Some(last) = highest.first() else { return };
    let several_counts = block.iter().any(|cell| cell.threads != last.threads);
    let at = if several_counts {
        format!(" With {} per group.", counted(last.threads as usize, "1 thread", "threads"))
    } else {
        String::new()
    };
    page.push_str(&tiles(&highest));
    section(page, "Total throughput", "All groups together. Higher is better.", &throughput::chart(block));
    if let Some(chart) = shares::chart(&highest) {
        let marks = match shares::yardstick(last) {
            "entitled" => {
                "what each is entitled to: what it achieves alone, at most its part by weight and of what others leave"
            }
            _ => "the division by weight",
        };
        let note = format!(
            "Each bar is the total throughput, divided into what the groups got. The marks ▾ show {marks}.{at}"
        );
        section(page, "Who got what", &note, &chart);
    }
    if let Some(chart) = dispatches::chart(&highest) {
        section(page, "At work", &format!("{AT_WORK}{at}"), &chart);
    }
    if let Some(chart) = latency::chart(&highest) {
        let note = format!(
            "Further left is faster. Each step up the scale adds a nine, so that the tail has as much space as the middle. {LATENCY}{at}"
        );
        section(page, "Latency", &note, &chart);
    }
    if let Some(chart) = timeline::chart(&highest) {
        let note = format!("MiB/s of each group, second by second, first set, one scale for all charts.{at}");
        section(page, "Over time", &note, &chart);
    }
    let jobs = tables::jobs(block);
    if !jobs.is_empty() {
        section(page, "Job by job", crate::jobs::NOTE, &jobs);
    }
    section(
        page,
        "Settings in force",
        "Read back during the runs. Values other than the default are bold and marked *.",
        &tables::settings(&highest),
    );
    let reasons = tables::reasons(&highest);
    let reasons = if reasons.is_empty() {
        reasons
    } else {
        format!("<details><summary>Why requests were chosen</summary>{reasons}</details>\n")
    };
    let figures = format!(
        "{}<details><summary>Group by group</summary>{}</details>\n{reasons}",
        tables::figures(block),
        tables::group_latencies(block),
    );
    let of = if last.groups.len() > 1 { " Worst latencies are those of the group that waits longest." } else { "" };
    let note = format!("Throughput of the groups in MiB/s, weights in brackets.{of}");
    section(page, "All figures", &note, &figures);
}

fn section(page: &mut String, title: &str, note: &str, content: &str) {
    let _ = writeln!(page, "<section><h2>{title}</h2>\n<p class=\"note\">{}</p>\n{content}</section>", escaped(note));
}

/// The three main results; a winner is named only if there is one.
fn tiles(cells: &[&Cell<'_>]) -> String {
    let mut text = String::new();
    for best in winners::best(cells) {
        let value = best.value.as_deref().unwrap_or("no winner");
        let _ = writeln!(
            text,
            "<div class=\"tile\"><div class=\"what\">{}</div><div class=\"value\">{}</div><div class=\"who\">{}</div></div>",
            escaped(&best.what),
            escaped(value),
            escaped(&format!("{}{}", best.name, best.remark))
        );
    }
    format!("<div class=\"tiles\">\n{text}</div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_rfc_4648() {
        let texts =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (text, written) in texts {
            assert_eq!(base64(text.as_bytes()), written);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }

    #[test]
    fn a_page_has_the_hash_of_its_own_style_and_no_other_style() {
        let page = beginning("<script>", "");
        let (policy, rest) = page.split_once("'sha256-").unwrap().1.split_once('\'').unwrap();
        let style = rest.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert_eq!(policy, base64(&Sha256::digest(style.as_bytes())));
        assert!(!page.contains("<script>") && !page.contains(" style="), "{page}");
    }
}
