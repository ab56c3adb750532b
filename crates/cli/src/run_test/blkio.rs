//! `--blkio-out BASE`: the scheduler's account of each group's service, in the format of the
//! kernel's files.

use std::fs;
use std::path::Path;

use hoistway_block::DeviceNumber;
use hoistway_experiment::blkio::weights::{WeightFile, Weights};
use hoistway_experiment::blkio::{FILES, File, Generation, Statistics, statistics_file};
use hoistway_experiment::{Measurement, Weight};

use super::tracing::{DEVICE, base_of};
use crate::exit::Error;

/// Writes `BASE-drr-cfq-nr1-set1/cgrp1/blkio.time` and so on; nothing for a scheduler without such
/// an account.
pub fn write(base: &Path, measurement: &Measurement) -> Result<(), Error> {
    let directory = base_of(base, &measurement.experiment);
    let generation = generation_of(measurement);
    for (path, own) in &measurement.blkio {
        let directory = directory.join(path.trim_start_matches('/'));
        fs::create_dir_all(&directory).map_err(|error| Error::file(&directory, "create", &error).at("--blkio-out"))?;
        let put = |name: &str, file: &File, statistics: &Statistics| {
            let place = directory.join(name);
            fs::write(&place, statistics_file(file, generation, &[(DEVICE, *statistics)]))
                .map_err(|error| Error::file(&place, "write", &error).at("--blkio-out"))
        };
        for (name, text) in weights_of(measurement, path, generation) {
            let place = directory.join(name);
            fs::write(&place, text).map_err(|error| Error::file(&place, "write", &error).at("--blkio-out"))?;
        }
        for file in FILES.iter().filter(|file| generation == Generation::Tree || !file.is_late) {
            put(file.name, file, own)?;
            if generation == Generation::Tree && file.has_recursive {
                put(&format!("{}_recursive", file.name), file, &with_what_lies_below(measurement, path))?;
            }
        }
    }
    Ok(())
}

/// The files of the weights that an experiment's group was given, within the kernel's range.
fn weights_of(measurement: &Measurement, path: &str, generation: Generation) -> Vec<(&'static str, String)> {
    let Some(group) = measurement.experiment.groups.iter().find(|group| path.strip_prefix('/') == Some(&group.path))
    else {
        return Vec::new();
    };
    let all = WeightFile::All(generation);
    let shown = |file: WeightFile, weight: Weight| {
        let (least, most) = file.range();
        (file.name(), file.read::<DeviceNumber>(&Weights::new(weight.get().clamp(least, most))))
    };
    let leaf = shown(WeightFile::Leaf, group.leaf_weight.unwrap_or(group.weight));
    [Some(shown(all, group.weight)), (generation == Generation::Tree).then_some(leaf)].into_iter().flatten().collect()
}

/// The form of the kernel's files for the version that ran: groups became a tree in 3.9.
fn generation_of(measurement: &Measurement) -> Generation {
    let version = measurement.experiment.scheduler.version.as_deref();
    let is_old = version.is_some_and(|version| version.starts_with("2."));
    if is_old { Generation::Flat } else { Generation::Tree }
}

fn with_what_lies_below(measurement: &Measurement, path: &str) -> Statistics {
    let begin = format!("{}/", path.trim_end_matches('/'));
    let below = measurement.blkio.iter().filter(|(other, _)| *other != path && other.starts_with(&begin));
    let own = measurement.blkio.get(path).copied().unwrap_or_default().with_removed();
    below.fold(own, |sum, (_, other)| sum.plus(&other.with_removed()))
}
