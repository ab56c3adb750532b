//! Replays one storm: `cargo run -p hoistway-simulator --example storm -- POLICY SEED BIOS`.

use std::process::ExitCode;

use hoistway_simulator::Storm;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [policy, seed, bios] = arguments.as_slice() else {
        eprintln!("usage: storm POLICY SEED BIOS, for example: storm mq-deadline 42 10000");
        return ExitCode::from(2);
    };
    let (Ok(seed), Ok(bios)) = (seed.parse(), bios.parse()) else {
        eprintln!("error: SEED '{seed}' and BIOS '{bios}' must be whole numbers");
        return ExitCode::from(2);
    };
    match (Storm { policy: policy.clone(), seed, bios }).run() {
        Ok(report) => {
            println!("{report:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
