//! Replays a log of a kernel's BFQ: our policy gets the same calls at the same times, and its
//! answers are compared.

use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};
use hoistway_block::{Class, ContextId, Extent, HardwareQueue, Nanos, Operation, Priority, RequestId};
use hoistway_elevator::{
    Any, Bio, Configuration, Depth, Dispatch, Elevator, Hint, Place, Position, Requests, registry,
};
use std::collections::{BTreeMap, VecDeque};

/// An issuer that never sends anything.
const STRANGER: ContextId = ContextId(99);

pub struct Outcome {
    pub events: usize,
    /// Events before the first difference.
    pub same: usize,
    pub first_difference: Option<String>,
    /// Turns of queues in the part of the kernel's log that was replayed.
    pub turns: usize,
    /// Requests in that part.
    pub requests: usize,
    /// The events and our messages.
    lines: Vec<String>,
}

impl Outcome {
    pub fn last_lines(&self) -> String {
        self.lines[self.lines.len().saturating_sub(40)..].join("\n")
    }
}

pub struct Replay {
    policy: Any,
    requests: Requests,
    began: Nanos,
    now: Nanos,
    /// By first sector, oldest first.
    in_device: BTreeMap<u64, VecDeque<RequestId>>,
    levels: BTreeMap<u32, u8>,
    /// Ends of turns that have not been compared yet: ours, and the kernel's.
    ends: Vec<String>,
    expected: Vec<String>,
    turns: usize,
    inserted: usize,
    lines: Vec<String>,
}

