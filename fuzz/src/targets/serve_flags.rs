//! Fuzzes `serve` without a configuration file: arbitrary values of `--nbd`, `--export`,
//! `--group`, `--device`, `--scheduler`, `--memory`, and the flags of TLS.

use crate::target::{Seen, Target};
use hoistway_export::configuration::file;
use hoistway_export::configuration::flags::{Flags, read};
use hoistway_export::configuration::show::show;

pub const TARGET: Target = Target {
    name: "serve-flags",
    promise: "no panic; what is accepted can be shown as a file that reads back as itself",
    run,
    corpus,
    tokens: &[
        b"n",
        b"e",
        b"s",
        b"m",
        b"q",
        b"g",
        b"d",
        b"read_bps_max=",
        b"io.max=",
        b"threads=",
        b"cpu=",
        b"mode=",
        b"c",
        b"k",
        b"a",
        b"p",
        b"\n",
        b"unix:",
        b"tcp:",
        b"127.0.0.1",
        b"[::1]",
        b":10809",
        b"=",
        b",",
        b"weight=",
        b"group=",
        b"read_only",
        b"min_block=",
        b"description=",
        b"unsafe_flush",
        b"10000",
        b"10001",
        b"memory:1GiB",
        b"null:",
        b"KiB",
        b"TiB",
        b"\"",
        b"\\",
        b"\xc3\xa4",
    ],
    longest_bytes: 2_048,
};

/// Each line is a flag: its first letter selects the flag, the rest is the value.
fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    let mut flags = Flags::default();
    for line in text.lines() {
        let mut letters = line.chars();
        match (letters.next(), letters.as_str().to_owned()) {
            (Some('n'), value) => flags.nbd.push(value),
            (Some('e'), value) => flags.export.push(value),
            (Some('g'), value) => flags.group.push(value),
            (Some('d'), value) => flags.device.push(value),
            (Some('s'), value) => flags.scheduler = Some(value),
            (Some('m'), value) => flags.memory = Some(value),
            (Some('q'), value) => flags.queue_depth = value.parse().ok(),
            (Some('c'), value) => flags.tls_certificate = Some(value.into()),
            (Some('k'), value) => flags.tls_key = Some(value.into()),
            (Some('a'), value) => flags.tls_client_ca = Some(value.into()),
            (Some('p'), _) => flags.allow_plain = true,
            _ => {}
        }
    }
    match read(&flags) {
        Ok(configuration) => {
            let shown = show(&configuration);
            let again = file::read("shown", &shown).unwrap_or_else(|problems| {
                panic!(
                    "what is shown is refused: {}\n{shown}",
                    problems.first().map_or(String::new(), ToString::to_string)
                )
            });
            assert_eq!(show(&again), shown, "what is shown reads back as itself");
            let exports = configuration.devices.first().map_or(0, |device| device.exports.len());
            Seen::NOTHING
                .and_count(exports)
                .and_count(configuration.listeners.len())
                .and_count(configuration.groups.len())
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a problem");
            problems.iter().take(3).fold(Seen::NOTHING, |seen, problem| seen.and_message(&problem.help, text))
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    [
        "nunix:/run/a.sock\nea=/dev/shm/a.img,weight=300\neb=/dev/shm/b.img,weight=100,read_only\nswfq\nm256MiB\nq8",
        "ntcp:127.0.0.1:10809\nntcp:[::1]:0\nea=memory:1GiB,group=x/y,min_block=4096,description=hello",
        "nunix:/a,mode=0666,exports=a,exports=b*\nea=memory:1GiB\nga,weight=3,read_bps_max=50MiB,io.max=wiops=9\ndcpu=0,cpu=1",
        "nunix:/a\nntcp:0.0.0.0:10809\nea=memory:1GiB\ncc.pem\nkk.pem\naca.pem",
        "ntcp:0.0.0.0:10809\nea=memory:1GiB\np",
        "n\ne\ns\nm\nq\ng\nd",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
