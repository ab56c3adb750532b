//! The command `hoistway`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    hoistway_cli::main()
}
