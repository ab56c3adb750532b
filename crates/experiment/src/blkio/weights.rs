//! The files with the weights of CFQ's groups: `blkio.weight` and `blkio.weight_device`, of both
//! generations.
//!
//! Their successor, `io.weight`, is parsed by `io_cost_lines`. Lines are parsed and formatted as in
//! the kernel, with the names of its errors; a line is applied as a whole or not at all. The caller
//! decides how devices are named: `8:16` in the kernel's files, names elsewhere. Source:
//! docs/specifications/cfq.md, section 16.

use std::fmt::{Display, Write};

use super::Generation;
use crate::Diagnostic;

/// Weight of a new group.
pub const DEFAULT: u32 = 500;

/// The weights of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weights<D> {
    /// Weight on devices without a rule of their own.
    pub default: u32,
    /// Weights on single devices, the newest rule first.
    pub devices: Vec<(D, u32)>,
}

/// A weight file.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum WeightFile {
    /// `blkio.weight`: one number.
    All(Generation),
    /// `blkio.weight_device`: `8:16 300` sets a weight, `8:16 0` removes it.
    Device(Generation),
    /// `blkio.leaf_weight` of 4.20: the weight of a group's own queues relative to its child
    /// groups.
    Leaf,
    /// `blkio.leaf_weight_device`: the same for single devices.
    LeafDevice,
}

impl WeightFile {
    /// Its name in the group's directory.
    pub const fn name(self) -> &'static str {
        match self {
            WeightFile::All(_) => "blkio.weight",
            WeightFile::Device(_) => "blkio.weight_device",
            WeightFile::Leaf => "blkio.leaf_weight",
            WeightFile::LeafDevice => "blkio.leaf_weight_device",
        }
    }

    /// Its generation, and whether its lines name a device.
    const fn kind(self) -> (Generation, bool) {
        match self {
            WeightFile::All(generation) => (generation, false),
            WeightFile::Device(generation) => (generation, true),
            WeightFile::Leaf => (Generation::Tree, false),
            WeightFile::LeafDevice => (Generation::Tree, true),
        }
    }

    /// Smallest and largest weight.
    pub const fn range(self) -> (u32, u32) {
        match self.kind().0 {
            Generation::Flat => (100, 1_000),
            Generation::Tree => (10, 1_000),
        }
    }

    fn weight(self, text: &str) -> Result<u32, Diagnostic> {
        let (least, most) = self.range();
        let error = if self.kind().0 == Generation::Flat { "EINVAL" } else { "ERANGE" };
        let help = format!("{} takes whole numbers from {least} to {most}", self.name());
        let Ok(weight) = text.parse::<u64>() else {
            return Err(Diagnostic::new(format!("'{text}' is not a weight (EINVAL)"), help));
        };
        match u32::try_from(weight) {
            Ok(weight) if (least..=most).contains(&weight) => Ok(weight),
            _ => Err(Diagnostic::new(format!("a weight of {weight} is out of range ({error})"), help)),
        }
    }

    /// Writes a line to the file. `find` looks up a device by its name in the line.
    ///
    /// # Errors
    /// What is wrong with the line; nothing is changed.
    pub fn write<D: Clone + PartialEq>(
        self,
        line: &str,
        weights: &mut Weights<D>,
        find: impl Fn(&str) -> Option<D>,
    ) -> Result<(), Diagnostic> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (self.kind(), words.as_slice()) {
            ((_, false), [value]) => weights.default = self.weight(value)?,
            ((generation, true), [device, value]) => {
                let Some(device) = find(device) else {
                    let message = format!("'{device}' is not a device of this machine (ENODEV)");
                    return Err(Diagnostic::new(message, "name a whole disk, as in 'lsblk -o NAME,MAJ:MIN'"));
                };
                let takes_away = *value == "0" || (generation == Generation::Tree && *value == "default");
                let weight = if takes_away { None } else { Some(self.weight(value)?) };
                weights.devices.retain(|(known, _)| *known != device);
                if let Some(weight) = weight {
                    weights.devices.insert(0, (device, weight));
                }
            }
            _ => {
                let message = format!("'{}' has {} words (EINVAL)", line.trim(), words.len());
                return Err(Diagnostic::new(message, format!("write {}", self.example())));
            }
        }
        Ok(())
    }

    const fn example(self) -> &'static str {
        if self.kind().1 { "device and weight: 8:16 300" } else { "the weight alone: 500" }
    }

    /// Content of the file.
    pub fn read<D: Display>(self, weights: &Weights<D>) -> String {
        let mut text = match self.kind() {
            (_, false) => return format!("{}\n", weights.default),
            (Generation::Flat, true) => "dev\tweight\n".to_owned(),
            (Generation::Tree, true) => String::new(),
        };
        let gap = if self == WeightFile::Device(Generation::Flat) { '\t' } else { ' ' };
        for (device, weight) in &weights.devices {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{device}{gap}{weight}");
        }
        text
    }
}

