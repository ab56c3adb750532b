//! The flags of `serve` say what the file says: each is compared with the file that means the same.

use hoistway_export::configuration::check::check;
use hoistway_export::configuration::flags::{self, Flags};
use hoistway_export::configuration::show::show;
use hoistway_export::configuration::{Configuration, Problem, file};
use hoistway_export::server::CHECKS;
use proptest::prelude::*;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn minimal() -> Flags {
    Flags { nbd: texts(&["unix:/run/x.sock"]), export: texts(&["a=/a.img"]), ..Flags::default() }
}

fn accepted(flags: &Flags) -> Configuration {
    let shown = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n");
    let configuration = flags::read(flags).unwrap_or_else(|problems| panic!("{}", shown(problems)));
    let problems = check(&configuration, CHECKS);
    assert!(problems.is_empty(), "{}", shown(problems));
    configuration
}

/// What the flags and the file are shown as.
fn assert_same(flags: &Flags, text: &str) {
    let by_file = file::read("serve.toml", text).unwrap();
    assert_eq!(show(&accepted(flags)), show(&by_file));
    assert_eq!(accepted(flags), by_file);
}

fn refused(flags: &Flags) -> String {
    let problems = flags::read(flags).unwrap_err();
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_key_of_a_group_has_an_option() {
    let group = "tenants/db,weight=300,leaf_weight=20,priority=3,read_bps_max=50MiB,write_bps_max=1000000,\
                 read_iops_max=1000,write_iops_max=0,latency_target_us=5000,io.low=rbps=1000000 wbps=2000000";
    let flags = Flags { group: texts(&[group]), ..minimal() };
    assert_same(
        &flags,
        r#"
[[device]]
name = "default"
[[device.export]]
name = "a"
backing = "/a.img"
[[listen]]
unix = "/run/x.sock"
[[group]]
path = "tenants/db"
weight = 300
leaf_weight = 20
priority = 3
read_bps_max = "50MiB"
write_bps_max = 1000000
read_iops_max = 1000
latency_target_us = 5000
io.low = "rbps=1000000 wbps=2000000"
"#,
    );
}

#[test]
fn every_key_of_listeners_and_device_has_an_option() {
    let flags = Flags {
        nbd: texts(&[
            "unix:/run/x.sock,mode=0666,owner_group=1000,exports=a,exports=b*,list=false,max_connections=9,\
             max_connections_per_peer=3,handshake_timeout_s=2,stall_timeout_s=7",
            "tcp:0.0.0.0:10809,allow_plain,stall_timeout_s=7",
        ]),
        export: texts(&["a=/a.img,read_only,min_block=512,description=4711,vhost_user_blk.unix=/run/a.vhost"]),
        device: texts(&["threads=2,cpu=0", "max_request=64KiB,cache=page,batch_wait_us=3,busy_poll_us=4,inline_max=0"]),
        metrics: Some("tcp:[::1]:9100".to_owned()),
        root: Some("/srv".into()),
        drain_timeout_s: Some("5".to_owned()),
        ..Flags::default()
    };
    assert_same(
        &flags,
        r#"
root = "/srv"
drain_timeout_s = 5
[[device]]
name = "default"
threads = 2
cpu = [0]
max_request = "64KiB"
cache = "page"
batch_wait_us = 3
busy_poll_us = 4
inline_max = 0
[[device.export]]
name = "a"
backing = "/a.img"
read_only = true
min_block = 512
description = "4711"
vhost_user_blk = { unix = "/run/a.vhost" }
[[listen]]
unix = "/run/x.sock"
mode = "0666"
owner_group = "1000"
exports = ["a", "b*"]
list = false
max_connections = 9
max_connections_per_peer = 3
handshake_timeout_s = 2
stall_timeout_s = 7
[[listen]]
tcp = "0.0.0.0:10809"
allow_plain = true
stall_timeout_s = 7
[metrics]
tcp = "[::1]:9100"
"#,
    );
}

#[test]
fn an_export_s_weight_is_its_group_s_unless_the_group_says_otherwise() {
    let flags = |export: &str, group: &str| Flags { export: texts(&[export]), group: texts(&[group]), ..minimal() };
    let both = accepted(&flags("a=/a.img,weight=800", "a,write_iops_max=100"));
    assert_eq!((both.weight("a"), both.limits("a").write_ios_per_s, both.groups.len()), (800, Some(100), 1));
    assert_eq!(accepted(&flags("a=/a.img,weight=800", "a,weight=800")).weight("a"), 800);
    assert!(refused(&flags("a=/a.img,weight=800", "a,weight=700")).contains("a has the weight 800 already"));
    let twice = Flags { group: texts(&["a,weight=1", "a,weight=1"]), ..minimal() };
    let problems = check(&flags::read(&twice).unwrap(), CHECKS);
    assert!(problems[0].what.contains("declared twice"), "{problems:?}");
}

#[test]
fn a_value_is_refused_as_in_the_file_with_the_flag_s_name() {
    let group = |text: &str| refused(&Flags { group: texts(&[text]), ..minimal() });
    assert!(group("a,burst_ms=0").contains("burst_ms = 0 is outside 1 to 3600000"));
    assert!(group("a,weight=0").contains("weight = 0 is outside 1 to 10000"));
    assert!(group("a,weight=x").contains("weight=x is not a whole number"));
    assert!(group("a,wieght=1").contains("unknown option wieght; did you mean weight?"));
    assert!(group("a,weight=1,weight=2").contains("weight is given more than once"));
    assert!(group("a,io.max=rbps=x").contains("io.max: "));
    assert!(group("a,io.max=rbps=5000,io=1").contains("--group: "));
    let device = |text: &str| refused(&Flags { device: texts(&[text]), ..minimal() });
    assert!(device("memory=1GiB").contains("memory is no option of --device"));
    assert!(device("threads=65").contains("threads = 65 is outside 0 to 64"));
    assert!(device("cpu=2000").contains("cpu"));
    let nbd = |text: &str| refused(&Flags { nbd: texts(&[text]), ..minimal() });
    assert!(nbd("tcp:nowhere").contains("is not an IP address and a port"));
    assert!(nbd("tcp:127.0.0.1:1,unix=/x").contains("neither unix:PATH nor tcp:ADDRESS:PORT"));
    assert!(nbd("tcp:127.0.0.1:1,mode=0660").contains("mode is for unix sockets"));
    let drain = Flags { drain_timeout_s: Some("0".to_owned()), ..minimal() };
    assert!(refused(&drain).contains("--drain-timeout-s: drain_timeout_s = 0 is outside 1 to 3600"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any options, reading ends without a panic, and what is accepted is shown as a file that reads back as itself.
    #[test]
    fn any_options_are_read_or_refused(
        key in "weight|io.max|io|rbps|mode|exports|cpu|ublk|vhost_user_blk.unix|[a-z.\"=\\\\ä\u{7f}]{0,6}",
        value in "[0-9]{0,6}|true|rbps=5 wiops=max|[a-zA-Z0-9*=\"\\\\.\u{1} ä]{0,8}",
        twice in any::<bool>(),
        of in 0..4,
    ) {
        let option = format!("{key}={value}");
        let options = if twice { format!("{option},{option}") } else { option };
        let mut flags = minimal();
        match of {
            0 => flags.group = texts(&[&format!("g,{options}")]),
            1 => flags.device = texts(&[&options]),
            2 => flags.nbd = texts(&[&format!("unix:/run/x.sock,{options}")]),
            _ => flags.export = texts(&[&format!("a=/a.img,{options}")]),
        }
        match flags::read(&flags) {
            Ok(configuration) => {
                let shown = show(&configuration);
                prop_assert_eq!(show(&file::read("shown", &shown).unwrap()), shown);
            }
            Err(problems) => prop_assert!(problems.iter().all(|problem| problem.place.at.starts_with("--"))),
        }
    }
}
