//! A group as `--group` and [`Experiment::group_spec`](crate::Experiment::group_spec) describe it:
//! its weight, limits, priority and loads.

use hoistway_block::{Class, Priority};
use hoistway_experiment::group::LowLimits;
use hoistway_experiment::{Group, Limits, Reweigh, Weight};
use hoistway_workload::Job;
use hoistway_workload::job::Placement;

use crate::error::Error;
use crate::plan::limiters;
use crate::plan::workloads;
use hoistway_experiment::units;

/// One described group.
#[derive(Debug)]
pub struct Described {
    /// Everything but the jobs, for which it has a placeholder.
    group: Group,
    /// Its concurrent loads. If there are none, the group gets the load of `-w`.
    loads: Vec<Load>,
    /// Number of threads for the loads that specify none.
    threads: u32,
    /// Whether each thread has a file of its own, whatever the workload's default is.
    has_own_files: bool,
    place: String,
}

/// The value of `workload=` for a group that only contains others.
const NO_WORKLOAD: &str = "none";

/// One `workload=` of a group, and the `threads=` after it.
#[derive(Debug)]
struct Load {
    workload: String,
    threads: Option<u32>,
}

impl Described {
    /// A group of which only path and weight are given.
    pub fn plain(path: &str, weight: u32) -> Result<Self, Error> {
        hoistway_experiment::group::check_path(path)?;
        let group = Group::new(path, Weight::new(weight)?, Vec::new());
        Ok(Self { group, loads: Vec::new(), threads: 1, has_own_files: false, place: place_of(path) })
    }

    /// The group with the jobs of its loads. `jobs` are those of a group without a load of its own;
    /// `options`, in the language of job files, apply to all loads.
    pub fn with_jobs(&self, jobs: &[Job], options: &[String]) -> Result<Group, Error> {
        if self.only_holds_others() {
            return Ok(self.group.clone());
        }
        let mut all: Vec<(Vec<Job>, u32)> = Vec::new();
        for load in &self.loads {
            let (_, jobs) =
                workloads::of_name(&load.workload, options).map_err(|error| error.at(self.place.as_str()))?;
            all.push((jobs, load.threads.unwrap_or(self.threads)));
        }
        if all.is_empty() {
            all.push((jobs.to_vec(), self.threads));
        }
        if self.has_own_files && all.iter().any(|(jobs, _)| jobs.len() > 1) {
            let what = "files=own and a workload whose steps work on one file contradict each other";
            return Err(Error::usage(what, "leave files=own out").at(self.place.as_str()));
        }
        let with_jobs = Group::new(self.group.path.clone(), self.group.weight, self.side_by_side(all));
        Ok(Group { jobs: with_jobs.jobs, ..self.group.clone() })
    }

    /// The jobs of all loads: each load has its own thread numbers, hence random streams, and its
    /// own area.
    fn side_by_side(&self, loads: Vec<(Vec<Job>, u32)>) -> Vec<Job> {
        let (mut all, mut earlier) = (Vec::new(), 0);
        for (index, (jobs, threads)) in loads.into_iter().enumerate() {
            for mut job in jobs {
                (job.threads, job.first_thread) = (threads, earlier);
                if self.has_own_files {
                    job.area.placement = Placement::Own;
                    // The directory distinguishes the job's files from those of other groups, which
                    // have jobs of the same name.
                    job.area.directory.clone_from(&self.group.path);
                }
                let has_own_area = !job.area.file.is_empty() || job.area.placement == Placement::Own;
                if index > 0 && !has_own_area {
                    job.area.file = format!("{}.{}.area", self.group.path, index + 1);
                }
                all.push(job);
            }
            earlier += threads;
        }
        all
    }
}

/// The group in messages.
pub fn place_of(spec: &str) -> String {
    format!("--group {spec}")
}

