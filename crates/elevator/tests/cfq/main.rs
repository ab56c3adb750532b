//! cfq: the cases of docs/specifications/cfq.md, section 19, under their numbers. Cases 50 to 52,
//! about the two-level schedulers, are in `tests/cfq_two_level.rs`.

mod first;
mod groups;
mod host;
mod late;
mod model;
mod preemption;
mod queues;
mod quirks;
mod slices;
mod tree;
mod turns;

#[test]
fn the_page_shows_the_tunables() {
    hoistway_testbed::check_tunables_table("cfq");
}
