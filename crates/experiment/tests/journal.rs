//! Journals: records are read back, incomplete ones are repeated.

mod example;

use std::fs;
use std::io::Write;

use example::measured;
use hoistway_experiment::Measurement;
use hoistway_experiment::journal::{Journal, JournalError, missing, read};

fn runs() -> Vec<Measurement> {
    (1..=3).map(|set| measured("bfq:low_latency=0", 2, set, &[7, 9], 1234)).collect()
}

#[test]
fn a_journal_reads_back_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    let runs = runs();
    Journal::create(&path, 0xfeed_0000_0000_0001).unwrap().append(&runs[0]).unwrap();
    let (mut journal, found) = Journal::resume(&path, 0xfeed_0000_0000_0001).unwrap();
    assert_eq!(found, runs[..1]);
    journal.append(&runs[1]).unwrap();
    assert_eq!(read(&path).unwrap(), runs[..2]);
    let plan = runs.iter().map(|run| run.experiment.clone()).collect();
    assert_eq!(missing(plan, &runs[..2]), [runs[2].experiment.clone()]);
}

#[test]
fn a_torn_last_line_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    let runs = runs();
    Journal::create(&path, 1).unwrap().append(&runs[0]).unwrap();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"experiment\":{\"tar").unwrap();
    let (mut journal, found) = Journal::resume(&path, 1).unwrap();
    assert_eq!(found, runs[..1]);
    journal.append(&runs[1]).unwrap();
    assert_eq!(read(&path).unwrap(), runs[..2]);
}

#[test]
fn another_plan_and_a_damaged_line_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    drop(Journal::create(&path, 1).unwrap());
    assert!(matches!(Journal::resume(&path, 2), Err(JournalError::OtherPlan { .. })));
    assert!(
        matches!(Journal::create(&path, 1), Err(JournalError::Io { .. })),
        "an existing journal is not overwritten"
    );
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"nonsense\n").unwrap();
    assert!(matches!(Journal::resume(&path, 1), Err(JournalError::Damaged { line: 2, .. })));
}

/// Endless files, pipes without a writer and files without lines are refused before they are read.
#[test]
fn what_is_no_journal_is_not_read_on_and_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::File::create(path("sparse")).unwrap().set_len(1 << 30).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    let said = |name: &str| read(&path(name)).unwrap_err().to_string();
    assert!(said("sparse").contains("longer than 4096 bytes"), "{}", said("sparse"));
    for name in ["zero", "fifo"] {
        assert!(said(name).contains("it is no regular file"), "{}", said(name));
        assert!(Journal::resume(&path(name), 1).is_err());
    }
}
