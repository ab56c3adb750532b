//! The fuzzer finds what is planted: a run of it that finds nothing is worth something only then.

use std::process::Command;

#[test]
fn the_canary_is_found_shortened_and_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    let found = Command::new(env!("CARGO_BIN_EXE_hoistway-fuzz"))
        .arg("canary")
        .current_dir(directory.path())
        .output()
        .expect("the fuzzer starts");
    let text = String::from_utf8_lossy(&found.stdout);
    assert_eq!(found.status.code(), Some(1), "{text}");
    assert!(text.contains(r#"b"canary""#), "its six letters: {text}");
}
