//! JSON and CSV: the layouts of docs/specifications/harness.md, sections 5.7, 5.8 and 7.1.

mod example;

use example::Example;
use hoistway_report::{csv, fio_json, json};
use serde_json::Value;

#[test]
fn the_result_has_the_keys_of_schema_1() {
    let example = Example::new(5, &[1, 4], 3);
    let document = json::result(&example.results()).document();
    let json: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((json["schema"].as_u64(), json["host"].as_str()), (Some(1), Some("simulator")));
    assert_eq!(json["started"], "2026-11-20T09:50:12Z");
    assert_eq!(json["groups"][2]["weight"], 400);
    let cell = json["cells"].as_array().unwrap().iter().find(|cell| cell["sched"] == "bfq" && cell["nr"] == 4).unwrap();
    assert_eq!((&cell["tunables"]["low_latency"], &cell["sets"]), (&Value::from("0"), &Value::from(3)));
    assert_eq!(cell["tunables_in_force"]["low_latency"]["default"], false);
    assert!(cell["total"]["bw_bytes"]["ci95"].as_f64().unwrap() > 0.0);
    assert!((cell["groups"][2]["due"].as_f64().unwrap() - 4.0 / 7.0).abs() < 1e-5);
    assert!(cell["groups"][0]["lat_ns"]["read"]["p999"].as_f64() > cell["groups"][0]["lat_ns"]["read"]["p50"].as_f64());
    assert_eq!(json["assertions"][0]["ok"], true);
}

#[test]
fn one_set_has_a_null_interval() {
    let json: Value = serde_json::from_str(&json::result(&Example::new(1, &[1], 1).results()).document()).unwrap();
    assert!(json["cells"][0]["total"]["bw_bytes"]["ci95"].is_null());
}

#[test]
fn equal_measurements_give_equal_bytes() {
    let document = || json::result(&Example::new(3, &[1], 2).results()).document();
    assert_eq!(document(), document());
}

#[test]
fn a_run_reads_back_as_fios_output() {
    let example = Example::new(5, &[2], 1);
    let results = example.results();
    let run = results.measurements.iter().find(|run| run.scheduler.name == "wfq").unwrap();
    let jobs = fio_json::read(&json::fio(&results, [run]).document()).unwrap();
    let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["bronze", "silver", "gold"]);
    let (gold, measured) = (&jobs[2].read, &run.groups[2].read);
    assert_eq!((gold.total_ios, gold.bytes_per_s), (measured.ios, (measured.bytes / 20) as f64));
    let histogram = gold.lat.histogram.as_ref().unwrap();
    assert_eq!(histogram.bins().collect::<Vec<_>>(), measured.latency.bins().collect::<Vec<_>>());
    let p99 = gold.lat.percentiles_ns.iter().find(|(percent, _)| *percent == 99.0).unwrap().1;
    assert_eq!(p99, measured.latency.percentile_unclamped_ns(99.0) as f64);
    assert_eq!((jobs[0].write.total_ios, jobs[0].write.lat.histogram.clone()), (0, None));
}

/// The keys of fio 3.33 in their order, once through `jobs`.
const KEYS: &str = "fio version,timestamp,timestamp_ms,time,jobs,jobname,groupid,error,eta,elapsed,job options,read,io_bytes,\
    io_kbytes,bw_bytes,bw,iops,runtime,total_ios,short_ios,drop_ios,slat_ns,clat_ns,lat_ns,bw_min,bw_max,\
    bw_agg,bw_mean,bw_dev,bw_samples,iops_min,iops_max,iops_mean,iops_stddev,iops_samples,write,trim,sync,\
    job_runtime,usr_cpu,sys_cpu,ctx,majf,minf,iodepth_level,iodepth_submit,iodepth_complete,latency_ns,\
    latency_us,latency_ms,latency_depth,latency_target,latency_percentile,latency_window,hoistway,disk_util,\
    read_ticks,util";

#[test]
fn a_run_has_fios_keys_in_fios_order() {
    let example = Example::new(1, &[1], 1);
    let results = example.results();
    let document = json::fio(&results, [&results.measurements[0]]).document();
    let mut at = 0;
    for key in KEYS.split(',') {
        let quoted = format!("\"{key}\": ");
        at += document[at..].find(&quoted).unwrap_or_else(|| panic!("{key} is missing or out of order")) + quoted.len();
    }
    assert!(document.contains("\"time\": \"Fri Nov 20 09:50:12 2026\""));
    let json: Value = serde_json::from_str(&document).unwrap();
    let classes = &json["jobs"][0];
    let sum: f64 = ["latency_ns", "latency_us", "latency_ms"]
        .iter()
        .flat_map(|key| classes[key].as_object().unwrap().values())
        .map(|percent| percent.as_f64().unwrap())
        .sum();
    assert!((sum - 100.0).abs() < 0.001, "classes add up to {sum} %");
}

#[test]
fn csv_has_a_row_per_run_group_and_direction() {
    let example = Example::new(2, &[1, 2], 3);
    let text = csv::table(&example.results(), &[50.0, 99.9, 100.0]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "run_id,set,workload,sched,tunables,nr,group,weight,dir,bw_bytes,iops,ios,errors,lat_mean_ns,lat_p50_ns,lat_p999_ns,lat_max_ns,share,due,share_error,isolation,flags"
    );
    // 2 schedulers x 2 thread counts x 3 sets x (3 groups + total), reads only
    assert_eq!(lines.len(), 1 + 2 * 2 * 3 * 4);
    assert!(lines.iter().all(|line| line.matches(',').count() == 21));
    assert!(lines[1].starts_with("drr/none/nr1/set1,1,drr,none,,1,bronze,100,read,"), "{}", lines[1]);
    // Without weights each of 100, 200 and 400 gets a third: the first much more than its due
    // share, the last less.
    let error = |line: &str| line.split(',').nth(19).unwrap().parse::<f64>().unwrap();
    assert!(error(lines[1]) > 1.0 && error(lines[3]) < -0.3 && error(lines[4]) == error(lines[1]), "{text}");
    let samples = csv::samples(&example.results().measurements[0]);
    assert_eq!(samples.lines().count(), 1 + 3 * 20);
}
