//! A light NBD client for measuring servers: one thread per connection, a batch of requests per
//! send.
//!
//! ```text
//! cargo run --release -p hoistway-export --example light_client -- SOCKET EXPORT [--connections 1] [--depth 32]
//!     [--bs 4096] [--rw read|write] [--seconds 2]
//! ```
//! Prints one line of JSON: requests per second, bytes per second, its own CPU per request in
//! microseconds. fio's nbd engine costs 4.5 to 7 µs of CPU per request, this client about 1 to 2,
//! so that the measurement shows the server and not the client.

use hoistway_block::random::Stream;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const REPLY_BYTES: usize = 16;

#[derive(Clone)]
struct Load {
    socket: String,
    export: String,
    connections: u64,
    depth: usize,
    block_bytes: usize,
    is_write: bool,
    seconds: f64,
}

fn main() -> ExitCode {
    let load = match parse(std::env::args().skip(1).collect()) {
        Ok(load) => load,
        Err(message) => {
            eprintln!(
                "light_client: {message}\nusage: light_client SOCKET EXPORT [--connections N] [--depth N] [--bs BYTES] [--rw read|write] [--seconds S]"
            );
            return ExitCode::from(2);
        }
    };
    let workers: Vec<_> = (0..load.connections)
        .map(|index| {
            let load = load.clone();
            std::thread::spawn(move || run(&load, index))
        })
        .collect();
    let mut requests = 0_u64;
    for worker in workers {
        match worker.join().expect("a worker does not panic") {
            Ok(done) => requests += done,
            Err(error) => {
                eprintln!("light_client: {}: {error}", load.socket);
                return ExitCode::from(1);
            }
        }
    }
    let cpu_us = own_cpu_us().unwrap_or(0.0);
    println!(
        "{{\"iops\": {:.1}, \"bw_bytes\": {:.0}, \"client_cpu_us_per_request\": {:.3}}}",
        requests as f64 / load.seconds,
        requests as f64 * load.block_bytes as f64 / load.seconds,
        cpu_us / requests.max(1) as f64,
    );
    ExitCode::SUCCESS
}

fn parse(arguments: Vec<String>) -> Result<Load, String> {
    let mut places = Vec::new();
    let mut load = Load {
        socket: String::new(),
        export: String::new(),
        connections: 1,
        depth: 32,
        block_bytes: 4096,
        is_write: false,
        seconds: 2.0,
    };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if !argument.starts_with("--") {
            places.push(argument);
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{argument} wants a value"))?;
        let bad = || format!("{argument} {value}: not understood");
        match argument.as_str() {
            "--connections" => load.connections = value.parse().map_err(|_| bad())?,
            "--depth" => load.depth = value.parse().map_err(|_| bad())?,
            "--bs" => load.block_bytes = value.parse().map_err(|_| bad())?,
            "--seconds" => load.seconds = value.parse().map_err(|_| bad())?,
            "--rw" if value == "read" || value == "write" => load.is_write = value == "write",
            _ => return Err(bad()),
        }
    }
    let [socket, export] = <[String; 2]>::try_from(places).map_err(|_| "SOCKET and EXPORT are wanted".to_owned())?;
    (load.socket, load.export) = (socket, export);
    Ok(load)
}

fn number<const N: usize>(stream: &mut UnixStream) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Negotiates fixed newstyle, GO and simple replies. Returns the export's size in bytes.
fn negotiate(stream: &mut UnixStream, export: &str) -> std::io::Result<u64> {
    let _greeting: [u8; 18] = number(stream)?;
    stream.write_all(&3_u32.to_be_bytes())?;
    let name_bytes = u32::try_from(export.len()).expect("a short name");
    let mut option = Vec::new();
    option.extend(OPTION_MAGIC);
    option.extend(OPTION_GO.to_be_bytes());
    option.extend((name_bytes + 6).to_be_bytes());
    option.extend(name_bytes.to_be_bytes());
    option.extend(export.as_bytes());
    option.extend(0_u16.to_be_bytes());
    stream.write_all(&option)?;
    let mut size_bytes = 0;
    loop {
        let _magic_and_option: [u8; 12] = number(stream)?;
        let kind = u32::from_be_bytes(number(stream)?);
        let length = u32::from_be_bytes(number(stream)?);
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match kind {
            REPLY_ACK => return Ok(size_bytes),
            REPLY_INFO if data.len() == 12 => {
                size_bytes = u64::from_be_bytes(data[2..10].try_into().expect("eight bytes"));
            }
            REPLY_INFO => {}
            _ => return Err(std::io::Error::other(format!("the server refused: {}", String::from_utf8_lossy(&data)))),
        }
    }
}

fn request(load: &Load, cookie: u64, blocks: u64, random: &mut Stream, payload: &[u8], out: &mut Vec<u8>) {
    out.extend(REQUEST_MAGIC.to_be_bytes());
    out.extend([0, 0, 0, u8::from(load.is_write)]);
    out.extend(cookie.to_be_bytes());
    out.extend((random.below(blocks) * load.block_bytes as u64).to_be_bytes());
    out.extend(u32::try_from(load.block_bytes).expect("a block fits 32 bits").to_be_bytes());
    if load.is_write {
        out.extend(payload);
    }
}

/// Keeps `depth` requests in flight until the time is up; returns the number answered in that time.
fn run(load: &Load, index: u64) -> std::io::Result<u64> {
    let mut stream = UnixStream::connect(&load.socket)?;
    let blocks = (negotiate(&mut stream, &load.export)? / load.block_bytes as u64).max(1);
    let mut random = Stream::of(index, "light_client");
    let payload = vec![0x5a; load.block_bytes];
    let (mut out, mut buffer, mut filled) = (Vec::new(), vec![0; 1 << 20], 0);
    let reply_bytes = REPLY_BYTES + if load.is_write { 0 } else { load.block_bytes };
    if buffer.len() < 2 * reply_bytes {
        buffer.resize(2 * reply_bytes, 0);
    }
    for cookie in 0..load.depth {
        request(load, cookie as u64, blocks, &mut random, &payload, &mut out);
    }
    stream.write_all(&out)?;
    let (mut done, mut in_flight) = (0, load.depth);
    let end = Instant::now() + Duration::from_secs_f64(load.seconds);
    let mut is_over = false;
    while in_flight > 0 {
        filled += stream.read(&mut buffer[filled..])?;
        let replies = filled / reply_bytes;
        out.clear();
        for reply in buffer[..replies * reply_bytes].chunks_exact(reply_bytes) {
            check(reply)?;
            let cookie = u64::from_be_bytes(reply[8..16].try_into().expect("eight bytes"));
            if !is_over {
                request(load, cookie, blocks, &mut random, &payload, &mut out);
            }
        }
        buffer.copy_within(replies * reply_bytes..filled, 0);
        filled -= replies * reply_bytes;
        if is_over {
            in_flight -= replies;
        } else {
            done += replies as u64;
            is_over = Instant::now() >= end;
            stream.write_all(&out)?;
        }
    }
    Ok(done)
}

fn check(reply: &[u8]) -> std::io::Result<()> {
    let magic = u32::from_be_bytes(reply[..4].try_into().expect("four bytes"));
    let error = u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"));
    if magic == REPLY_MAGIC && error == 0 {
        return Ok(());
    }
    Err(std::io::Error::other(format!("reply magic {magic:#x}, error {error}")))
}

/// User and system time of this process in microseconds, from /proc.
fn own_cpu_us() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks * 10_000.0)
}
