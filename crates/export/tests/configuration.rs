//! `serve.toml` and the flags: what is accepted, and the message for each mistake. Source:
//! docs/specifications/engine.md, section 8.

use hoistway_engine::Rotational;
use hoistway_experiment::Limits;
use hoistway_export::configuration::check::{Checks, Verdict, check, warnings};
use hoistway_export::configuration::flags::{self, Flags};
use hoistway_export::configuration::show::show;
use hoistway_export::configuration::{Address, Configuration, PeerMatch, Problem, Size, file};
use proptest::prelude::*;

const WHOLE: &str = r#"
root = "/srv/disks"
[[device]]
name = "ssd0"
scheduler = "wfq"
memory = "256MiB"
queue_depth = 0
max_request = "1MiB"
cache = "direct"
batch_wait_us = 0
busy_poll_us = 50
inline_max = "16KiB"
cpu = [0, 1]
[[device.export]]
name = "db"
backing = "db.img"
group = "tenants/db"
read_only = false
min_block = 512
description = "the \"database\""
unsafe_flush = false
[[device.export]]
name = "scratch"
backing = "memory:1GiB"
[[group]]
path = "tenants/db"
weight = 300
read_bps_max = 0
latency_target_us = 0
[[listen]]
unix = "/run/hoistway/nbd.sock"
mode = "0600"
owner_group = "disk"
exports = ["*"]
tls = { certificate = "/etc/pki/server.pem", key = "/etc/pki/server.key", client_ca = "/etc/pki/ca.pem" }
max_connections = 256
handshake_timeout_s = 10
stall_timeout_s = 30
[[listen]]
tcp = "127.0.0.1:10809"
exports = ["db"]
[[identity]]
uid = 1000
group = "tenants/db"
exports = ["db", "db-*"]
[control]
unix = "/run/hoistway/control.sock"
[metrics]
tcp = "127.0.0.1:9890"
"#;

fn two_are_known(text: &str) -> Verdict {
    if text.starts_with("wfq") || text == "paternoster" {
        Ok(())
    } else {
        Err((format!("no scheduler {text}"), "hoistway list".into()))
    }
}

fn nothing_odd(text: &str) -> Verdict {
    if text.contains("odd") { Err((format!("{text} is odd"), "choose another".into())) } else { Ok(()) }
}

const CHECKS: Checks<'_> = Checks { scheduler: &two_are_known, backing: &nothing_odd, whole: &|_| Vec::new() };

fn read(text: &str) -> Result<Configuration, Vec<Problem>> {
    let configuration = file::read("serve.toml", text)?;
    let problems = check(&configuration, CHECKS);
    if problems.is_empty() { Ok(configuration) } else { Err(problems) }
}

/// The texts of all problems of `WHOLE` with one line replaced.
fn with(line: &str, instead: &str) -> Vec<String> {
    assert!(WHOLE.contains(line), "{line}");
    match read(&WHOLE.replacen(line, instead, 1)) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(Problem::to_string).collect(),
    }
}

/// Asserts exactly one problem, whose text contains all of these.
#[track_caller]
fn says(line: &str, instead: &str, parts: &[&str]) {
    let problems = with(line, instead);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    for part in parts {
        assert!(problems[0].contains(part), "{part:?} is not in\n{}", problems[0]);
    }
}

#[test]
fn the_whole_file_is_read() {
    let configuration = read(WHOLE).unwrap();
    let device = &configuration.devices[0];
    assert_eq!((device.memory, device.busy_poll_us), (Size(256 << 20), 50));
    assert_eq!(device.exports[0].min_block, 512);
    assert_eq!(device.exports[1].group.value, "scratch", "the group is the export's own name where none is given");
    assert_eq!((configuration.weight("tenants/db"), configuration.weight("scratch")), (300, 100));
    let Address::Unix { mode, owner_group, .. } = &configuration.listeners[0].address.value else { panic!() };
    assert_eq!((*mode, owner_group.as_deref()), (0o600, Some("disk")));
    assert_eq!(configuration.listeners[1].address.to_string(), "tcp:127.0.0.1:10809");
    assert_eq!(configuration.identities[0].property.value, PeerMatch::Uid(1000));
    assert!(warnings(&configuration).is_empty());
}

