//! Tables of tunables in the documents, generated from the rows.

use hoistway_elevator::tunable::{Tunable, Unit};
use hoistway_elevator::{Configuration, Elevator, registry};
use std::path::PathBuf;

const BEGIN: &str = "<!-- tunables: generated, HOISTWAY_BLESS=1 cargo test rewrites -->\n";
const END: &str = "<!-- tunables end -->\n";

/// Compares the table in `docs/elevators/<name>.md` with the policy's rows; with `HOISTWAY_BLESS=1`
/// rewrites it.
///
/// # Panics
/// If the page is missing, has no place for the table, or the table is out of date.
pub fn check_tunables_table(policy: &str) {
    let built = registry::build(policy, None, &Configuration::default());
    let rows = built.unwrap_or_else(|error| panic!("{policy}: {error:?}")).tunables();
    check_table(&format!("elevators/{policy}.md"), rows);
}

/// As [`check_tunables_table`], for any page below `docs` and any rows.
///
/// # Panics
/// As [`check_tunables_table`].
pub fn check_table(page: &str, rows: &[Tunable]) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", page].iter().collect();
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (Some(begin), Some(end)) = (page.find(BEGIN), page.find(END)) else {
        panic!("{} has no lines {BEGIN:?} and {END:?} for the table", path.display());
    };
    let begin = begin + BEGIN.len();
    let table = table(rows);
    if page.get(begin..end) == Some(&table) {
        return;
    }
    assert!(
        std::env::var_os("HOISTWAY_BLESS").is_some(),
        "the table in {} is stale: HOISTWAY_BLESS=1 cargo test rewrites it to\n{table}",
        path.display()
    );
    let blessed = format!("{}{table}{}", page.get(..begin).unwrap_or(""), page.get(end..).unwrap_or(""));
    std::fs::write(&path, blessed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn table(rows: &[Tunable]) -> String {
    if rows.is_empty() {
        return "None.\n".into();
    }
    let mut text = String::from("| tunable | unit | range | default | meaning |\n| --- | --- | --- | --- | --- |\n");
    for row in rows {
        let unit = match row.unit {
            Unit::Count => "count",
            Unit::Boolean => "0 or 1",
            Unit::Choice(_) => "word",
            unit => unit.text(),
        };
        let shown = |value: i64| row.word(value).map_or_else(|| value.to_string(), str::to_owned);
        let default = row.default.map_or_else(|| "from the queue".into(), shown);
        let range = Tunable { unit: if row.word(0).is_some() { row.unit } else { Unit::Count }, ..*row };
        text += &format!("| `{}` | {unit} | {} | {default} | {} |\n", row.name, range.allowed(), row.doc);
    }
    text
}
