//! States that are possible, states that are not, and their command lines.

use super::*;

fn first() -> State {
    State::first("ssd", &[]).unwrap()
}

/// The message for the state after this change of its text.
fn refused(from: &str, to: &str) -> String {
    let text = serde_json::to_string(&first()).unwrap();
    assert!(text.contains(from), "{text}");
    match serde_json::from_str::<State>(&text.replacen(from, to, 1)) {
        Ok(state) => state.check("model:ssd").and_then(|()| state.experiments().map(|_| ())).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_state_survives_its_text() {
    let mut state = first();
    state.changes.push(Change { at_ns: 5, what: What::Weight { tenant: 1, weight: 800 } });
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    assert!(state.check("model:ssd").is_ok());
}

#[test]
fn what_a_tampered_link_asks_for_is_refused() {
    for (from, to, said) in [
        ("model:ssd", "model:/etc/passwd.toml", "there is no device"),
        ("model:ssd", "/dev/sda", "there is no device"),
        ("model:ssd", "model:ssd,capacity_sectors=999999999999", "'capacity_sectors"),
        ("\"weight\":400", "\"weight\":0", "0 is outside 1 to 10000"),
        ("\"depth\":32", "\"depth\":100000", "100000 is outside 1 to 256"),
        ("\"block\":4096", "\"block\":4097", "a multiple of 512"),
        ("\"name\":\"web\"", "\"name\":\"db\"", "is there twice"),
        ("\"name\":\"web\"", "\"name\":\"<b>\"", "is no name"),
        ("\"paternoster\"", "\"paternoster;reboot\"", "no scheduler"),
        ("\"paternoster\"", "\"paternosta\"", "nearest: paternoster"),
        ("\"paternoster\"", "\"none\"", "given twice"),
        ("\"seed\":1", "\"seed\":1,\"extra\":2", "unknown field"),
        (
            "\"on\":true",
            "\"on\":true,\"workload\":\"dsr:filename=/etc/shadow\"",
            "'filename=/etc/shadow' is not possible",
        ),
        ("\"on\":true", "\"on\":true,\"more\":\"threads=5000\"", "5000 is outside"),
        ("\"length_ms\":60000", "\"length_ms\":99999999999", "outside"),
        ("\"seed\":1", "\"seed\":1,\"changes\":[{\"at_ns\":1,\"what\":\"on\",\"tenant\":9,\"on\":true}]", "no tenant"),
        ("\"seed\":1", "\"seed\":1,\"machine\":\"memory_mib=900000\"", "outside"),
    ] {
        let message = refused(from, to);
        assert!(message.contains(said), "{to}: {message}");
    }
}

#[test]
fn a_command_line_has_the_settings_that_the_changes_led_to() {
    let mut state = first();
    assert_eq!(
        state.command(),
        (
            "hoistway test model:ssd --group name=db,weight=400,workload=randread:bs=4k,iodepth=32 \
             --group name=web,weight=200,workload=randread:bs=4k,iodepth=32 \
             --group name=batch,weight=100,workload=randread:bs=4k,iodepth=64 -s none -s paternoster --seed 1 \
             --runtime 60s --ramp 0"
                .to_owned(),
            true
        )
    );
    state.changes.push(Change { at_ns: 1_234_567, what: What::Weight { tenant: 2, weight: 800 } });
    let load = What::Load { tenant: 0, depth: 4, block: 16_384, read: 70, random: false };
    state.changes.push(Change { at_ns: 2_000_000, what: load });
    let tunable = What::Tunable { lane: 1, name: "give".to_owned(), value: "10".to_owned() };
    state.changes.push(Change { at_ns: 2_000_001, what: tunable });
    let (line, is_exact) = state.command();
    assert!(!is_exact && line.contains("name=db,weight=400,workload=rw:rwmixread=70,bs=16k,iodepth=4"), "{line}");
    assert!(line.contains("name=batch,weight=800,workload=") && line.contains("-s paternoster:give=10"), "{line}");
}