#[test]
fn check_prints_a_configuration_that_parses_to_itself() {
    let configuration = read(WHOLE).unwrap();
    let shown = show(&configuration);
    assert_eq!(read(&shown).unwrap(), configuration, "{shown}");
    assert_eq!(show(&read(&shown).unwrap()), shown);
    for default in ["handshake_timeout_s = 10", "drain_timeout_s = 30", "list = true", "min_block = 1"] {
        assert!(shown.contains(default), "{default} is not in\n{shown}");
    }
}

#[test]
fn an_unknown_key_is_reported_with_its_place_and_the_nearest() {
    says(
        "weight = 300",
        "wieght = 300",
        &["serve.toml:27:1: ", "no key wieght; did you mean weight?", "known keys: path"],
    );
    // A key of a group, where a reader of `--export NAME=PATH,weight=N` looks for it.
    says(
        "unsafe_flush = false",
        "weight = 300",
        &[
            "[[device.export]] has no key weight\n",
            "it is a key of [[group]]: write group = \"NAME\" in [[device.export]]",
        ],
    );
    says("root = ", "color = 1\nroot = ", &["serve.toml:2:1: ", "the file has no key color\n", "device"]);
}

#[test]
fn values_outside_their_range_are_reported_with_the_range() {
    says(
        "weight = 300",
        "weight = 0",
        &["serve.toml:27:10: weight = 0 is outside 1 to 10000", "  weight = 0\n", "help:"],
    );
    says("weight = 300", "weight = 10001", &["10001"]);
    says("weight = 300", "weight = -1", &["-1"]);
    says("weight = 300", "weight = \"much\"", &["weight is a string where a whole number is needed"]);
    says("memory = \"256MiB\"", "memory = \"1MiB\"", &["outside 64MiB to 64GiB"]);
    says("memory = \"256MiB\"", "memory = \"256mb\"", &["\"256mb\" is not a size", "KiB, MiB, GiB or TiB"]);
    says("min_block = 512", "min_block = 513", &["513 is not one of 1, 512, 4096"]);
    says("busy_poll_us = 50", "busy_poll_us = 201", &["outside 0 to 200"]);
    says("busy_poll_us = 50", "threads = 65", &["threads = 65 is outside 0 to 64"]);
    says("cache = \"direct\"", "cache = \"pages\"", &["direct, page; did you mean \"page\"?"]);
    says("cpu = [0, 1]", "cpu = [0, 5000]", &["serve.toml:13:11"]);
    says("mode = \"0600\"", "mode = \"rw\"", &["three octal digits"]);
    says("read_only = false", "read_only = 0", &["true or false"]);
}

#[test]
fn limits_are_read_by_key_and_by_the_kernels_line() {
    let limits = |instead: &str| {
        let configuration = read(&WHOLE.replacen("read_bps_max = 0", instead, 1)).unwrap();
        assert_eq!(read(&show(&configuration)).unwrap().groups[0].limits, configuration.groups[0].limits);
        configuration.limits("tenants/db")
    };
    assert_eq!(limits("read_bps_max = 0"), Limits::NONE);
    let both = limits("read_bps_max = \"50MiB\"\nwrite_iops_max = 1000");
    assert_eq!((both.read_bytes_per_s, both.write_ios_per_s), (Some(50 << 20), Some(1_000)));
    assert_eq!(limits("rbps = 52428800\nwiops = 1000"), both);
    assert_eq!(limits("io.max = \"rbps=52428800 wiops=1000 riops=max\""), both);
    let total = limits("total_bps_max = \"1MiB\"\ntotal_iops_max = 1\nread_iops_max = 1\nburst_ms = 5000");
    assert_eq!((total.total_bytes_per_s, total.total_ios_per_s, total.burst_ms), (Some(1 << 20), Some(1), Some(5_000)));
    assert_eq!(limits("io.max = \"tbps=1048576 tiops=1 riops=1 burst_ms=5000\""), total);
    let low = limits("io = { max = \"wbps=2000\", low = \"rbps=1000 idle=2000 latency=100\" }");
    assert_eq!((low.write_bytes_per_s, low.low.read_bytes_per_s, low.low.latency_us), (Some(2_000), 1_000, Some(100)));
    // The text WHOLE has `latency_target_us = 0`; this line is read later and overrides it.
    let target = limits("io.latency = \"target=500\"");
    assert_eq!(target, Limits { latency_target_us: 500, ..Limits::NONE });
    let by_key = |key: &str| read(&WHOLE.replacen("latency_target_us = 0", key, 1)).unwrap().limits("tenants/db");
    assert_eq!((by_key("latency_target_us = 500"), by_key("target = 500")), (target, target));
}

