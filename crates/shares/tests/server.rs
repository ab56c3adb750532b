//! The example runs: it asserts what it shows.

#[path = "../examples/blocking_server.rs"]
mod blocking_server;

#[test]
fn threads_share_a_server_and_end() {
    blocking_server::main();
}