impl<D: PartialEq> Weights<D> {
    /// Weights without a rule for any device.
    pub const fn new(default: u32) -> Self {
        Self { default, devices: Vec::new() }
    }

    /// The weight on a device.
    pub fn on(&self, device: &D) -> u32 {
        self.devices.iter().find(|(known, _)| known == device).map_or(self.default, |(_, weight)| *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::DeviceNumber;

    const SDB: DeviceNumber = DeviceNumber { major: 8, minor: 16 };
    const SDC: DeviceNumber = DeviceNumber { major: 8, minor: 32 };

    fn write(file: WeightFile, line: &str, weights: &mut Weights<DeviceNumber>) -> Result<(), String> {
        let find = |word: &str| [SDB, SDC].into_iter().find(|device| device.to_string() == word);
        file.write(line, weights, find).map_err(|error| error.to_string())
    }

    #[test]
    fn t53_weights_are_checked_as_their_generation_does() {
        let mut weights = Weights::new(DEFAULT);
        let (flat, tree) = (WeightFile::All(Generation::Flat), WeightFile::All(Generation::Tree));
        for (file, line, expected) in [
            (flat, "99", "a weight of 99 is out of range (EINVAL)"),
            (flat, "1001", "(EINVAL)"),
            (tree, "9", "a weight of 9 is out of range (ERANGE)"),
            (flat, "-5", "'-5' is not a weight (EINVAL)"),
            (flat, "99999999999999999999", "is not a weight (EINVAL)"),
            (flat, "5000000000", "a weight of 5000000000 is out of range"),
            (flat, "8:16 300", "'8:16 300' has 2 words (EINVAL)"),
            (flat, "", "has 0 words"),
        ] {
            let said = write(file, line, &mut weights).unwrap_err();
            assert!(said.contains(expected), "{line}: {said}");
            assert_eq!(weights, Weights::new(500), "{line}");
        }
        write(tree, "10", &mut weights).unwrap();
        assert_eq!((weights.default, tree.read(&weights).as_str()), (10, "10\n"));
    }

    #[test]
    fn t53_a_devices_rule_comes_and_goes() {
        let mut weights = Weights::new(DEFAULT);
        let file = WeightFile::Device(Generation::Flat);
        write(file, "8:16 300", &mut weights).unwrap();
        write(file, " 8:32\t700 ", &mut weights).unwrap();
        assert_eq!(file.read(&weights), "dev\tweight\n8:32\t700\n8:16\t300\n");
        assert_eq!((weights.on(&SDB), weights.on(&SDC)), (300, 700));
        for (line, expected) in
            [("8:17 300", "(ENODEV)"), ("8:16", "EINVAL"), ("8:16 300 1", "EINVAL"), ("8:16 99", "EINVAL")]
        {
            let before = weights.clone();
            let said = write(file, line, &mut weights).unwrap_err();
            assert!(said.contains(expected), "{line}: {said}");
            assert_eq!(weights, before);
        }
        assert!(write(file, "8:16 default", &mut weights).is_err(), "2.6.36 knows no such word");
        write(file, "8:32 0", &mut weights).unwrap();
        write(file, "8:16 0", &mut weights).unwrap();
        assert_eq!(file.read(&weights), "dev\tweight\n");
        assert_eq!(weights.on(&SDB), 500);

        for file in [WeightFile::Device(Generation::Tree), WeightFile::LeafDevice] {
            write(file, "8:16 10", &mut weights).unwrap();
            assert_eq!(file.read(&weights), "8:16 10\n");
            assert!(write(file, "8:16 9", &mut weights).unwrap_err().contains("(ERANGE)"), "{}", file.name());
            write(file, "8:16 default", &mut weights).unwrap();
            assert_eq!(file.read(&weights), "");
        }
        let leaf = WeightFile::Leaf;
        write(leaf, "750", &mut weights).unwrap();
        assert_eq!((leaf.name(), leaf.read(&weights).as_str()), ("blkio.leaf_weight", "750\n"));
    }
}