const KEYS: [&str; 27] = [
    "name",
    "weight",
    "reweigh",
    "cgroup",
    "workload",
    "threads",
    "files",
    "start",
    "stop",
    "rbps",
    "wbps",
    "riops",
    "wiops",
    "tbps",
    "tiops",
    "burst_ms",
    "low_rbps",
    "low_wbps",
    "low_riops",
    "low_wiops",
    "idle",
    "latency",
    "high",
    "target",
    "ioprio",
    "priority",
    "leaf_weight",
];

/// Parses `name=db,weight=800,workload=drr:bs=4k,iodepth=4,threads=2,workload=dsw`. An unknown key
/// after `workload=` is an option of the workload; `threads=` after it also belongs to it.
pub fn describe(spec: &str) -> Result<Described, Error> {
    let mut described = Described {
        group: Group::new("", Weight::DEFAULT, Vec::new()),
        loads: Vec::new(),
        threads: 1,
        has_own_files: false,
        place: place_of(spec),
    };
    let mut seen: Vec<&str> = Vec::new();
    for pair in spec.split(',') {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Error::usage(
                format!("'{pair}' has no '='"),
                "write name=db,weight=800,workload=randread:iodepth=4",
            ));
        };
        let (key, value) = (key.trim(), value.trim());
        match described.loads.last_mut() {
            Some(load) if !KEYS.contains(&key) => {
                let separator = if load.workload.contains(':') { ',' } else { ':' };
                load.workload.push_str(&format!("{separator}{key}={value}"));
                continue;
            }
            _ => {}
        }
        if key == "workload" {
            // Each `workload=` may have a `threads=` of its own.
            seen.retain(|key| *key != "threads");
        } else if seen.contains(&key) {
            return Err(Error::usage(format!("'{key}' is given twice"), "give it once"));
        }
        seen.push(key);
        described.set(key, value)?;
    }
    if described.group.path.is_empty() {
        return Err(Error::usage("the group has no name", "begin with name=db"));
    }
    hoistway_experiment::group::check_path(&described.group.path)?;
    if described.group.stop_ns.is_some_and(|stop_ns| stop_ns <= described.group.start_ns) {
        return Err(Error::usage("the group stops before it starts", "make stop= later than start="));
    }
    described.check_loads()?;
    check_low(&described.group.limits.low, seen.contains(&"high"))?;
    Ok(described)
}

/// A best-effort limit without effect is refused as a mistake.
fn check_low(low: &LowLimits, is_high: bool) -> Result<(), Error> {
    let has_rates = low.bytes_per_s() != [0; 2] || low.ios_per_s() != [0; 2];
    let (has_idle, has_latency) = (low.idle_us != 0, low.latency_us.is_some());
    if is_high && (has_idle || has_latency) {
        let help = "high= belongs to the patches of 2016; low_rbps=, idle= and latency= to Linux 4.12: use one kind";
        return Err(Error::usage("high= cannot be combined with idle= and latency=", help));
    }
    if has_rates && !is_high && !(has_idle && has_latency) {
        let help = "add both, for example idle=2000,latency=100 (microseconds)";
        return Err(Error::usage("best-effort limits have no effect without idle= and latency=", help));
    }
    if !has_rates && (has_idle || has_latency) {
        let help = "add low_rbps=, low_wbps=, low_riops= or low_wiops=";
        return Err(Error::usage("idle= and latency= belong to best-effort limits", help));
    }
    Ok(())
}

/// An upper limit as the kernel accepts it: above 1.
fn at_least_2(key: &str, text: &str, value: u64) -> Result<Option<u64>, Error> {
    if value < 2 {
        let help = "limits are at least 2 per second; leave the key out for no limit";
        return Err(Error::usage(format!("{key}={text} is too small"), help));
    }
    Ok(Some(value))
}

/// For how long a group saves up what its rates allow, in ms.
fn burst_ms(text: &str) -> Result<u64, Error> {
    let range = hoistway_experiment::limit_lines::BURSTS_MS;
    text.parse().ok().filter(|ms| range.contains(ms)).ok_or_else(|| {
        let what = format!("burst_ms={text} is not a number from {} to {}", range.start(), range.end());
        Error::usage(what, "leave it out for 100")
    })
}

