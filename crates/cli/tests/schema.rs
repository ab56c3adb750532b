//! The JSON Schemas in docs/reference/schema are those of the types, and real outputs conform to
//! them.

mod program;
#[path = "program/rig.rs"]
#[allow(dead_code, reason = "every test file uses a part of it")]
mod rig;
mod served;

use std::path::{Path, PathBuf};

use program::hoistway;
use serde_json::Value;

/// The names of the outputs that have a schema.
fn names() -> Vec<String> {
    let said = hoistway(Path::new("/"), &["schema"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    said.stdout.lines().map(|line| line.split_whitespace().next().expect("a name").to_owned()).collect()
}

fn schema(name: &str) -> String {
    let said = hoistway(Path::new("/"), &["schema", name]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    said.stdout
}

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schema")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// All differences from a schema, with their places.
fn differences(name: &str, document: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(&parsed(&schema(name))).expect("a valid schema");
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Asserts that an output conforms to its schema.
fn conforms(name: &str, output: &str) {
    let document = parsed(output);
    assert_eq!(differences(name, &document), [""; 0], "{name}: {output}");
}

#[test]
fn the_stored_schemas_are_those_of_the_types() {
    let is_blessed = std::env::var("HOISTWAY_BLESS").is_ok_and(|value| value == "1");
    let names = names();
    for name in &names {
        let path = stored().join(format!("{name}.json"));
        if is_blessed {
            std::fs::write(&path, schema(name)).expect("written");
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(known == schema(name), "{} differs from the types: HOISTWAY_BLESS=1 rewrites it", path.display());
    }
    let mut files: Vec<String> = names.iter().map(|name| format!("{name}.json")).collect();
    files.sort();
    assert_eq!(program::entries(&stored()), files, "one file per output");
    let page = std::fs::read_to_string(stored().join("../json.md")).expect("docs/reference/json.md");
    for name in names {
        assert!(page.contains(&format!("(schema/{name}.json)")), "docs/reference/json.md does not link {name}");
    }
}

/// The file of the packages, with and without what is commented out, and one with every kind of value.
#[test]
fn configurations_conform_to_the_schema_of_serve() {
    let sample = std::fs::read_to_string(stored().join("../../../packaging/serve.toml")).expect("a file");
    let is_toml = |line: &&str| line.starts_with('[') || line.contains(" = ");
    let lines: Vec<&str> = sample.lines().map(|line| line.strip_prefix("# ").unwrap_or(line)).filter(is_toml).collect();
    let other = "[[device]]\nname = \"a\"\nmemory = \"1GiB\"\nmax_request = 65536\ncpu = [0, 1]\n[[device.export]]\nname = \"x\"\n\
                 backing = \"null:1G\"\nublk = 3\nvhost_user_blk = { unix = \"/a\" }\n[[group]]\npath = \"x\"\nrbps = \"50M\"\nio.max = \"wiops=9\"\n";
    for text in [sample.as_str(), &lines.join("\n"), other] {
        let document: toml::Value = toml::from_str(text).expect("TOML");
        assert_eq!(differences("serve", &serde_json::to_value(document).expect("JSON")), [""; 0], "{text}");
    }
    for wrong in
        ["drain_timeout_s = 0", "no_such_key = 1", "[[device]]\nname = 1", "[[device]]", "[log]\nformat = \"xml\""]
    {
        let document: toml::Value = toml::from_str(wrong).expect("TOML");
        assert_ne!(differences("serve", &serde_json::to_value(document).expect("JSON")), [""; 0], "{wrong}");
    }
}

#[test]
fn an_unknown_output_is_refused_with_the_nearest() {
    let said = hoistway(Path::new("/"), &["schema", "tets"]);
    assert!(said.code == 2 && said.stderr.contains("did you mean 'test'?"), "{}", said.stderr);
}

#[test]
fn a_document_that_differs_does_not_conform() {
    let found = differences("test", &serde_json::json!({"hoistway": 1, "schema": 1, "complete": true}));
    assert!(found.iter().any(|line| line.contains("is not of type \"string\"")), "{found:?}");
    assert!(found.iter().any(|line| line.contains("\"cells\" is a required property")), "{found:?}");
}

#[test]
fn results_of_a_test_and_their_comparison_conform() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, seed) in [("a", "1"), ("b", "2")] {
        let arguments = [
            "test",
            "model:sata",
            "-s",
            "bfq:low_latency=0",
            "-s",
            "wfq",
            "-w",
            "drr",
            "-w",
            "drw",
            "--weights",
            "300,100",
            "--sets",
            "2",
            "--runtime",
            "1s",
            "--seed",
            seed,
            "--assert",
            "share_error_max<=50%",
            "--quiet",
            "--outdir",
            name,
            "--format",
            "json",
        ];
        let said = hoistway(directory.path(), &arguments);
        assert!([0, 4, 5].contains(&said.code), "{}", said.stderr);
        conforms("test", &said.stdout);
        let stored = std::fs::read_to_string(directory.path().join(name).join("result.json")).expect("stored");
        conforms("test", &stored);
    }
    let said = hoistway(directory.path(), &["compare", "a", "b", "--json", "--max-regression", "1%@lat_p99"]);
    assert!([0, 4, 5].contains(&said.code), "{}", said.stderr);
    conforms("compare", &said.stdout);
    let verdicts = parsed(&said.stdout)["changes"].as_array().expect("changes").clone();
    assert!(verdicts.iter().any(|change| change["verdict"].is_string()), "{}", said.stdout);
}

#[test]
fn results_of_a_replay_conform() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut text = String::from("time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n");
    for number in 0..200_u64 {
        text += &format!("{},8:16,read,{},4096,,1000,w,0,,90000\n", number * 1_000_000, number * 65_536);
    }
    std::fs::write(directory.path().join("t.csv"), text).expect("written");
    let arguments = ["replay", "t.csv", "model:sata", "-s", "noop", "--no-store", "--quiet", "--format", "json"];
    let said = hoistway(directory.path(), &arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    conforms("test", &said.stdout);
    assert!(parsed(&said.stdout)["cells"][0]["slip_ns"]["n"].is_u64(), "{}", said.stdout);
}

#[test]
fn a_recommendation_conforms() {
    let said = hoistway(Path::new("/"), &["tune", "model:sata", "--quick", "--json", "--quiet"]);
    // Exit code 5: the figures are too noisy to decide. The document is complete then too.
    assert!([0, 5].contains(&said.code), "{}", said.stderr);
    conforms("tune", &said.stdout);
}

#[test]
fn intervals_of_top_conform() {
    let arguments = ["top", "--format", "json", "--speed", "100", "--", "model:ssd", "--runtime", "1s"];
    let said = hoistway(Path::new("/"), &arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!said.stdout.is_empty());
    said.stdout.lines().for_each(|line| conforms("top", line));
}

#[test]
fn the_status_of_a_server_conforms() {
    let exports = ["--export", "db=memory:4MiB,weight=300", "--export", "ci=null:1MiB,unsafe_flush"];
    let server = served::Served::flags(served::directory(), &exports);
    let (text, code) = server.ctl(&["limit", "db", "io.max", "rbps=50000000"]);
    assert_eq!(code, Some(0), "{text}");
    let (text, code) = server.ctl(&["status"]);
    assert_eq!(code, Some(0), "{text}");
    conforms("ctl-status", &text);
    assert_eq!(parsed(&text)["ok"]["groups"].as_array().map(Vec::len), Some(2), "{text}");
}

#[test]
fn the_list_of_devices_conforms() {
    let Some(_guard) = rig::possible("the_list_of_devices_conforms") else { return };
    let device = rig::Rig::create(&["ssd"]);
    let said = hoistway(Path::new("/"), &["device", "list", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    conforms("device-list", &said.stdout);
    assert!(said.stdout.contains("\"keeper\""), "{}: {}", device.node, said.stdout);
}
