//! The files of `packaging/` against the command: the sample configuration, the units, and that every
//! file of the packages exists. What needs packages or root is in `packaging/verify`.

mod served;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use served::{directory, hoistway, requires, run_command};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn packaging(name: &str) -> String {
    fs::read_to_string(root().join("packaging").join(name)).unwrap()
}

fn checked(configuration: &Path) -> String {
    let output = run_command(hoistway().args(["serve", "--check"]).arg(configuration));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_sample_configuration_holds_with_its_sockets_in_the_directory_of_the_unit() {
    let shown = checked(&root().join("packaging/serve.toml"));
    assert!(
        shown.contains("\"/run/hoistway/nbd.sock\"") && shown.contains("\"/run/hoistway/control.sock\""),
        "{shown}"
    );
    assert!(packaging("systemd/hoistway.socket").contains("\nListenStream=/run/hoistway/nbd.sock\n"));
    assert!(packaging("tmpfiles.conf").contains("\nd /run/hoistway 0755 hoistway hoistway\n"));
}

/// What an operator uncomments must be right as well.
#[test]
fn the_commented_part_of_the_sample_holds() {
    let is_toml = |line: &&str| line.starts_with('[') || line.contains(" = ");
    let sample = packaging("serve.toml");
    let lines: Vec<&str> = sample.lines().map(|line| line.strip_prefix("# ").unwrap_or(line)).filter(is_toml).collect();
    let directory = directory();
    let file = directory.path().join("serve.toml");
    fs::write(&file, lines.join("\n")).unwrap();
    let shown = checked(&file);
    for name in ["\"sample\"", "\"db\"", "\"ci\""] {
        assert!(shown.contains(name), "{name} is missing in {shown}");
    }
}

#[test]
fn the_instance_unit_differs_only_in_the_configuration_file() {
    let instance = packaging("systemd/hoistway.service")
        .replace("serve.toml", "%i.toml")
        .replace("/run/hoistway/control.sock", "/run/hoistway/%i.control.sock")
        .replace("shared by weight", "shared by weight (%i)");
    assert_eq!(packaging("systemd/hoistway@.service"), instance);
}

#[test]
fn systemd_accepts_the_units() {
    if !requires("systemd", &["systemd-analyze"]) {
        return;
    }
    let directory = directory();
    let copy = |name: &str| {
        let text = packaging(&format!("systemd/{name}")).replace("/usr/bin/hoistway", env!("CARGO_BIN_EXE_hoistway"));
        fs::write(directory.path().join(name), text).unwrap();
    };
    ["hoistway.service", "hoistway@.service", "hoistway.socket"].into_iter().for_each(copy);
    let mut analyze = Command::new("systemd-analyze");
    analyze.current_dir(directory.path()).args(["verify", "--man=no", "--recursive-errors=no"]);
    let output = run_command(analyze.args(["./hoistway.service", "./hoistway@serve.service", "./hoistway.socket"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let about_ours: Vec<&str> = said.lines().filter(|line| line.contains("hoistway")).collect();
    assert!(output.status.success() && about_ours.is_empty(), "{said}");
}

/// A hole in the server must not be root: who may write to all disks is.
#[test]
fn the_service_reaches_no_disk_and_reports_a_refused_reload() {
    for (unit, control) in [("hoistway.service", "control.sock"), ("hoistway@.service", "%i.control.sock")] {
        let text = packaging(&format!("systemd/{unit}"));
        let lines = |key: &str| text.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<_>>().join(" ");
        assert_eq!((lines("SupplementaryGroups="), lines("DeviceAllow=")), (String::new(), String::new()), "{unit}");
        let reload = format!("/usr/bin/hoistway ctl --control /run/hoistway/{control} reload");
        assert_eq!((lines("ExecReload="), lines("Type=")), (reload, "notify".to_owned()), "{unit}");
        assert!(!lines("WatchdogSec=").is_empty(), "{unit}");
    }
    let drop_in = packaging("systemd/block-devices.conf");
    assert!(drop_in.contains("\nSupplementaryGroups=disk\n") && !drop_in.contains("block-*"));
}

/// Each alert comes after its time and for its cause.
#[test]
fn prometheus_accepts_the_alert_rules() {
    if !requires("prometheus", &["promtool"]) {
        return;
    }
    let rules = root().join("packaging/grafana/alerts_test.yml");
    let output = run_command(Command::new("promtool").args(["test", "rules"]).arg(rules));
    assert!(output.status.success(), "{output:?}");
}

/// With a server of this build; the cases are in the script.
#[test]
fn the_hook_of_libvirt_and_proxmox_makes_and_removes_exports() {
    if !requires("the hook of libvirt and Proxmox", &["python3"]) {
        return;
    }
    let script = root().join("packaging/libvirt/test_hook.py");
    let output = run_command(Command::new("python3").arg(script).env("HOISTWAY", env!("CARGO_BIN_EXE_hoistway")));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_file_of_the_packages_exists() {
    let manifest: toml::Value =
        toml::from_str(&fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap()).unwrap();
    let metadata = &manifest["package"]["metadata"];
    let of_deb = metadata["deb"]["assets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asset| root().join("crates/cli").join(asset[0].as_str().unwrap()));
    let of_rpm = metadata["generate-rpm"]["assets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asset| root().join(asset["source"].as_str().unwrap()));
    let sources: Vec<PathBuf> = of_deb.chain(of_rpm).collect();
    assert!(sources.len() > 20, "{sources:?}");
    // Files that a build creates are below target/release; packaging/verify checks that they exist.
    for source in sources.iter().filter(|source| !source.to_string_lossy().contains("target/release/")) {
        assert!(source.is_file(), "{} is missing", source.display());
    }
}
