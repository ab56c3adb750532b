//! bfq: the cases of docs/specifications/bfq.md, section 25, under their numbers, as far as a host
//! can observe them. Cases about internals (the code of the B-WF2Q+ algorithm, budgets, rates) are
//! inside the crate, in `src/bfq/tests`; cases 43 to 52 are in `tests/bfq_table`.

mod actuators;
mod budgets;
mod host;
mod merging;
mod plugging;
mod raising;
mod settings;

#[test]
fn the_page_shows_the_tunables() {
    hoistway_testbed::check_tunables_table("bfq");
}