/// Microseconds, as in the kernel's files.
fn microseconds(key: &str, text: &str) -> Result<u64, Error> {
    text.parse().ok().filter(|us| *us > 0).ok_or_else(|| {
        Error::usage(format!("{key}={text} is not a number of microseconds"), "write a whole number above 0")
    })
}

impl Described {
    /// Whether the group has `workload=none`: then it has a weight, and only its child groups do
    /// I/O.
    fn only_holds_others(&self) -> bool {
        self.loads.iter().any(|load| load.workload == NO_WORKLOAD)
    }

    /// Threads and results are named after their workloads, which must therefore differ.
    fn check_loads(&self) -> Result<(), Error> {
        if self.only_holds_others() && self.loads.len() > 1 {
            let what = "the group has workload=none and another one";
            return Err(Error::usage(what, "remove workload=none, or the other one"));
        }
        for (index, load) in self.loads.iter().enumerate() {
            if self.loads[..index].iter().any(|other| other.workload == load.workload) {
                let what = format!("the group has the workload '{}' twice", load.workload);
                return Err(Error::usage(what, "give it once, with more threads="));
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let limits: &mut Limits = &mut self.group.limits;
        match key {
            "name" => value.clone_into(&mut self.group.path),
            "weight" => self.group.weight = value.parse()?,
            "reweigh" => self.group.reweigh = Some(reweigh(value)?),
            "cgroup" => {
                self.group.is_in_root = match value {
                    "root" => true,
                    "own" => false,
                    _ => return Err(Error::usage(format!("cgroup={value} is not possible"), "write own or root")),
                };
            }
            "leaf_weight" => self.group.leaf_weight = Some(value.parse()?),
            "workload" => self.loads.push(Load { workload: value.to_owned(), threads: None }),
            "threads" => {
                let threads = value.parse().ok().filter(|count| (1..=4096).contains(count)).ok_or_else(|| {
                    Error::usage(format!("'{value}' is not a number of threads"), "write a number from 1 to 4096")
                })?;
                match self.loads.last_mut() {
                    Some(load) => load.threads = Some(threads),
                    None => self.threads = threads,
                }
            }
            "files" => {
                self.has_own_files = match value {
                    "own" => true,
                    "usual" => false,
                    _ => return Err(Error::usage(format!("files={value} is not possible"), "write own or usual")),
                };
            }
            "start" => self.group.start_ns = units::time(value)?,
            "stop" => self.group.stop_ns = Some(units::time(value)?),
            "rbps" => limits.read_bytes_per_s = at_least_2(key, value, units::rate(value)?)?,
            "wbps" => limits.write_bytes_per_s = at_least_2(key, value, units::rate(value)?)?,
            "riops" => limits.read_ios_per_s = at_least_2(key, value, units::ios_per_s(value)?)?,
            "wiops" => limits.write_ios_per_s = at_least_2(key, value, units::ios_per_s(value)?)?,
            "tbps" => limits.total_bytes_per_s = Some(units::rate(value)?.max(1)),
            "tiops" => limits.total_ios_per_s = Some(units::ios_per_s(value)?.max(1)),
            "burst_ms" => limits.burst_ms = Some(burst_ms(value)?),
            "low_rbps" => limits.low.read_bytes_per_s = units::rate(value)?,
            "low_wbps" => limits.low.write_bytes_per_s = units::rate(value)?,
            "low_riops" => limits.low.read_ios_per_s = units::ios_per_s(value)?,
            "low_wiops" => limits.low.write_ios_per_s = units::ios_per_s(value)?,
            "idle" => limits.low.idle_us = microseconds(key, value)?,
            "latency" => limits.low.latency_us = Some(microseconds(key, value)?),
            "high" => limits.low = limiters::high(units::rate(value)?),
            "target" => limits.latency_target_us = microseconds(key, value)?,
            "ioprio" => self.group.priority = Some(priority(value)?.0),
            "priority" => self.group.group_priority = Some(value.parse()?),
            _ => {
                let meant = hoistway_experiment::diagnostic::did_you_mean(key, KEYS);
                let what = format!("a group has no '{key}'");
                return Err(Error::usage(what, format!("{meant}there are: {}", KEYS.join(", "))));
            }
        }
        Ok(())
    }
}

/// Parses `8s:400`: the time from which on the group has that weight.
fn reweigh(text: &str) -> Result<Reweigh, Error> {
    let Some((at, weight)) = text.split_once(':') else {
        let what = format!("'{text}' is not a change of a weight");
        return Err(Error::usage(what, "write the time and the weight: reweigh=8s:400"));
    };
    Ok(Reweigh { at_ns: units::time(at)?, weight: weight.parse()? })
}

/// Parses `be/4`, `rt/0`, `idle`.
pub fn priority(text: &str) -> Result<Priority, Error> {
    let (class, level) = text.split_once('/').unwrap_or((text, ""));
    let class = match class {
        "rt" | "realtime" => Some(Class::RealTime),
        "be" | "best-effort" => Some(Class::BestEffort),
        "idle" => Some(Class::Idle),
        _ => None,
    };
    let level = if level.is_empty() { Some(4) } else { level.parse().ok().filter(|level| *level <= 7) };
    match (class, level) {
        (Some(class), Some(level)) => Ok(Priority::new(class, level)),
        _ => Err(Error::usage(format!("'{text}' is not an I/O priority"), "write rt/0 to rt/7, be/0 to be/7, or idle")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_group_keeps_the_options_of_its_workload() {
        let one = describe(
            "name=db,weight=800,workload=drr:bs=4k,iodepth=4,threads=2,start=5s,stop=20s,ioprio=be/0,priority=7,leaf_weight=3",
        )
        .unwrap();
        assert_eq!(loads_of(&one), [("drr:bs=4k,iodepth=4", Some(2))]);
        assert_eq!(one.group.weight.get(), 800);
        assert_eq!((one.group.start_ns, one.group.stop_ns), (5_000_000_000, Some(20_000_000_000)));
        assert_eq!(one.group.priority, Some(Priority::new(Class::BestEffort, 0).0));
        assert_eq!(one.group.group_priority.map(hoistway_experiment::GroupPriority::get), Some(7));
        assert_eq!(one.group.leaf_weight.map(Weight::get), Some(3));
        let plain = describe("name=a,workload=drr,bs=4k").unwrap();
        assert_eq!(loads_of(&plain), [("drr:bs=4k", None)]);
    }

    fn loads_of(one: &Described) -> Vec<(&str, Option<u32>)> {
        one.loads.iter().map(|load| (load.workload.as_str(), load.threads)).collect()
    }

    #[test]
    fn a_group_may_be_one_in_reports_only() {
        assert!(describe("name=a,cgroup=root,ioprio=be/2").unwrap().group.is_in_root);
        assert!(!describe("name=a,cgroup=own").unwrap().group.is_in_root);
    }

    #[test]
    fn a_group_may_do_several_things_at_a_time() {
        let one = describe("name=a,threads=3,workload=drr,bs=4k,threads=15,workload=drw:bs=4k,priority=7,workload=bsr");
        let one = one.unwrap();
        assert_eq!(loads_of(&one), [("drr:bs=4k", Some(15)), ("drw:bs=4k", None), ("bsr", None)]);
        let group = one.with_jobs(&[], &[]).unwrap();
        let jobs: Vec<_> = group.jobs.iter().map(|job| (job.name.as_str(), job.threads, job.first_thread)).collect();
        assert_eq!(jobs, [("drr:bs=4k", 15, 0), ("drw:bs=4k", 3, 15), ("bsr", 3, 18)]);
        let areas_of = |group: &Group| group.jobs.iter().map(|job| job.area_name(1)).collect::<Vec<_>>();
        assert_eq!(areas_of(&group), ["a.area", "a.2.area", "a.3.area"]);
        let own = describe("name=b,files=own,workload=drr,workload=drw").unwrap().with_jobs(&[], &[]).unwrap();
        assert_eq!(areas_of(&own), ["b/drr.1.0", "b/drw.1.0"]);
        let wrong = describe("name=b,files=own,workload=bonnie").unwrap().with_jobs(&[], &[]).unwrap_err();
        assert!(wrong.to_string().contains("files=own"), "{wrong}");
        assert_eq!(group.group_priority.map(hoistway_experiment::GroupPriority::get), Some(7));
    }

    #[test]
    fn each_mistake_in_a_group_is_named() {
        let what = |spec: &str| describe(spec).unwrap_err().messages[0].what.clone();
        assert_eq!(what("name=a,wieght=1"), "a group has no 'wieght'");
        assert_eq!(what("name=a,weight=10001"), "weight 10001 is outside 1 to 10000");
        assert_eq!(what("weight=5"), "the group has no name");
        assert_eq!(what("name=a,name=b"), "'name' is given twice");
        assert_eq!(what("name=a,workload=drr,threads=2,threads=3"), "'threads' is given twice");
        assert_eq!(what("name=a,workload=drr,workload=drw,workload=drr"), "the group has the workload 'drr' twice");
        assert_eq!(what("name=a,workload=none,workload=drw"), "the group has workload=none and another one");
        assert_eq!(what("name=a,start=5s,stop=1s"), "the group stops before it starts");
        assert_eq!(what("name=a,ioprio=be/9"), "'be/9' is not an I/O priority");
        assert_eq!(what("name=a,reweigh=400"), "'400' is not a change of a weight");
        assert_eq!(what("name=a,reweigh=8s:0"), "weight 0 is outside 1 to 10000");
        assert_eq!(what("name=a,cgroup=b"), "cgroup=b is not possible");
        assert_eq!(what("name=a,files=mine"), "files=mine is not possible");
        assert_eq!(what("name=a,leaf_weight=0"), "weight 0 is outside 1 to 10000");
        assert_eq!(what("name=a,priority=8"), "group priority '8' is outside 0 to 7");
        assert_eq!(what("name=a,rbps=1"), "rbps=1 is too small");
        assert_eq!(what("name=a,riops=0"), "riops=0 is too small");
        assert_eq!(what("name=a,rbps=-1"), "'-1' is not a rate: it is negative");
        assert_eq!(
            what("name=a,rbps=18446744073709551616"),
            "'18446744073709551616' is not a rate: it does not fit into 64 bits"
        );
        assert_eq!(what("name=a,wbps=20000000T"), "'20000000T' is not a rate: it does not fit into 64 bits");
        assert_eq!(what("name=a,riops=1.9"), "riops=1.9 is too small");
        assert_eq!(what("name=a,low_rbps=1M"), "best-effort limits have no effect without idle= and latency=");
        assert_eq!(what("name=a,idle=5,latency=5"), "idle= and latency= belong to best-effort limits");
        assert_eq!(what("name=a,high=1M,idle=5"), "high= cannot be combined with idle= and latency=");
        assert_eq!(what("name=a,low_rbps=1M,idle=0,latency=5"), "idle=0 is not a number of microseconds");
        assert_eq!(what("name=a,target=5ms"), "target=5ms is not a number of microseconds");
    }

    #[test]
    fn limits_of_a_group_are_read() {
        let limits = |spec: &str| describe(spec).unwrap().group.limits;
        let max = limits("name=a,rbps=50M,wiops=20k,workload=drr:bs=4k");
        assert_eq!((max.read_bytes_per_s, max.write_ios_per_s), (Some(50 << 20), Some(20_000)));
        let low = limits("name=a,low_wbps=1M,idle=2000,latency=100").low;
        assert_eq!((low.write_bytes_per_s, low.idle_us, low.latency_us), (1 << 20, 2_000, Some(100)));
        assert_eq!(limits("name=a,high=1M").low.bytes_per_s(), [1 << 20; 2]);
        assert_eq!(limits("name=a,target=500"), Limits { latency_target_us: 500, ..Limits::NONE });
    }
}