/// The spellings of one cap, in the file, in the kernel's line and in its other form.
#[test]
fn a_rate_has_the_units_of_the_whole_command() {
    for value in ["50M", "50m", "50MiB", "50Mi", "50MiB/s", "52428800"] {
        for text in
            [format!("read_bps_max = \"{value}\""), format!("rbps = \"{value}\""), format!("io.max = \"rbps={value}\"")]
        {
            let read = read(&WHOLE.replacen("read_bps_max = 0", &text, 1)).unwrap().limits("tenants/db");
            assert_eq!(read.read_bytes_per_s, Some(50 << 20), "{text}");
        }
    }
    for text in ["read_iops_max = \"20k\"", "riops = \"20k\"", "io.max = \"riops=20k\"", "riops = 20000"] {
        let read = read(&WHOLE.replacen("read_bps_max = 0", text, 1).replacen("read_iops_max = 0\n", "", 1));
        assert_eq!(read.unwrap().limits("tenants/db").read_ios_per_s, Some(20_000), "{text}");
    }
}

#[test]
fn a_wrong_limit_is_reported_with_its_line_and_the_kernels_error() {
    let place = "serve.toml:28:";
    says("read_bps_max = 0", "read_bps_max = \"50mb\"", &[place, "\"50mb\" is not a size"]);
    says("read_bps_max = 0", "burst_ms = 0", &[place, "burst_ms = 0 is outside 1 to 3600000"]);
    says("read_bps_max = 0", "tiops = 2\ntotal_iops_max = 3", &["tiops and total_iops_max are the same limit"]);
    says("read_bps_max = 0", "read_bps_max = -5", &[place, "read_bps_max = -5 is not a size: it is negative"]);
    let beyond = "read_bps_max = 99999999999999999999";
    says("read_bps_max = 0", beyond, &[place, "is not a size: it does not fit in 64 bits", "\"64MiB\""]);
    says("read_bps_max = 0", "read_iops_max = -5", &[place, "-5 is outside 0 to 4294967294"]);
    says("read_bps_max = 0", "read_iops_max = 4294967296", &[place, "outside"]);
    says("read_bps_max = 0", "rbps = 2000\nread_bps_max = 3000", &["rbps and read_bps_max are the same limit"]);
    says("read_bps_max = 0", "io.max = \"rbps=1x\"", &[place, "io.max: rbps=1x", "EINVAL"]);
    says("read_bps_max = 0", "io.max = \"rbps=0\"", &[place, "ERANGE", "rbps=max"]);
    says("read_bps_max = 0", "io.max = \"rbps=-1\"", &[place, "rbps=-1 is not a whole number (EINVAL)"]);
    says("read_bps_max = 0", "io.max = \"rbps=99999999999999999999\"", &[place, "does not fit into 64 bits (EINVAL)"]);
    says("read_bps_max = 0", "io.max = \"bps=5000\"", &[place, "io.max has no 'bps' (EINVAL)", "rbps"]);
    says(
        "read_bps_max = 0",
        "io.high = \"rbps=5000\"",
        &[place, "io has no key high", "known keys: max, low, latency"],
    );
    says("read_bps_max = 0", "io.latency = \"target=5ms\"", &[place, "io.latency: target=5ms", "EINVAL"]);
    says("latency_target_us = 0", "latency_target_us = -1", &["-1 is outside 0 to 4294967295"]);
    says("read_bps_max = 0", "target = 5", &["target and latency_target_us are the same limit"]);
    // A line is applied as a whole: the valid half of a line with an invalid one is not applied
    // either.
    let problems = with("read_bps_max = 0", "io.max = \"wbps=5000 rbps=x\"");
    assert_eq!(problems.len(), 1, "{problems:#?}");
}

