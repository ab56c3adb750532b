//! A server started by flags alone whose exports and limits are the operator's business.

#[path = "served/mod.rs"]
mod served;

use serde_json::Value;
use served::{Served, directory, hoistway, run_command, sparse_file, succeed};

fn answer(served: &Served, arguments: &[&str]) -> Value {
    let (text, code) = served.ctl(arguments);
    assert_eq!(code, Some(0), "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["ok"].clone()
}

fn size(served: &Served, export: &str) -> String {
    let output = run_command(std::process::Command::new("nbdinfo").args(["--size", &served.uri(export)]));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn exports_are_added_grown_and_removed_by_ctl() {
    if !served::requires("exports_are_added_grown_and_removed_by_ctl", &["nbdinfo"]) {
        return;
    }
    let served = Served::flags(directory(), &["--export", "a=memory:1MiB"]);
    sparse_file(&served.path("b.img"), 1 << 20);
    let export = format!("b={},weight=300", served.path("b.img").display());
    assert_eq!(answer(&served, &["export", "add", &export])["lasts"], "until the end of the server");
    assert_eq!(size(&served, "b"), "1048576");
    sparse_file(&served.path("b.img"), 2 << 20);
    assert_eq!(answer(&served, &["resize", "b"])["size_bytes"], 2 << 20);
    assert_eq!(size(&served, "b"), "2097152");
    assert_eq!(answer(&served, &["export", "remove", "b"])["connected"], 0);
    assert_eq!(size(&served, "b"), "", "it is gone");
    let (text, code) = served.ctl(&["export", "remove", "a"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("a is the last export of the device default"), "{text}");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn flags_give_limits_and_settings_that_check_shows_as_a_file() {
    let flags = [
        "--export",
        "a=memory:1MiB,weight=300",
        "--group",
        "a,read_bps_max=50MiB,io.latency=target=5000",
        "--device",
        "threads=2,cache=page",
        "--drain-timeout-s",
        "5",
        "--nbd",
        "unix:/run/x.sock,mode=0666,max_connections=8",
    ];
    let shown = run_command(hoistway().args(["serve", "--check"]).args(flags));
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in [
        "drain_timeout_s = 5",
        "threads = 2",
        "cache = \"page\"",
        "weight = 300",
        "\"rbps=52428800 wbps=max riops=max wiops=max\"",
        "\"target=5000\"",
        "mode = \"0666\"",
        "max_connections = 8",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    let served =
        Served::flags(directory(), &["--export", "a=memory:1MiB,weight=300", "--group", "a,read_bps_max=50MiB"]);
    let groups = served.status()["groups"].clone();
    assert_eq!(groups[0]["weight"], 300, "{groups}");
    let help = succeed(env!("CARGO_BIN_EXE_hoistway"), &["serve", "--help"]);
    assert!(help.contains("--group <PATH[,OPTION...]>"), "{help}");
}
