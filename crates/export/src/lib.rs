//! Block devices for clients: the NBD server, local block devices, disks for virtual machines, their
//! configuration and the control socket.
//!
//! ```
//! use hoistway_export::configuration::{check, file};
//! use hoistway_export::server::CHECKS;
//!
//! let text = r#"
//! device = [{ name = "ssd0", scheduler = "wfq", export = [{ name = "db", backing = "memory:64MiB" }] }]
//! listen = [{ tcp = "127.0.0.1:10809" }]
//! "#;
//! let configuration = file::read("serve.toml", text).expect("no problems of form");
//! assert!(check::check(&configuration, CHECKS).is_empty());
//! assert_eq!((configuration.weight("db"), configuration.drain_timeout_s), (100, 30));
//! let problems = file::read("serve.toml", "drain_timeout_s = 0").expect_err("out of range");
//! assert!(problems[0].to_string().starts_with("hoistway: error: serve.toml:1:19: drain_timeout_s = 0"));
//! ```
//! Units: sizes in bytes ([`configuration::Size`] reads and prints KiB, MiB, GiB, TiB), timeouts in
//! seconds (`_s`), waits of the shard in microseconds (`_us`), figures of the status in nanoseconds
//! (`_ns`). Weights are 1 to 10,000.
//!
//! `nbd/` is the protocol (bytes in, bytes out, no socket), `ublk` makes block devices of this machine,
//! `vhost_user_blk/` serves virtual machines, `tls/` encrypts NBD, `configuration` parses and checks the
//! file and the flags, `server` has the sockets and threads around the engine, `control` the operator's
//! interface, `log` the events of all of them. Unsafe code lives in `vhost_user_blk/guest_memory.rs`
//! only.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod configuration;
pub mod control;
pub mod group_use;
pub mod http;
pub mod log;
pub mod metrics;
pub mod nbd;
pub mod server;
pub mod tls;
pub mod ublk;
pub mod vhost_user_blk;