#[test]
fn tls_has_a_certificate_and_a_key_and_excludes_plain() {
    let ca = "client_ca = \"/etc/pki/ca.pem\" }";
    says(", key = \"/etc/pki/server.key\"", "", &["serve.toml:35:7: ", "[listen.tls] has no key", "add key ="]);
    says("certificate = \"/etc/pki/server.pem\", ", "", &["[listen.tls] has no certificate"]);
    says(ca, "verify = true }", &["[listen.tls] has no key verify"]);
    says(ca, &format!("{ca}\nallow_plain = true"), &["has tls and allow_plain"]);
    let open = "tcp = \"0.0.0.0:10809\"\ntls = { certificate = \"c.pem\", key = \"k.pem\" }";
    assert_eq!(with("tcp = \"127.0.0.1:10809\"", open), Vec::<String>::new());
    let whole = with("tls = {", "tls = \"require\" #");
    assert!(whole[0].contains("serve.toml:35:7: tls is a string where [listen.tls] is needed"), "{whole:?}");
}

#[test]
fn a_certificate_identifies_where_certificates_are_asked_for() {
    assert_eq!(with("uid = 1000", "certificate = \"tenant-a\""), Vec::<String>::new());
    assert_eq!(with("uid = 1000", "certificate = \"*.tenants.example\""), Vec::<String>::new());
    says("uid = 1000", "uid = 1000\ncertificate = \"tenant-a\"", &["gives 2 properties"]);
    for wrong in ["", "*", "a*", "*.a.*"] {
        says("uid = 1000", &format!("certificate = \"{wrong}\""), &["is neither a name nor *.DOMAIN"]);
    }
    let text =
        WHOLE.replacen(", client_ca = \"/etc/pki/ca.pem\"", "", 1).replacen("uid = 1000", "certificate = \"a\"", 1);
    let problems = read(&text).unwrap_err();
    assert!(problems[0].what.contains("no listener asks for certificates"), "{problems:?}");
    let group = "certificate = \"a\"\ngroup = \"tenants/db\"";
    assert!(WHOLE.contains("uid = 1000\ngroup = \"tenants/db\""));
    let text = WHOLE.replacen("uid = 1000\ngroup = \"tenants/db\"", group, 1).replacen(group, "certificate = \"a\"", 1);
    assert!(file::read("serve.toml", &text).unwrap_err()[0].what.contains("[[identity]] has no group"));
}

#[test]
fn flags_give_tls_to_tcp_and_plain_needs_consent() {
    let of = |nbd: &[&str]| Flags { nbd: nbd.iter().map(|it| (*it).to_owned()).collect(), ..flags(&["a=/dev/shm/a"]) };
    let open = || of(&["unix:/run/x.sock", "tcp:0.0.0.0:10809"]);
    let problems = check(&flags::read(&open()).unwrap(), CHECKS);
    assert!(problems[0].to_string().contains("--allow-plain"), "{problems:?}");
    assert!(check(&flags::read(&Flags { allow_plain: true, ..open() }).unwrap(), CHECKS).is_empty());
    let secure = |flags| Flags {
        tls_certificate: Some("c.pem".into()),
        tls_key: Some("k.pem".into()),
        tls_client_ca: Some("ca.pem".into()),
        ..flags
    };
    let configuration = flags::read(&secure(open())).unwrap();
    assert!(check(&configuration, CHECKS).is_empty());
    assert!(configuration.listeners[0].tls.is_none(), "unix sockets stay plain");
    let tls = configuration.listeners[1].tls.as_ref().unwrap();
    assert_eq!(tls.client_ca.as_ref().unwrap().value, std::path::Path::new("ca.pem"));
    let what = |flags| flags::read(&flags).unwrap_err()[0].what.clone();
    assert!(what(Flags { tls_key: None, ..secure(open()) }).contains("a certificate and its key"));
    assert!(what(Flags { tls_client_ca: Some("ca.pem".into()), ..open() }).contains("a certificate and its key"));
    assert!(what(secure(of(&["unix:/run/x.sock"]))).contains("no TCP listener"));
}

