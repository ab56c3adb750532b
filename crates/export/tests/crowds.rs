//! Strangers that hold what a client needs before it is known: places in the handshake, connections, the backlog.

mod client;
mod server;
mod tls_client;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use client::{Client, go_data, greet, option_bytes};
use hoistway_export::configuration::{Address, Place, Sourced};
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{option, reply};
use hoistway_export::server::socket::listen;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use server::Running;
use tls_client::{Fixture, attempt};

/// A connection from another address of the loopback network.
fn connect_from(source: Ipv4Addr, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((source, 0)))?;
    rustix::net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

/// The address of the numbered stranger.
fn stranger(number: u32) -> Ipv4Addr {
    let [_, b, c, d] = (number % 16_000_000 + 2).to_be_bytes();
    Ipv4Addr::new(127, b, c, d)
}

#[test]
fn half_open_handshakes_from_thousands_of_addresses_shut_no_client_out() {
    let fixture = Fixture::open();
    let (address, over, count) = (fixture.address(), AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = std::collections::VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                let number = count.fetch_add(1, Ordering::Relaxed);
                // The server may have ended it meanwhile.
                if let Ok(mut stream) = connect_from(stranger(number), address) {
                    let starttls =
                        [&3_u32.to_be_bytes()[..], &option_bytes(option::STARTTLS, &[]), &[22, 3, 1]].concat();
                    let _ = stream.write_all(&starttls);
                    held.push_back(stream);
                }
                if held.len() > 3_000 {
                    held.pop_front();
                }
            }
        });
        while count.load(Ordering::Relaxed) < 3_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let tries = 10;
        // A thread of its own for each, because a client that is cut off panics.
        let good = || attempt(address, fixture.config(None), "localhost").is_ok();
        let admitted = (0..tries).filter(|_| scope.spawn(good).join().is_ok_and(|is_ok| is_ok)).count();
        over.store(true, Ordering::Relaxed);
        println!("{admitted} of {tries} beside {} strangers", count.load(Ordering::Relaxed));
        assert!(admitted >= 9, "{admitted} of {tries}");
    });
}

#[test]
fn long_options_and_unread_answers_of_strangers_are_bounded_together() {
    let server =
        Running::with("[[device]]\nname = \"m\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n");
    let resident = || -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
    };
    Client::open(server.socket(), "a", ReplyForm::Simple).assert_alive();
    let before = resident();
    let mut strangers = Vec::new();
    for _ in 0..1_000 {
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        greet(&mut stream, 3);
        // All but the last byte of the longest option that is kept.
        let mut option = option_bytes(option::INFO, &[0; 64 * 1024]);
        option.pop();
        if stream.write_all(&option).is_ok() {
            strangers.push(stream);
        }
    }
    Client::open(server.socket(), "a", ReplyForm::Simple).assert_alive();
    let grown = resident().saturating_sub(before);
    // Ceiling, what the allocator keeps, and the test's own thousand buffers.
    assert!(grown < 48 << 20, "{} MiB for handshakes", grown >> 20);
}

#[test]
fn a_tenant_behind_the_address_of_another_has_its_reserve() {
    let server = Running::with(
        "[[device]]\nname = \"m\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
         [[device.export]]\nname = \"b\"\nbacking = \"memory:1MiB\"\n[[listen]]\ntcp = \"127.0.0.1:0\"\n",
    );
    let status = server.status();
    let addresses = status["listeners"].as_array().unwrap().iter();
    let address: SocketAddr = addresses
        .filter_map(|it| it["address"].as_str().unwrap().strip_prefix("tcp:"))
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let open = |export: &str, source: Ipv4Addr| {
        let mut stream = connect_from(source, address).unwrap();
        greet(&mut stream, 3);
        let mut client = Client::over(stream);
        let kind = client.option(option::GO, &go_data(export)).last().unwrap().kind;
        if kind == reply::ACK { Ok(client) } else { Err(kind) }
    };
    let home = Ipv4Addr::LOCALHOST;
    let mut held = Vec::new();
    while let Ok(client) = open("a", home) {
        held.push(client);
        assert!(held.len() < 256, "a has all connections");
    }
    assert_eq!(held.len(), 224);
    for number in 0..8 {
        let client = open("b", home);
        held.push(client.unwrap_or_else(|kind| panic!("client {number} of b: {kind:#x}")));
    }
    assert_eq!(open("b", home).err(), Some(reply::POLICY));
    // The other half is for those elsewhere.
    (0..8).for_each(|_| held.push(open("b", Ipv4Addr::new(127, 0, 0, 2)).unwrap()));
    drop(held);
}

#[test]
fn clients_that_do_not_wait_find_room_in_the_backlog() {
    let somaxconn: usize = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let address = Address::Unix { path: path.clone(), mode: 0o600, owner_group: None };
    let listening = listen(&Sourced::new(address, &Place::flag("test", ""))).unwrap();
    let name = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let connect = || {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        rustix::net::connect(&socket, &name).map(|()| socket)
    };
    let wanted = somaxconn.min(700);
    let waiting: Vec<_> = (0..wanted).map_while(|_| connect().ok()).collect();
    assert_eq!(waiting.len(), wanted);
    drop(listening);
}

#[test]
fn b39_one_connection_too_many_is_closed_at_once() {
    let server = Running::listening(
        "max_connections = 3\n",
        "[[device]]\nname = \"m\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n",
    );
    let mut clients: Vec<_> = (0..3).map(|_| Client::open(server.socket(), "a", ReplyForm::Simple)).collect();
    let mut extra = UnixStream::connect(server.socket()).unwrap();
    extra.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(extra.read(&mut [0; 18]).unwrap(), 0, "closed before any greeting");
    clients.iter_mut().for_each(Client::assert_alive);
    // A released slot can be taken again.
    drop(clients.pop());
    server.await_that("the place of a client that left is given back", |_| {
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.read_exact(&mut [0; 18]).is_ok()
    });
}
