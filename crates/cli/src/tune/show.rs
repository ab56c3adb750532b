//! The recommendation as text: the device, the candidates, what to set and why. Source:
//! docs/specifications/harness.md, section 8.10.

use std::fmt::Write;

use hoistway_tune::{
    Advice, Among, CandidateFindings, Class, Device, Findings, HostKind, READS_OF_A_P99, Recommendation, RunsIn, Score,
    Verdict,
};

/// What the columns of the candidates' table mean.
const LEGEND: &str =
    "  p99: a random reader's wait beside 4 sequential readers or writers; 1:8: shares of two groups of that weight
  isolation, work: mean of these three; got / entitled of who is worst off, and what the device did of what it can
";
/// The same of the user's load.
const LEGEND_OF_LOAD: &str =
    "  p99: of the group that waits longest; isolation: got / entitled of who is worst off, and work: what the device did
  of what it can, both measured against runs of each group alone and of the device full of its requests
";

/// The whole text.
pub fn text(device: &Device, findings: &Findings, recommendation: &Recommendation) -> String {
    let mut text = head(device, findings, recommendation);
    if !findings.candidates.is_empty() {
        text.push('\n');
        text.push_str(&table(findings, recommendation));
    }
    let name = match device.host {
        HostKind::Native => "recommendation",
        _ => "for the kernel",
    };
    advice(&mut text, name, recommendation, &recommendation.kernel, device);
    if let Some(serve) = &recommendation.serve {
        advice(&mut text, "for hoistway serve", recommendation, serve, device);
    }
    if let Some((_, why)) = &recommendation.idling {
        let _ = writeln!(text, "waiting for readers (the rule of iostune): {why}");
    }
    recommendation.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    text
}

/// The text for a terminal of this width: sentences are broken between words and go on below their
/// own beginning; tables keep their rows.
pub fn wrapped(text: &str, width: usize) -> String {
    text.lines().map(|line| wrapped_line(line, width) + "\n").collect()
}

fn wrapped_line(line: &str, width: usize) -> String {
    let is_sentence = [": ", "note", "class"].iter().any(|mark| line.contains(mark));
    if is_sentence { hoistway_report::wrap::line(line, width) } else { line.to_owned() }
}

/// One line about a device.
pub fn line(device: &Device) -> String {
    let flag = if device.is_rotational { "rotational" } else { "not rotational" };
    let model = if device.model.is_empty() { String::new() } else { format!("  {}", device.model) };
    let current = match (device.schedulers.is_empty(), device.current_is_real) {
        (true, _) => "no scheduler".to_owned(),
        (_, true) => format!("scheduler: {}", device.current),
        (_, false) => format!("the kernel would choose {}", device.current),
    };
    format!(
        "{}{model}  {}  {flag}  {} hw queue(s), {} commands  {current}",
        device.name,
        size(device.size_bytes),
        device.hw_queues,
        device.queue_depth
    )
}

fn size(bytes: u64) -> String {
    let gb = bytes as f64 / 1e9;
    if gb >= 1000.0 { format!("{:.1} TB", gb / 1000.0) } else { format!("{gb:.1} GB") }
}

fn head(device: &Device, findings: &Findings, recommendation: &Recommendation) -> String {
    let mut text = line(device);
    let _ = write!(text, "\nclass: {}", recommendation.class.class);
    if recommendation.class.class == Class::Virtual {
        let _ = write!(text, " (behaves as {})", recommendation.class.behaves);
    }
    let _ = writeln!(text, "   {}", recommendation.class.why);
    if !findings.streams.is_empty() {
        let counts: Vec<String> = findings.streams.iter().map(|step| step.count.to_string()).collect();
        let rates: Vec<String> =
            findings.streams.iter().map(|step| format!("{:.1}", step.bytes_per_s.mean / 1e6)).collect();
        let _ = writeln!(text, "streams {}: {} MB/s", counts.join("/"), rates.join(" "));
    }
    if let (Some(p50_ns), Some(first)) = (findings.random_read_p50_ns(), findings.depths.first()) {
        let _ = writeln!(
            text,
            "4 KiB random reads: {:.0}/s at depth 1 (p50 {}), {:.0}/s at best, nearly the best from depth {}",
            first.ios_per_s.mean,
            time(p50_ns),
            findings.peak_ios_per_s(),
            findings.knee()
        );
    }
    text
}