#[test]
fn metrics_stay_on_this_machine_unless_allowed() {
    let metrics = "tcp = \"127.0.0.1:9890\"";
    says(metrics, "tcp = \"0.0.0.0:9890\"", &["serve.toml:49:7: ", "can be reached from other machines"]);
    says(metrics, "", &["[metrics] has neither unix nor tcp"]);
    says(metrics, "unix = \"/run/hoistway/control.sock\"", &["is another socket's path already"]);
    assert_eq!(with(metrics, "tcp = \"0.0.0.0:9890\"\nallow_plain = true"), Vec::<String>::new());
}

#[test]
fn names_must_differ_and_references_must_exist() {
    says("name = \"scratch\"", "name = \"db\"", &["the export \"db\" is declared twice", "serve.toml:15:8"]);
    says("exports = [\"db\"]", "exports = [\"db2\"]", &["no export \"db2\"; did you mean \"db\"?"]);
    says("path = \"tenants/db\"", "path = \"/tenants\"", &["not a group's path"]);
    says("scheduler = \"wfq\"", "scheduler = \"wqf\"", &["serve.toml:5:13: no scheduler wqf"]);
    says("backing = \"db.img\"", "backing = \"odd\"", &["serve.toml:16:11: odd is odd"]);
    says("name = \"scratch\"", "", &["[[device.export]] has no name", "add name ="]);
    says("name = \"scratch\"", "name = \"\"", &["is empty"]);
}

#[test]
fn listeners_have_one_address_and_plain_tcp_is_limited_to_loopback() {
    says("tcp = \"127.0.0.1:10809\"", "", &["has neither unix nor tcp"]);
    says("tcp = \"127.0.0.1:10809\"", "tcp = \"localhost\"", &["not an IP address and a port"]);
    says(
        "tcp = \"127.0.0.1:10809\"",
        "tcp = \"0.0.0.0:10809\"",
        &["can be reached from other machines", "allow_plain = true"],
    );
    assert!(with("tcp = \"127.0.0.1:10809\"", "tcp = \"0.0.0.0:10809\"\nallow_plain = true").is_empty());
    says("exports = [\"db\"]", "stall_timeout_s = 5", &["stall_timeout_s = 5 differs from another listener's 30"]);
    says("tcp = \"127.0.0.1:10809\"", "unix = \"/run/hoistway/nbd.sock\"", &["two listeners have the address"]);
}

#[test]
fn an_identity_has_one_property() {
    says("uid = 1000", "uid = 1000\ngid = 5", &["gives 2 properties"]);
    says("uid = 1000", "", &["gives 0 properties"]);
    says("uid = 1000", "cgroup = true", &["group cannot be combined with cgroup"]);
    says("uid = 1000", "listener = \"tcp:1.2.3.4:5\"", &["is none of the listeners", "tcp:127.0.0.1:10809"]);
    assert!(with("uid = 1000", "listener = \"tcp:127.0.0.1:10809\"").is_empty());
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = WHOLE.replacen("weight = 300", "weight = 0", 1).replacen("queue_depth", "queue_deep", 1);
    assert_eq!(file::read("serve.toml", &text).unwrap_err().len(), 2);
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    let problems = file::read("serve.toml", "root = \"/srv\n[[device]]\n").unwrap_err();
    assert!(problems[0].to_string().starts_with("hoistway: error: serve.toml:1:"), "{}", problems[0]);
}

#[test]
fn missing_exports_and_missing_listeners_are_problems() {
    let problems = read("").unwrap_err();
    // Nothing at all is one mistake, that of `serve` alone.
    assert_eq!(problems.len(), 1);
    let text = problems[0].to_string();
    assert!(text.starts_with("hoistway: error: there is nothing to export, and nowhere to listen\n  help: "), "{text}");
    let problems = read("[[listen]]\nunix = \"/run/a.sock\"\n").unwrap_err();
    assert!(problems[0].to_string().starts_with("hoistway: error: there is nothing to export\n  help: "));
}

