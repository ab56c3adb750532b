//! The state of flash before the first run: brought about where that is allowed, and described in
//! any case.

use hoistway_block::random::fnv1a64;
use hoistway_device::Model;
use hoistway_experiment::{Experiment, Group, SchedulerSpec, Weight};

use super::cells::{AREA, REAL_AREA_BYTES};
use super::runs::Bench;
use crate::exit::Error;
use crate::progress::Display;
use crate::target::{HostName, OpenTarget};
use hoistway::plan::workloads;

/// A model's key for its state at the start.
const KEY: &str = "precondition";
/// Overwrites of the area of a device, as often as PTS fills a drive before a test.
const PASSES: u64 = 2;

/// The text of a simulated target for cells that write. Flash that says nothing about its state
/// begins overwritten at random, because a fresh drive hides its garbage collection; for cells that
/// only read, that would make no difference and take time.
pub fn simulated(text: &str) -> String {
    let is_given = text.split(',').any(|part| part.starts_with(KEY));
    let is_flash = Model::parse(text).is_ok_and(|model| model.type_word() == "flash");
    if is_flash && !is_given { format!("{text},{KEY}=random") } else { text.to_owned() }
}

/// Brings the target into its state, and says what was done.
///
/// # Errors
/// A device that cannot be written.
pub fn precondition(bench: &Bench<'_>, target: &OpenTarget, display: &mut Display) -> Result<String, Error> {
    if bench.host == HostName::Simulator {
        let [reads, writes] = [&bench.texts.reads, &bench.texts.writes].map(|text| of_model(text));
        return Ok(if reads == writes {
            reads
        } else {
            format!("cells that only read: {reads}; cells that write: {writes}")
        });
    }
    let mib = REAL_AREA_BYTES >> 20;
    if bench.target.is_made() {
        return Ok(format!("the test file was written once from its start to its end, {mib} MiB"));
    }
    if bench.writes.is_some() {
        return Ok("none: the target is only read, in the state in which it was found".to_owned());
    }
    if !bench.terms.may_write {
        return Ok("none: no device is behind the target".to_owned());
    }
    let experiment = overwriting(&bench.target.text)?;
    let mut seconds = 0.0;
    bench.run(target, &[experiment], display, &mut |measurement| seconds = measurement.window_ns as f64 / 1e9)?;
    Ok(format!(
        "the first {mib} MiB of the device were written {PASSES} times in order, by requests of 128 KiB, in {seconds:.1} s; \
         all runs stay within them, and the rest of the device was not touched"
    ))
}

/// A model's state at the start, in words.
fn of_model(text: &str) -> String {
    let Ok(model) = Model::parse(text) else { return String::new() };
    let settings = model.settings();
    let value = |key: &str| settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.as_str());
    match value(KEY) {
        Some("random") => format!(
            "simulated flash: each run begins filled and then overwritten at random, {1} times the {0} MiB whose mapping is simulated",
            value("sim_mib").unwrap_or("?"),
            value("random_mult").unwrap_or("?"),
        ),
        Some("fill") => "simulated flash: each run begins filled once in order, without garbage".to_owned(),
        Some(_) => "simulated flash: each run begins fresh, with nothing mapped".to_owned(),
        None => format!("none: the simulated {} has no state that writes change", model.type_word()),
    }
}

fn overwriting(target: &str) -> Result<Experiment, Error> {
    let text = format!("dsw:bs=128k,iodepth=32,size={REAL_AREA_BYTES},loops={PASSES}");
    let mut jobs = workloads::of_name(&text, &[])?.1;
    jobs.iter_mut().for_each(|job| AREA.clone_into(&mut job.area.file));
    let groups = vec![Group::new(KEY, Weight::DEFAULT, jobs)];
    Ok(Experiment {
        seed: fnv1a64(KEY.as_bytes()),
        ..Experiment::new(target, KEY, SchedulerSpec::named("none"), groups)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_begins_overwritten_unless_its_state_is_given() {
        assert_eq!(simulated("model:ssd"), "model:ssd,precondition=random");
        assert_eq!(simulated("model:ssd,precondition=fill"), "model:ssd,precondition=fill");
        assert_eq!(simulated("model:sata"), "model:sata");
    }

    #[test]
    fn the_state_of_a_model_is_said_in_words() {
        let random = of_model("model:nvme,precondition=random,sim_mib=1024,random_mult=2");
        assert!(random.contains("1024 MiB") && random.contains("at random, 2 times"), "{random}");
        assert!(of_model("model:ssd,precondition=none").contains("fresh"));
        assert!(of_model("model:sata").contains("simulated hdd has no state"));
    }
}
