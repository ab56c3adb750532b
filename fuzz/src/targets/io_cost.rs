//! Fuzzes io.cost with any sequence of calls that a host may make.

use crate::target::{Seen, Target};
use hoistway_block::{Extent, Flags, GroupId, Nanos, Operation, Status};
use hoistway_elevator::io_cost::{Class, Control, IoCost, Qos};
use hoistway_elevator::{
    Bio, BioId, Depth, GroupSettings, Limiter, LimiterConfiguration, LimiterPolicy, RequestEnd, Verdict,
};

pub const TARGET: Target = Target {
    name: "io-cost",
    promise: "no panic, every invariant holds, each held bio is released once and none is left at the end",
    run,
    corpus: || {
        vec![
            [0x00, 0x11, 0x22, 0x33].repeat(16),
            [0x01, 0x02, 0x03, 0x90, 0xa0, 0xb0].repeat(20),
            (0..=255).collect(),
            [0x00, 0xf0, 0x10, 0x60, 0x00, 0x80].repeat(30),
        ]
    },
    tokens: &[b"\x00\x00", b"\x90\xff", b"\xa0\xff", b"\x60\x01", b"\x70\x07"],
    longest_bytes: 2_048,
};

const BIOS: u32 = 256;
/// Group 0 is the root; 3 and 4 are children of 1, 5 is a child of 4.
const PARENTS: [u32; 6] = [0, 0, 0, 1, 1, 4];

/// A host that tracks which bios are unused, held, or released.
struct Host {
    io_cost: IoCost,
    now: Nanos,
    free: Vec<u32>,
    held: Vec<u32>,
    gone: Vec<u32>,
    bios: Vec<Bio>,
    seen: Seen,
}

impl Host {
    fn new() -> Self {
        let configuration = LimiterConfiguration {
            bios: BIOS,
            groups: 6,
            depth: Depth { requests: 64, device: 32 },
            rotational: false,
            volatile_cache: false,
            tick_ns: 0,
        };
        let mut io_cost = IoCost::build(&configuration).expect("memory");
        for (group, parent) in (1..).zip(PARENTS.into_iter().skip(1)) {
            let settings = GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(100) };
            io_cost.group_added(GroupId(group), &settings, 0);
        }
        let free = (0..BIOS).rev().collect();
        let bios = vec![Bio::new(Operation::Read, Extent::new(0, 8)); BIOS as usize];
        Self { io_cost, now: 1, free, held: Vec::new(), gone: Vec::new(), bios, seen: Seen::NOTHING }
    }

    fn submit(&mut self, what: u8, how: u8) {
        let Some(id) = self.free.pop() else { return };
        let operation = match how & 7 {
            0..=3 => Operation::Read,
            4..=6 => Operation::Write,
            _ => Operation::Discard,
        };
        let flags = if how & 0x30 == 0x30 { Flags::META } else { Flags::NONE };
        let extent = Extent::new(u64::from(how) << 12, 8 << (what & 7));
        let bio = Bio { group: GroupId(u32::from(how) % 6), flags, ..Bio::new(operation, extent) };
        self.bios[id as usize] = bio;
        match self.io_cost.submit(BioId(id), &bio, self.now) {
            Verdict::Pass => self.gone.push(id),
            Verdict::Held => self.held.push(id),
        }
    }

    fn collect(&mut self) {
        while let Some(BioId(id)) = self.io_cost.next_released(self.now) {
            let place = self.held.iter().position(|held| *held == id).expect("only what was held is released");
            self.held.remove(place);
            self.gone.push(id);
            self.seen = self.seen.and(b"released");
        }
    }

    fn end_one(&mut self, which: u8) {
        if self.gone.is_empty() {
            return;
        }
        let id = self.gone.swap_remove(usize::from(which) % self.gone.len());
        let bio = self.bios[id as usize];
        let start_ns = self.now.saturating_sub(u64::from(which) << 18).max(1);
        let end = RequestEnd { attributes: bio, start_ns, issued_ns: start_ns, status: Status::Ok };
        self.io_cost.request_ended(&end, self.now);
        self.io_cost.bio_ended(BioId(id), &bio, start_ns, self.now);
        self.free.push(id);
    }

    fn change(&mut self, what: u8, how: u8) {
        let percent = u32::from(how) * 10_000;
        let control = if what & 1 == 0 { Control::User } else { Control::Auto };
        let latency_us = u64::from(how) << (what & 7);
        let qos = Qos { control, read_ppm: percent.min(1_000_000), read_latency_us: latency_us, ..Class::Flash.qos() };
        let qos = Qos { min_ppm: percent, is_enabled: how != 0xff, ..qos };
        self.io_cost.set_qos(&qos, self.now).expect("in range");
    }

    /// A step from two bytes: the kind (upper half) and its parameter.
    fn step(&mut self, what: u8, how: u8) {
        match what >> 4 {
            0..=5 => self.submit(what, how),
            6 => self.now += u64::from(how) << (what & 15),
            7..=9 => {
                if let Some(at) = self.io_cost.next_timer() {
                    self.now = self.now.max(at) + u64::from(how);
                    self.io_cost.timer(self.now);
                }
            }
            10..=11 => self.end_one(how),
            12 => {
                if let Some(&id) = self.gone.last() {
                    self.io_cost.merged(BioId(id), &self.bios[id as usize], self.now);
                }
            }
            13 => {
                let settings = GroupSettings::with_weight(u32::from(how) * 40);
                self.io_cost.group_changed(GroupId(u32::from(what) % 6), &settings, self.now);
            }
            14 => self.change(what, how),
            _ => self.io_cost.waited_for_request(u64::from(how) << 18),
        }
        self.collect();
        assert_eq!(self.io_cost.check(), Ok(()));
        assert_eq!(self.io_cost.violations(), 0, "the host did nothing wrong");
        assert_eq!(self.io_cost.held() as usize, self.held.len());
    }
}

fn run(bytes: &[u8]) -> Seen {
    let mut host = Host::new();
    for pair in bytes.chunks_exact(2) {
        host.step(pair[0], pair[1]);
    }
    host.io_cost.drain(host.now);
    host.collect();
    assert!(host.held.is_empty(), "{} bios are left", host.held.len());
    let in_debt = (1..6).any(|group| host.io_cost.debt_ns(GroupId(group)) > 0);
    host.seen.and(&[u8::from(in_debt)]).and_count(host.gone.len())
}
