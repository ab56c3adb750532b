//! Fuzzes lines of `io.cost.qos`, `io.cost.model` and `io.weight`, as a user may write them.

use crate::target::{Seen, Target};
use hoistway_experiment::io_cost_lines::{
    ModelValues, Percent, QosValues, format_model, format_qos, format_weight, parse_model, parse_qos, parse_weight,
};

pub const TARGET: Target = Target {
    name: "io-cost-lines",
    promise: "no panic; what is accepted is in range and reads back as written",
    run,
    corpus: || {
        [
            "8:0 enable=1 ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00",
            "8:0 ctrl=user model=linear rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6",
            "default 100",
            "8:0 10000",
            "259:1 default",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    },
    tokens: &[
        b"8:0 ",
        b"=",
        b".",
        b"default",
        b"enable=",
        b"ctrl=auto",
        b"ctrl=user",
        b"rpct=",
        b"rlat=",
        b"wpct=",
        b"wlat=",
        b"min=",
        b"max=",
        b"model=linear",
        b"rbps=",
        b"rseqiops=",
        b"rrandiops=",
        b"99.995",
        b"10000",
        b"0",
        b"18446744073709551616",
        b"-1",
    ],
    longest_bytes: 512,
};

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    let none = Percent::whole(0);
    let all = Percent::whole(10_000);
    let before = QosValues {
        is_enabled: true,
        is_user: false,
        read_percent: none,
        read_latency_us: 25_000,
        write_percent: none,
        write_latency_us: 25_000,
        min: Percent::whole(1),
        max: all,
    };
    let mut seen = Seen::NOTHING;
    match parse_qos(text, &before) {
        Ok((device, qos)) => {
            assert!(qos.min <= qos.max && qos.max <= all && qos.read_percent <= Percent::whole(100), "{qos:?}");
            let again = parse_qos(&format_qos(device, &qos), &before).expect("what was written is accepted");
            assert_eq!(again, (device, QosValues { is_user: qos.is_user || again.1.is_user, ..qos }));
            seen = seen.and(b"qos");
        }
        Err(error) => seen = seen.and_message(&error.diagnostic.message, text),
    }
    match parse_model(text, &ModelValues { is_user: false, read: [1; 3], write: [1; 3] }) {
        Ok((device, model)) => {
            let again = parse_model(&format_model(device, &model), &model).expect("what was written is accepted");
            assert_eq!((again.0, again.1.read, again.1.write), (device, model.read, model.write));
            seen = seen.and(b"model");
        }
        Err(error) => seen = seen.and_message(&error.diagnostic.message, text),
    }
    match parse_weight(text) {
        Ok(weight) => {
            assert_eq!(parse_weight(&format_weight(weight)), Ok(weight));
            seen.and(b"weight")
        }
        Err(error) => seen.and_message(&error.diagnostic.message, text),
    }
}
