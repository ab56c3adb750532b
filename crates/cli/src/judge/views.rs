//! `--format text|json|html|figure[=FILE]` of judged cells.

use std::path::PathBuf;

use hoistway_report::page::verdicts::{self, VerdictDot, VerdictPanel, Verdicts};

use crate::exit::Error;
use crate::formats;
use crate::run_test::arguments::ShowArguments;
use hoistway_study::judge::cell_verdict::CellVerdict;
use hoistway_study::judge::runs::Plan;
use hoistway_study::judge::verdict::Verdict;
use hoistway_study::judge::{json, show};

const FORMATS: [(&str, Format); 4] =
    [("text", Format::Text), ("json", Format::Json), ("html", Format::Html), ("figure", Format::Figure)];

/// The verdicts in the order of their marks.
const VERDICTS: [&str; 4] = ["exact", "bound", "dominated", "lost"];

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
    Html,
    Figure,
}

/// Where each format is written.
#[derive(Debug)]
pub struct Views(Vec<(Format, Option<PathBuf>)>);

impl Views {
    /// Parses the arguments; paths that cannot be written are detected before the runs.
    pub fn read(arguments: &ShowArguments) -> Result<Self, Error> {
        formats::read(arguments, &FORMATS, "verdicts").map(Self)
    }

    /// Prints and writes all formats.
    pub fn show(&self, plan: &Plan, title: &str, cells: &[CellVerdict], complete: bool) -> Result<(), Error> {
        formats::write(&self.0, |format| match format {
            Format::Text => format!("{}\n{}", show::table(plan, cells), show::summary(plan, cells)),
            Format::Json => json::document(plan, title, cells, complete),
            Format::Html => verdicts::html(&verdicts_page(plan, title, cells)),
            Format::Figure => verdicts::figure(&verdicts_page(plan, title, cells)),
        })
    }
}

fn verdicts_page(plan: &Plan, title: &str, cells: &[CellVerdict]) -> Verdicts {
    let mut panels = Vec::new();
    for (index, spec) in plan.schedulers[..plan.judged_schedulers].iter().enumerate() {
        for (medium, is_rotational) in show::MEDIA {
            let of_medium = cells.iter().filter(|cell| cell.cell.is_rotational == is_rotational);
            let dots: Vec<VerdictDot> = of_medium.map(|cell| dot(plan, cell, index)).collect();
            if !dots.is_empty() {
                panels.push(VerdictPanel { title: format!("{spec} on {medium}: {} cells", dots.len()), dots });
            }
        }
    }
    let mut tables = show::summaries(plan, cells);
    tables.push(show::rows(plan, cells));
    let lead = format!(
        "{} cells, {} schedulers, seeds {}; simulated.",
        cells.len(),
        plan.schedulers.len(),
        plan.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    );
    let verdicts = VERDICTS.map(str::to_owned).to_vec();
    Verdicts { title: title.to_owned(), lead, verdicts, panels, tables }
}

fn dot(plan: &Plan, cell: &CellVerdict, scheduler: usize) -> VerdictDot {
    let field = &cell.field;
    let score = &field.scores[scheduler];
    let verdict = match field.judge(score) {
        Verdict::Exact => 0,
        Verdict::Bound => 1,
        Verdict::Dominated(_) => 2,
        Verdict::Lost => 3,
    };
    let (error, throughput) = (score.error * 100.0, field.part_of_none(score) * 100.0);
    let said = show::verdict(plan, field, score);
    let hint = format!("{}: {throughput:.1} % of none, {error:.1} % error, {said}", cell.cell.name);
    VerdictDot { verdict, error, throughput, hint }
}
