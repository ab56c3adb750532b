//! The results as text: the table mechanism x desideratum, priority against utilisation, every
//! cell.

use super::desideratum::Desideratum;
use super::document::{CellResult, CellRow, Document, MechanismRow, Verdict};
use super::plan::Plan;
use crate::columns::grid;

/// What the marks of figures mean.
pub const MARKS: &str = "±: half of the 95 % interval of the mean; *: the steady state was not reached in every repetition, so that the \
     last five rounds count; ?: the interval contains a limit of the verdict; >: it did not happen within some repetition";

/// The plan: cells with their times, mechanisms with their settings.
pub fn plan(plan: &Plan, target: &str) -> String {
    let mut rows = vec![["cell", "desideratum", "tenants", "ramp ms", "rounds", "of ms"].map(str::to_owned).to_vec()];
    rows.extend(plan.cells.iter().map(|cell| {
        let ms = |ns: u64| (ns / 1_000_000).to_string();
        let ramp = ms(cell.ramp_ns + cell.returns_ns);
        let title = cell.desideratum.title().to_owned();
        vec![cell.name.clone(), title, cell.groups.len().to_string(), ramp, cell.rounds.to_string(), ms(cell.round_ns)]
    }));
    let mut mechanisms = vec![["mechanism", "settings"].map(str::to_owned).to_vec()];
    for (number, mechanism) in plan.mechanisms.iter().enumerate() {
        let refusal = plan.refusals.iter().find(|((_, other), _)| *other == number);
        let refusal = refusal.map_or_else(String::new, |(_, refusal)| format!("; not everywhere: {refusal}"));
        mechanisms.push(vec![mechanism.name.clone(), format!("{}{refusal}", mechanism.describe())]);
    }
    format!(
        "{}\n{}\n{} repetitions on {target}, seed {}: {} runs in random order\n",
        grid(&rows),
        grid(&mechanisms),
        plan.repetitions,
        plan.seed,
        plan.count()
    )
}

/// All of it.
pub fn text(document: &Document) -> String {
    let mut text = format!("{}\n", grid(&verdicts(document)));
    for column in &document.desiderata {
        text.push_str(&format!("  {}: {}\n", column.title, column.rule));
    }
    text.push_str(&format!("  {MARKS}\n"));
    for row in document.mechanisms.iter().filter_map(|row| Some((row, missing(row)?))) {
        text.push_str(&format!("  {}: {}\n", row.0.name, row.1));
    }
    for note in notes(document) {
        text.push_str(&format!("  {note}\n"));
    }
    for cell in &document.cells {
        text.push_str(&format!("\n{}: {}\n{}", cell.desideratum.title(), cell.name, grid(&cell_rows(cell))));
    }
    text
}

/// What was done before and how often, line by line.
pub fn notes(document: &Document) -> Vec<String> {
    let Document {
        repetitions,
        seed,
        host,
        target,
        preconditioning,
        overhead_machine,
        cost_model,
        overhead_cost_model,
        complete,
        ..
    } = document;
    let mut notes = vec![
        format!("{repetitions} repetitions in random order, seed {seed}, on {target} ({host})"),
        format!("preconditioning: {preconditioning}"),
        steadiness(document),
    ];
    if document.desiderata.iter().any(|column| column.name == Desideratum::LowOverhead) {
        let machine = if overhead_machine.is_empty() { "the default" } else { overhead_machine };
        notes.push(format!("overhead on {}, computer: {machine}", document.overhead_target));
    }
    for (of, model) in [("", cost_model), (" for the cells of the overhead", overhead_cost_model)] {
        if !model.is_empty() {
            let values: Vec<String> = model.iter().map(|it| format!("{}={}", it.name, it.value)).collect();
            notes.push(format!("io.cost set to what was measured before{of}: {}", values.join(" ")));
        }
    }
    if !complete {
        notes.push(
            "not complete: a signal ended the runs, so that figures have fewer repetitions, and cells may be missing"
                .to_owned(),
        );
    }
    notes
}