impl Replay {
    pub fn new(spec: &str, log: &str) -> Self {
        let (version, tunables) = spec.split_once(':').unwrap_or((spec, ""));
        let configuration = Configuration {
            slots: 1_024,
            groups: 4,
            contexts: 100,
            depth: Depth { requests: 256, device: 128 },
            rotational: log.lines().any(|line| line == "# rotational 1"),
            tick_ns: 4 * MILLISECOND,
            batch_times: true,
            ..Configuration::default()
        };
        let policy = registry::build("bfq", registry::parse_version(version), &configuration);
        let began = 100 * SECOND;
        let mut replay = Self {
            policy: policy.expect("a version"),
            requests: Requests::try_new(configuration.slots).expect("memory"),
            began,
            now: began,
            in_device: BTreeMap::new(),
            levels: BTreeMap::new(),
            ends: Vec::new(),
            expected: Vec::new(),
            turns: 0,
            inserted: 0,
            lines: Vec::new(),
        };
        replay.policy.trace(true);
        for setting in tunables.split(',').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').expect("name=value");
            let row = replay.policy.tunables().iter().position(|row| row.name == name).expect("a tunable");
            replay.policy.set(row, value.parse().expect("a number")).expect("a value");
        }
        replay
    }

    pub fn run(mut self, log: &str) -> Outcome {
        let events = log.lines().count();
        let (mut same, mut first_difference) = (0, None);
        for line in log.lines() {
            self.lines.push(format!("# {line}"));
            if let Err(difference) = self.event(line) {
                first_difference = Some(format!("line {}: {line}: {difference}", same + 1));
                break;
            }
            same += 1;
        }
        let (turns, requests, lines) = (self.turns, self.inserted, self.lines);
        Outcome { events, same, first_difference, turns, requests, lines }
    }

    fn event(&mut self, line: &str) -> Result<(), String> {
        if let Some(issuers) = line.strip_prefix("# issuers: ") {
            for issuer in issuers.split(' ') {
                let (number, level) = issuer.split_once(":be").expect("N:beL");
                self.levels.insert(number.parse().unwrap(), level.parse().unwrap());
            }
            return Ok(());
        }
        if let Some(at) = line.strip_prefix("# tick at ") {
            let at: u64 = at.parse().unwrap();
            self.began = 100 * SECOND - at * MICROSECOND;
            return Ok(());
        }
        if line.starts_with('#') {
            return Ok(());
        }
        let words: Vec<&str> = line.split(' ').collect();
        let at: u64 = words[0].parse().unwrap();
        let age: u64 = if matches!(words[1], "i" | "d") { words[words.len() - 1].parse().unwrap() } else { 0 };
        self.now = self.began + at * MICROSECOND;
        // The time of a batch lags behind, but the kernel's ticks do not. So bfq sees the real time
        // first, in a call that has no other effect.
        let _ = self.policy.context_exited(STRANGER, self.now);
        self.now -= age * MICROSECOND;
        match words[1] {
            "i" => self.insert(words[2].parse().unwrap(), words[3].parse().unwrap(), words[4].parse().unwrap()),
            "c" => return self.complete(words[2].parse().unwrap()),
            "d" => return self.dispatch(words[2], words[3]),
            "e" => return self.turn_ends(&words[2..].join(" ")),
            "w" => {}
            other => panic!("{other}"),
        }
        Ok(())
    }

    fn insert(&mut self, issuer: u32, sector: u64, sectors: u32) {
        let bio = Bio {
            context: ContextId(issuer),
            priority: Priority::new(Class::BestEffort, self.levels[&issuer]),
            ..Bio::new(Operation::Read, Extent::new(sector, sectors))
        };
        self.inserted += 1;
        let id = self.requests.allocate(bio, self.now).expect("a free slot");
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
        self.listen();
    }

    fn complete(&mut self, sector: u64) -> Result<(), String> {
        let Some(id) = self.in_device.get_mut(&sector).and_then(|ids| ids.pop_front()) else {
            return Err("ours has not dispatched it".to_owned());
        };
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Complete);
        self.requests.free(id);
        self.listen();
        Ok(())
    }

    fn dispatch(&mut self, expected_queue: &str, expected: &str) -> Result<(), String> {
        let answer = self.policy.choose(&self.requests, HardwareQueue(0), self.now);
        let (mut sector, mut issuer) = ("-".to_owned(), "-".to_owned());
        if let Dispatch::Request { id, .. } = answer {
            self.requests.move_to(id, Place::Dispatched);
            if let Some(request) = self.requests.move_to(id, Place::Started) {
                request.issued_ns = self.now;
            }
            let _ = self.policy.started(&self.requests, id, self.now);
            let first = self.requests.attributes(id).extent.first_sector;
            self.in_device.entry(first).or_default().push_back(id);
            sector = first.to_string();
            issuer = self.requests.attributes(id).context.0.to_string();
        }
        self.listen();
        let is_same = match (expected_queue, expected) {
            ("?", "?") => issuer != "-",
            (queue, "?") => issuer == queue,
            (_, sector_there) => sector == sector_there,
        };
        if !is_same {
            return Err(format!("ours {issuer} {sector}"));
        }
        self.compare_ends(true)
    }

    /// The kernel ended a turn. It logs this after the call that ended it, except that a dispatch
    /// is logged when it answers.
    fn turn_ends(&mut self, expected: &str) -> Result<(), String> {
        let is_timer_due = self.policy.next_timer().is_some_and(|at| at <= self.now);
        let reason = expected.split(' ').nth(1);
        if self.ends.is_empty() && (reason == Some("0") || (reason == Some("1") && is_timer_due)) {
            let _ = self.policy.timer(&self.requests, self.now);
            self.listen();
        }
        self.turns += 1;
        self.expected.push(expected.to_owned());
        self.compare_ends(reason == Some("0"))
    }

    fn compare_ends(&mut self, is_complete: bool) -> Result<(), String> {
        while !self.ends.is_empty() && !self.expected.is_empty() {
            let (ours, expected) = (self.ends.remove(0), self.expected.remove(0));
            // A queue that several issuers share has no name in the kernel's log.
            let rest = |end: &str| end.split_once(' ').map(|(_, rest)| rest.to_owned());
            let is_same = if expected.starts_with('?') { rest(&ours) == rest(&expected) } else { ours == expected };
            if !is_same {
                return Err(format!("turn ended {expected}, ours {ours}"));
            }
        }
        if is_complete && !(self.ends.is_empty() && self.expected.is_empty()) {
            return Err(format!("turns ended {:?}, ours {:?}", self.expected, self.ends));
        }
        Ok(())
    }

    fn listen(&mut self) {
        while let Some(message) = self.policy.take_message() {
            let text = message.to_string();
            let about = message.queue.map_or(String::new(), |(context, _)| format!("{} ", context.0));
            self.lines.push(format!("{about}{text}"));
            if text.starts_with("expire (") {
                let numbers: Vec<String> = text
                    .split(|c: char| !c.is_ascii_digit())
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect();
                self.ends.push(format!("{about}{}", numbers.join(" ")));
            }
        }
    }
}