#[test]
fn an_unused_group_gives_a_warning() {
    let text = WHOLE.replace("[[listen]]\ntcp", "[[group]]\npath = \"tenant/db\"\n[[listen]]\ntcp");
    let warnings = warnings(&read(&text).unwrap());
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("serve.toml:40:8") && warnings[0].contains("tenant/db"), "{}", warnings[0]);
}

fn flags(exports: &[&str]) -> Flags {
    Flags {
        nbd: vec!["unix:/run/hoistway.sock".into()],
        export: exports.iter().map(|text| (*text).to_owned()).collect(),
        ..Flags::default()
    }
}

#[test]
fn the_short_form_makes_the_same_kind_of_configuration() {
    let given = Flags { scheduler: Some("wfq".into()), ..flags(&["a=/dev/shm/a.img,weight=300", "b=/dev/shm/b.img"]) };
    let configuration = flags::read(&given).unwrap();
    assert!(check(&configuration, CHECKS).is_empty());
    assert_eq!((configuration.weight("a"), configuration.weight("b")), (300, 100));
    assert_eq!(configuration.devices[0].exports[0].backing.value, "/dev/shm/a.img");
    assert_eq!(read(&show(&configuration)).unwrap(), configuration);
}

#[test]
fn a_models_comma_belongs_to_the_backing() {
    let given = flags(&["a=model:ssd,seed=7,/srv/a.img,group=g,read_only", "b=model:sata,/srv/b.img"]);
    let configuration = flags::read(&given).unwrap();
    let exports = &configuration.devices[0].exports;
    assert_eq!(exports[0].backing.value, "model:ssd,seed=7,/srv/a.img");
    assert_eq!((exports[0].group.value.as_str(), exports[0].read_only), ("g", true));
    assert_eq!(exports[1].backing.value, "model:sata,/srv/b.img");
}

#[test]
fn mistakes_in_flags_name_the_flag_and_the_value() {
    for (export, part) in [
        ("a", "an export is NAME=PATH"),
        ("a=/x,weight=0", "weight = 0 is outside 1 to 10000"),
        ("a=/x,wieght=3", "unknown option wieght; did you mean weight?"),
        ("a=/x,read_only=maybe", "read_only=maybe is not true or false"),
    ] {
        let problems = flags::read(&flags(&[export])).unwrap_err();
        let text = problems[0].to_string();
        assert!(text.starts_with("hoistway: error: --export: ") && text.contains(part), "{text}");
    }
    let problems = flags::read(&flags(&["a=/x,group=g,weight=1", "b=/y,group=g,weight=2"])).unwrap_err();
    assert!(problems[0].to_string().contains("has the weight 1 already"));
    let wrong = Flags { nbd: vec!["/run/x.sock".into()], ..flags(&["a=/x"]) };
    assert!(flags::read(&wrong).unwrap_err()[0].to_string().contains("neither unix:PATH nor tcp:ADDRESS:PORT"));
}

const SOCKET: &str = r#"vhost_user_blk = { unix = "/run/db.vhost", owner_group = "kvm" }"#;

#[test]
fn an_export_has_a_socket_for_a_virtual_machine() {
    let with_socket = WHOLE.replacen("unsafe_flush = false", SOCKET, 1);
    let configuration = read(&with_socket).unwrap();
    let address = configuration.devices[0].exports[0].vhost_user_blk.as_ref().map(|address| &address.value);
    let owner_group = Some("kvm".to_owned());
    assert_eq!(address, Some(&Address::Unix { path: "/run/db.vhost".into(), mode: 0o660, owner_group }));
    assert_eq!(read(&show(&configuration)).unwrap(), configuration);
    let alone = "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"db\"\nbacking = \"db.img\"\n";
    assert!(read(alone).is_err(), "there is nowhere to attach it");
    assert!(read(&format!("{alone}{SOCKET}")).is_ok());
}

