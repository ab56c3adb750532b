//! Parsing fio's output: case 22 of docs/specifications/harness.md, section 13, and section 7.2.

use hoistway_report::fio_json::{FioError, read};

const DIRECTION: &str = r#"{"bw_bytes": 4096000, "iops": 1000.0, "total_ios": 30000,
 "lat_ns": {"min": 5, "max": 900, "mean": 80.5, "percentile": {"50.000000": 70, "99.000000": 700}, "bins": {"70": 2}},
 "clat_ns": {"min": 4, "max": 800, "mean": 60.5}}"#;
const NOTHING: &str = r#"{"bw_bytes": 0, "iops": 0.0, "total_ios": 0}"#;

fn document(error: i32) -> String {
    format!(
        "{{\n  \"fio version\": \"fio-3.33\",\n  \"jobs\": [\n  {{\"jobname\": \"a \\\"b\\\" }}\", \"groupid\": 1, \"error\": {error}, \"read\": {DIRECTION}, \"write\": {NOTHING} }}\n]}}\n"
    )
}

fn message(text: &str) -> String {
    match read(text) {
        Err(FioError::Unreadable(diagnostic)) => diagnostic.message,
        other => panic!("{other:?}"),
    }
}

/// Case 22: a note before the document and the human-readable report after it are skipped.
#[test]
fn t22_notes_and_the_human_report_are_skipped() {
    let text = format!(
        "note: both iodepth >= 1 and synchronous {{\n{}\na: (groupid=0): {{err= 0\n  read: IOPS=1\n",
        document(0)
    );
    let jobs = read(&text).unwrap();
    let job = &jobs[0];
    assert_eq!((jobs.len(), job.name.as_str(), job.group), (1, "a \"b\" }", 1));
    assert_eq!((job.read.bytes_per_s, job.read.total_ios, job.write.total_ios), (4_096_000.0, 30_000, 0));
    assert_eq!(job.read.lat.percentiles_ns, [(50.0, 70.0), (99.0, 700.0)]);
    assert_eq!((job.read.lat.mean_ns, job.read.clat.mean_ns), (80.5, 60.5));
    assert_eq!(job.read.lat.histogram.as_ref().unwrap().count(), 2);
}

/// Case 22: a truncated document is an error that names the position.
#[test]
fn t22_a_truncated_document_names_the_place() {
    let whole = document(0);
    let cut = &whole[..whole.find("\"bins\"").unwrap()];
    assert_eq!(
        message(cut),
        format!("fio output ends at byte {} inside \"jobs[0].read.lat_ns.percentile\"", cut.len())
    );
}

/// Truncated anywhere: never a panic, never a result.
#[test]
fn t22_no_cut_is_taken_for_a_whole_document() {
    let whole = document(0);
    for length in 0..whole.trim_end().len() {
        assert!(read(&whole[..length]).is_err(), "cut at {length}");
    }
    read(whole.trim_end()).unwrap();
}

/// Of several documents the last complete one counts.
#[test]
fn the_last_complete_document_counts() {
    let later = document(0).replace("30000", "60000");
    let text = format!("{}{later}{}", document(0), &document(0)[..200]);
    assert_eq!(read(&text).unwrap()[0].read.total_ios, 60_000);
}

/// A job with an error makes the whole run fail, with the reason.
#[test]
fn a_failed_job_is_a_failed_run() {
    let Err(FioError::JobFailed(diagnostic)) = read(&document(28)) else { panic!("accepted") };
    assert!(diagnostic.message.contains("No space left on device"), "{}", diagnostic.message);
}

/// fio 2: keys without a unit are in microseconds, bandwidth is in KiB/s.
#[test]
fn the_form_before_fio_3_is_understood() {
    let direction = r#"{"bw": 4000, "iops": 1000.0, "total_ios": 5, "lat": {"min": 5, "max": 900, "mean": 80.5, "percentile": {"50.000000": 70}}}"#;
    let text = format!(
        "{{\n\"jobs\": [{{\"jobname\": \"old\", \"error\": 0, \"read\": {direction}, \"write\": {direction}}}]}}"
    );
    let job = read(&text).unwrap().remove(0);
    assert_eq!((job.read.bytes_per_s, job.read.lat.mean_ns), (4_096_000.0, 80_500.0));
    assert_eq!(job.read.lat.percentiles_ns, [(50.0, 70_000.0)]);
}

/// A missing key is named with its path.
#[test]
fn missing_keys_are_named() {
    assert_eq!(message("fio: nothing"), "fio output has no line '{': there is no JSON in it");
    assert_eq!(message("{\n}"), "fio output has no jobs[]");
    let text = document(0).replace("\"total_ios\": 30000", "\"x\": 1");
    assert_eq!(message(&text), "fio output has no jobs[0].read.total_ios");
}

/// A document on a single line (as written by jq -c) is accepted; one without jobs is reported as
/// empty, not as invalid JSON.
#[test]
fn a_document_on_one_line_is_read_and_an_empty_one_is_refused() {
    let text = document(0).replace('\n', " ").replace(" : ", ":");
    assert_eq!(read(&format!("note: {{\n{}\n", text.trim())).unwrap()[0].read.total_ios, 30_000);
    for empty in ["{\"jobs\":[]}", "{\n  \"jobs\" : [\n  ]\n}\n"] {
        assert_eq!(message(empty), "fio output has no results: its jobs[] is empty");
    }
}

/// Terse output of fio 3.33 for `--rw=randrw --ioengine=null --size=16m --number_ios=4000`.
#[test]
fn terse_lines_are_read() {
    let line = include_str!("terse.txt");
    assert!(hoistway_report::fio_terse::is_terse(line));
    let jobs = hoistway_report::fio_terse::read(line).unwrap();
    let job = &jobs[0];
    assert_eq!((jobs.len(), job.name.as_str()), (1, "t"));
    let fields: Vec<&str> = line.lines().last().unwrap().split(';').collect();
    for (direction, first) in [(&job.read, 6), (&job.write, 47)] {
        // Numbers as in the specification, from 1: 7 and 48 KiB/s, 8 and 49 IOPS, 30 and 71 the
        // 99th percentile.
        let field = |number: usize| fields[number - 1];
        assert_eq!(direction.bytes_per_s, field(first + 1).parse::<f64>().unwrap() * 1024.0);
        assert_eq!(direction.ios_per_s, field(first + 2).parse::<f64>().unwrap());
        let p99 = direction.clat.percentiles_ns.iter().find(|(percent, _)| *percent == 99.0).unwrap();
        assert_eq!(field(first + 24), format!("99.000000%={}", p99.1 / 1000.0));
    }
    let cut = line.lines().last().unwrap().split_at(300).0;
    assert!(hoistway_report::fio_terse::read(cut).is_err());
}
