//! The examples of embedding run: each asserts what it shows.

#[path = "../examples/share_a_file.rs"]
mod share_a_file;
#[path = "../examples/two_tasks.rs"]
mod two_tasks;

#[test]
fn two_tasks_share_a_store() {
    two_tasks::main();
}

#[test]
fn two_tenants_share_a_file() {
    share_a_file::main().expect("the engine runs");
}