#[test]
fn mistakes_in_a_socket_for_a_virtual_machine_are_reported() {
    let line = "unsafe_flush = false";
    says(line, "vhost_user_blk = \"/run/x\"", &["[device.export.vhost_user_blk] is needed"]);
    says(line, "vhost_user_blk = { path = \"/run/x\", unix = \"/run/y\" }", &["no key path", "known keys: unix"]);
    says(line, "vhost_user_blk = {}", &["has no unix", "unix = \"/run/hoistway/db.vhost\""]);
    says(line, "vhost_user_blk = { unix = \"/run/hoistway/nbd.sock\" }", &["two sockets have the path"]);
}

#[test]
fn the_short_form_gives_exports_their_sockets() {
    let given = |sockets: &[&str], exports: &[&str]| {
        let vhost_user = sockets.iter().map(|text| (*text).to_owned()).collect();
        flags::read(&Flags { vhost_user, nbd: Vec::new(), ..flags(exports) })
    };
    let socket = |configuration: &Configuration, export: usize| {
        configuration.devices[0].exports[export].vhost_user_blk.as_ref().map(ToString::to_string)
    };
    let one = given(&["unix:/run/a"], &["a=/a.img"]).unwrap();
    assert_eq!(socket(&one, 0).as_deref(), Some("unix:/run/a"));
    assert!(check(&one, CHECKS).is_empty());
    let two = given(&["b=unix:/run/b", "a=unix:/run/a"], &["a=/a.img", "b=/b.img"]).unwrap();
    assert_eq!((socket(&two, 0).as_deref(), socket(&two, 1).as_deref()), (Some("unix:/run/a"), Some("unix:/run/b")));
    for (sockets, part) in [
        (&["unix:/run/a"][..], "there are 2 exports and the socket names none"),
        (&["c=unix:/run/a"], "there is no export \"c\""),
        (&["a=unix:/run/a", "a=unix:/run/b"], "the export a has a socket already"),
        (&["/run/a"], "is not [NAME=]unix:PATH"),
        (&["a=unix:"], "is not [NAME=]unix:PATH"),
    ] {
        let problems = given(sockets, &["a=/a.img", "b=/b.img"]).unwrap_err();
        assert!(problems[0].to_string().contains(part), "{}", problems[0]);
        assert!(problems[0].to_string().contains("--vhost-user"), "{}", problems[0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any text, reading ends without a panic, and an accepted text is shown as a text that
    /// parses to the same configuration.
    #[test]
    fn any_text_is_read_or_refused(cut in 0_usize..900, length in 0_usize..40, noise in "[a-z0-9=\\[\\]\" \n._-]{0,12}") {
        let start = cut.min(WHOLE.len());
        let end = (start + length).min(WHOLE.len());
        let text = format!("{}{noise}{}", &WHOLE[..start], &WHOLE[end..]);
        if let Ok(configuration) = read(&text) {
            prop_assert_eq!(read(&show(&configuration)).unwrap(), configuration);
        }
    }
}

#[test]
fn whether_positioning_costs_time_can_be_configured() {
    let of = |text: &str| read(text).unwrap().devices[0].rotational;
    assert_eq!(of(WHOLE), Rotational::Measured);
    for (word, meaning) in [("auto", Rotational::Measured), ("yes", Rotational::Yes), ("no", Rotational::No)] {
        let text = WHOLE.replacen("queue_depth = 0", &format!("rotational = \"{word}\""), 1);
        assert_eq!(of(&text), meaning);
        let shown = show(&read(&text).unwrap());
        assert!(shown.contains(&format!("rotational = \"{word}\"")) && of(&shown) == meaning, "{shown}");
        assert_eq!(flagged(word).unwrap().devices[0].rotational, meaning);
    }
    says(
        "queue_depth = 0",
        "rotational = \"ja\"",
        &["serve.toml:7:", "is not one of auto, yes, no", "default is \"auto\""],
    );
    let problems = flagged("ja").unwrap_err();
    assert!(problems[0].to_string().contains("--rotational") && problems[0].to_string().contains("auto, yes, no"));
}

fn flagged(word: &str) -> Result<Configuration, Vec<Problem>> {
    let [nbd, export] = [vec!["unix:/run/x".to_owned()], vec!["a=memory:1GiB".to_owned()]];
    flags::read(&Flags { nbd, export, rotational: Some(word.to_owned()), ..Flags::default() })
}