/// Formats nanoseconds for people.
fn time(ns: f64) -> String {
    match ns {
        ..1e6 => format!("{:.0} us", ns / 1e3),
        ..1e8 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}

fn table(findings: &Findings, recommendation: &Recommendation) -> String {
    let knee = findings.knee();
    let has_load = findings.candidates.iter().any(|it| it.load.is_some());
    let mut rows: Vec<Vec<String>> = vec![head_row(has_load, knee)];
    rows.extend(findings.candidates.iter().map(|candidate| row(candidate, findings, recommendation, has_load)));
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padded = if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            line.push_str(&padded);
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if has_load {
        let is_judged =
            findings.candidates.iter().any(|it| it.load.as_ref().is_some_and(|load| load.isolation.is_some()));
        text.push_str(if is_judged { LEGEND_OF_LOAD } else { "" });
    } else {
        text.push_str(LEGEND);
        let is_few = |among: &Option<Among>| {
            among.as_ref().is_some_and(|it| it.reads.is_some_and(|reads| reads < READS_OF_A_P99))
        };
        if findings.candidates.iter().any(|it| is_few(&it.among_readers) || is_few(&it.among_writers)) {
            text.push_str("  *: fewer than 100 reads, so that it is about the longest wait\n");
        }
    }
    text
}

fn head_row(has_load: bool, knee: u32) -> Vec<String> {
    let load = ["", "your load", "p99", "isolation", "work", "score", ""];
    let random = format!("4K rand x{knee}");
    let probes = ["", "streams x8", &random, "p99 + readers", "+ writers", "1:8", "isolation", "work", "score", ""];
    if has_load { load.map(str::to_owned).to_vec() } else { probes.map(str::to_owned).to_vec() }
}

fn row(
    candidate: &CandidateFindings,
    findings: &Findings,
    recommendation: &Recommendation,
    has_load: bool,
) -> Vec<String> {
    let dash = || "-".to_owned();
    let megabytes = |bytes_per_s: f64| format!("{:.1} MB/s", bytes_per_s / 1e6);
    let mut cells = vec![candidate.spec.clone()];
    if has_load {
        let load = candidate.load.as_ref();
        cells.push(load.map_or_else(dash, |load| megabytes(load.bytes_per_s.mean)));
        cells.push(load.map_or_else(dash, |load| time(load.p99_ns.mean)));
        let parts = [load.and_then(|load| load.isolation), load.and_then(|load| load.work)];
        cells.extend(parts.map(|part| part.map_or_else(dash, |part| format!("{:.0} %", part.mean * 100.0))));
    } else {
        cells.push(candidate.streams_of(8).map_or_else(dash, |rate| megabytes(rate.mean)));
        cells.push(
            candidate.random_at(findings.knee()).map_or_else(dash, |step| format!("{:.0}/s", step.ios_per_s.mean)),
        );
        let p99 = |among: &Option<Among>| {
            among.as_ref().map_or_else(dash, |among| {
                let few = if among.reads.is_some_and(|reads| reads < READS_OF_A_P99) { "*" } else { "" };
                time(among.p99_ns.mean) + few
            })
        };
        cells.push(p99(&candidate.among_readers));
        cells.push(p99(&candidate.among_writers));
        let shares = candidate.shares.as_ref().filter(|shares| shares.has_mechanism);
        cells.push(shares.map_or_else(|| "no".to_owned(), |shares| format!("1:{:.1}", shares.ratio.mean)));
        let mixed = findings.mixed(candidate);
        let percent = |part: Option<f64>| part.map_or_else(dash, |part| format!("{:.0} %", part * 100.0));
        // Settings that were tried on the best have some of the steps only, which compare with nothing.
        let is_whole = findings.candidates.iter().all(|it| findings.mixed(it).known().count() <= mixed.known().count());
        cells.extend([mixed.isolation(), mixed.work()].map(|part| percent(part.filter(|_| is_whole))));
    }
    let (score, mark) = scored(candidate, recommendation);
    cells.extend([score, mark]);
    cells
}

/// The score in the list that the candidate belongs to, the kernel's first.
fn scored(candidate: &CandidateFindings, recommendation: &Recommendation) -> (String, String) {
    let advices = [Some(&recommendation.kernel), recommendation.serve.as_ref()];
    let of = |advice: &Advice| -> Option<Score> {
        let scores = advice.scores.as_ref()?;
        scores.scores.iter().find(|score| score.spec.to_string() == candidate.spec).cloned()
    };
    let score = advices.iter().copied().flatten().find_map(of);
    let marks: Vec<&str> = advices
        .iter()
        .copied()
        .flatten()
        .filter(|advice| advice.spec.to_string() == candidate.spec)
        .map(|advice| match (advice.runs_in, advice.verdict) {
            (RunsIn::Serve, _) => "<- hoistway serve",
            (_, Verdict::Change) => "<- recommended",
            _ => "<- stays",
        })
        .collect();
    let text = match score {
        Some(Score { dropped: Some(why), .. }) if why.starts_with("waits") => "waits".to_owned(),
        Some(Score { dropped: Some(_), .. }) => "too slow".to_owned(),
        Some(score) => format!("{:.2}", score.total),
        None => "-".to_owned(),
    };
    (text, marks.join("  "))
}

fn advice(text: &mut String, name: &str, recommendation: &Recommendation, advice: &Advice, device: &Device) {
    let _ = write!(text, "\n{name} (goal: {}): ", recommendation.goal);
    let outcome = match advice.verdict {
        Verdict::Change => advice.spec.to_string(),
        Verdict::Keep => format!("keep {}", advice.spec),
        Verdict::Inconclusive => format!("inconclusive, keep {}", advice.spec),
        Verdict::Nothing => "no settings available".to_owned(),
    };
    let _ = writeln!(text, "{outcome}");
    let width = |of: &dyn Fn(&hoistway_tune::Item) -> usize| advice.items.iter().map(of).max().unwrap_or(0);
    let change = |item: &hoistway_tune::Item| {
        if item.old.is_empty() { item.new.clone() } else { format!("{} -> {}", item.old, item.new) }
    };
    let (settings, changes) = (width(&|item| item.setting.len()), width(&|item| change(item).len()));
    for item in &advice.items {
        let confidence = format!("{:?}", item.confidence).to_lowercase();
        let _ = writeln!(
            text,
            "  {:<settings$}  {:<changes$}  {} ({confidence}): {}",
            item.setting,
            change(item),
            item.rule,
            item.evidence
        );
        if !item.unless.is_empty() {
            let _ = writeln!(text, "  {:<settings$}  {:<changes$}  {}", "", "", item.unless);
        }
    }
    if advice.runs_in == RunsIn::Kernel && advice.spec.name == "bfq" && device.wbt_lat_us.is_some_and(|us| us > 0) {
        let _ = writeln!(text, "  wbt_lat_usec is off while bfq is active; the kernel does that");
    }
    for left in &advice.left {
        let what = if advice.runs_in == RunsIn::Serve { "not chosen" } else { "not changed" };
        let _ = writeln!(text, "  {what}: {left}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words_and_rows_are_not() {
        let text = "  not changed: one two three four\nmq-deadline     256.0 MB/s      44669/s   20.9 ms\nnote: a b\n";
        let wrapped = wrapped(text, 20);
        assert_eq!(
            wrapped,
            "  not changed: one\n    two three four\nmq-deadline     256.0 MB/s      44669/s   20.9 ms\nnote: a b\n"
        );
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!((size(250_059_350_016), size(8_001_563_222_016)), ("250.1 GB".into(), "8.0 TB".into()));
        assert_eq!(
            (time(263_000.0), time(8_100_000.0), time(412e6)),
            ("263 us".into(), "8.1 ms".into(), "412 ms".into())
        );
    }
}