/// In how many runs the steady state was reached, and when.
fn steadiness(document: &Document) -> String {
    let settings = document.cells.iter().flat_map(|cell| &cell.results).flat_map(|result| &result.settings);
    let first = settings.filter_map(|setting| setting.figures.first());
    let (mut runs, mut steady, mut latest) = (0, 0, 0);
    for figure in first {
        (runs, steady) = (runs + figure.n, steady + figure.steady);
        latest = latest.max(figure.steady_from_round.unwrap_or(0));
    }
    format!(
        "steady state (five rounds within 20 %, slope within 10 %) in {steady} of {runs} runs, at the latest with round {latest}"
    )
}

/// Why a mechanism has no verdict, or not in all cells.
fn missing(row: &MechanismRow) -> Option<String> {
    if let Some(refusal) = &row.unavailable {
        return Some(format!("cannot run here: {refusal}"));
    }
    let refusal = row.verdicts.iter().find_map(|verdict| verdict.refusal.as_ref());
    refusal.map(|refusal| format!("cannot run in some cells here: {refusal}"))
}

/// The table mechanism x desideratum, with its head.
pub fn verdicts(document: &Document) -> Vec<Vec<String>> {
    let head = document.desiderata.iter().map(|column| column.title.to_owned());
    let mut rows = vec![std::iter::once("mechanism".to_owned()).chain(head).collect::<Vec<_>>()];
    for row in &document.mechanisms {
        let cells: Vec<String> = match &row.unavailable {
            Some(_) => document.desiderata.iter().map(|_| "cannot run here".to_owned()).collect(),
            None => row.verdicts.iter().map(verdict).collect(),
        };
        rows.push(std::iter::once(row.name.clone()).chain(cells).collect());
    }
    rows
}

/// A verdict with its worst figure and the number of cells that are met: `partly 3/5, 12.1 ±0.4 %`.
fn verdict(verdict: &Verdict) -> String {
    match (verdict.score, &verdict.figure) {
        (Some(score), Some(figure)) => {
            format!("{} {}/{}, {}", score.word(), verdict.met_cells, verdict.cells, figure.text())
        }
        _ => "cannot run here".to_owned(),
    }
}

/// A cell: a row for each mechanism, or for each setting where several were tried.
pub fn cell_rows(cell: &CellRow) -> Vec<Vec<String>> {
    let figures = cell.results.iter().flat_map(|result| &result.settings).map(|setting| &setting.figures);
    // The order of figures may differ, because the judged one comes first.
    let mut names: Vec<&str> = figures.clone().next().into_iter().flatten().map(|figure| figure.name).collect();
    names.sort_by_key(|name| name.len() > 40);
    let is_front = cell.desideratum == Desideratum::Priority;
    let mut head = vec!["mechanism".to_owned()];
    head.extend(is_front.then(|| "setting".to_owned()));
    head.extend(names.iter().map(|name| (*name).to_owned()));
    head.extend(is_front.then(|| "front".to_owned()));
    head.push("verdict".to_owned());
    let mut rows = vec![head];
    for result in &cell.results {
        if let Some(refusal) = &result.refusal {
            rows.push(vec![result.mechanism.clone(), format!("cannot run here: {refusal}")]);
        }
        for (index, setting) in result.settings.iter().enumerate() {
            let mut row = vec![result.mechanism.clone()];
            row.extend(
                is_front.then(|| if setting.setting.is_empty() { "-".to_owned() } else { setting.setting.clone() }),
            );
            row.extend(names.iter().map(|name| {
                let figure = setting.figures.iter().find(|figure| figure.name == *name);
                figure.map_or_else(|| "-".to_owned(), super::document::Figure::text)
            }));
            row.extend(setting.is_on_front.map(|is_there| if is_there { "yes" } else { "-" }.to_owned()));
            row.push(score(result, index));
            rows.push(row);
        }
    }
    rows
}

/// The score, at the setting that decides.
fn score(result: &CellResult, setting: usize) -> String {
    let is_deciding = result.decided_by == Some(setting);
    result.score.filter(|_| is_deciding).map_or_else(String::new, |score| score.word().to_owned())
}
