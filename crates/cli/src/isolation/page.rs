//! The results as a page.

use hoistway_report::page::isolation::{self, Front, FrontMark, FrontSeries, IsolationPage, Table};

use hoistway_study::isolation::desideratum::{Desideratum, FULL_UTILISATION, ONE_REQUEST_AHEAD};
use hoistway_study::isolation::document::{CellRow, Document, SettingRow};
use hoistway_study::isolation::show;

/// The page.
pub fn html(document: &Document) -> String {
    let mut notes = show::notes(document);
    notes.push(show::MARKS.to_owned());
    let rules = document.desiderata.iter().map(|column| vec![column.title.to_owned(), column.rule.to_owned()]);
    let head = vec!["desideratum".to_owned(), "figure and limit".to_owned()];
    let settings = document.mechanisms.iter().map(|row| {
        let unavailable = row.unavailable.as_ref().map_or_else(String::new, |why| format!("; cannot run here: {why}"));
        vec![row.name.clone(), format!("{}{unavailable}", row.settings)]
    });
    let settings_head = vec!["mechanism".to_owned(), "settings".to_owned()];
    let mut tables = vec![
        Table { heading: "Limits".to_owned(), rows: std::iter::once(head).chain(rules).collect() },
        Table { heading: "Mechanisms".to_owned(), rows: std::iter::once(settings_head).chain(settings).collect() },
    ];
    tables.extend(document.cells.iter().map(|cell| Table {
        heading: format!("{}: {}", cell.desideratum.title(), cell.name),
        rows: show::cell_rows(cell),
    }));
    let fronts = document.cells.iter().filter(|cell| cell.desideratum == Desideratum::Priority).map(front);
    isolation::html(&IsolationPage {
        title: document.scenario.clone(),
        notes,
        verdicts: show::verdicts(document),
        fronts: fronts.collect(),
        tables,
    })
}

fn front(cell: &CellRow) -> Front {
    let mark = |name: &str, setting: &SettingRow| {
        let (latency, utilisation) = (setting.figures.first()?, setting.figures.get(1)?);
        Some(FrontMark {
            latency_ratio: latency.mean,
            utilisation: utilisation.mean,
            is_on_front: setting.is_on_front.unwrap_or(false),
            hint: format!("{name} {}: p99 {}, throughput {}", setting.setting, latency.text(), utilisation.text()),
        })
    };
    let series = cell.results.iter().map(|result| FrontSeries {
        name: result.mechanism.clone(),
        marks: result.settings.iter().filter_map(|setting| mark(&result.mechanism, setting)).collect(),
    });
    Front {
        title: cell.name.clone(),
        met: (ONE_REQUEST_AHEAD, FULL_UTILISATION * 100.0),
        series: series.filter(|series| !series.marks.is_empty()).collect(),
    }
}
