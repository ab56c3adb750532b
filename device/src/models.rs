//! Named models and the text that changes them: `ssd,seed=7,channels=16`.

use std::fmt;

use block::random::Stream;

use crate::any::AnyDevice;
use crate::delay::{Delay, DelayParameters};
use crate::fault::{FaultParameters, Faulty};
use crate::null::{Null, NullParameters};
use crate::parameter::{DELAY, FAULT, NULL, Parameter, Row, SIMPLE_DISK, SIMPLE_SSD, Unit};
use crate::simple_disk::{SimpleDisk, SimpleDiskParameters};
use crate::simple_ssd::{SimpleSsd, SimpleSsdParameters};

/// What kind of device it is, with its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Null(NullParameters),
    Ssd(SimpleSsdParameters),
    Disk(SimpleDiskParameters),
}

/// One named model.
pub struct ModelRow {
    /// The name behind `model:`.
    pub name: &'static str,
    /// A second name, or the empty string.
    pub alias: &'static str,
    /// One line for listings.
    pub doc: &'static str,
    kind: fn() -> Kind,
}

impl ModelRow {
    /// Its parameters with their default values as written, its own first, then those of every model.
    pub fn parameters(&self) -> Vec<(Parameter, String)> {
        let mut model = Model::of_row(self);
        let mut listed = Vec::new();
        model.each_parameter(|parameter, field| listed.push((*parameter, parameter.unit.show(*field))));
        listed
    }
}

/// All models.
pub const MODELS: &[ModelRow] = &[
    ModelRow {
        name: "null",
        alias: "",
        doc: "fixed latency, for the cost of a scheduler itself",
        kind: || Kind::Null(NullParameters::default()),
    },
    ModelRow {
        name: "ssd",
        alias: "",
        doc: "SATA SSD: 8 channels, 530 MB/s, about 78,000 4k reads/s",
        kind: || Kind::Ssd(SimpleSsdParameters::default()),
    },
    ModelRow {
        name: "nvme",
        alias: "",
        doc: "NVMe SSD: 64 channels, 3.3 GB/s, about 800,000 4k reads/s",
        kind: || Kind::Ssd(SimpleSsdParameters::nvme()),
    },
    ModelRow {
        name: "sata",
        alias: "hdd",
        doc: "SATA disk: 7,200 rpm, 61 MB/s, NCQ 32",
        kind: || Kind::Disk(SimpleDiskParameters::default()),
    },
];

const SEED: Parameter = Parameter {
    name: "seed",
    alias: "",
    unit: Unit::Count,
    minimum: 0,
    maximum: u64::MAX,
    doc: "Seed of the device's random numbers; the run's own if not given.",
};

/// A device that can be built: a named model and its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    name: String,
    kind: Kind,
    delay: DelayParameters,
    fault: FaultParameters,
    seed: Option<u64>,
}

impl Model {
    /// Reads `NAME[,key=value]...`; a leading `model:` is accepted.
    ///
    /// # Errors
    /// What is wrong, the value, what is allowed, and the nearest name that exists.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let text = text.strip_prefix("model:").unwrap_or(text);
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or("");
        let row = MODELS.iter().find(|row| row.name == name || (!row.alias.is_empty() && row.alias == name));
        let row = row.ok_or_else(|| ModelError::unknown_model(text, name))?;
        let mut model = Model::of_row(row);
        text.clone_into(&mut model.name);
        for setting in parts {
            model.set(text, setting)?;
        }
        Ok(model)
    }

    fn of_row(row: &ModelRow) -> Self {
        let (delay, fault) = (DelayParameters::default(), FaultParameters::default());
        Self { name: row.name.to_owned(), kind: (row.kind)(), delay, fault, seed: None }
    }

    /// Its text, without `model:`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Capacity in sectors.
    pub fn capacity_sectors(&self) -> u64 {
        match &self.kind {
            Kind::Null(parameters) => parameters.capacity_sectors,
            Kind::Ssd(parameters) => parameters.capacity_sectors,
            Kind::Disk(parameters) => parameters.capacity_sectors,
        }
    }

    /// The same model with another capacity: that of the file behind it, for instance.
    #[must_use]
    pub fn with_capacity_sectors(mut self, sectors: u64) -> Self {
        match &mut self.kind {
            Kind::Null(parameters) => parameters.capacity_sectors = sectors,
            Kind::Ssd(parameters) => parameters.capacity_sectors = sectors,
            Kind::Disk(parameters) => parameters.capacity_sectors = sectors,
        }
        self
    }

    /// The device. Its random numbers come from the stream of `path` (`"dev0"`) under the model's own seed if it has
    /// one, else under `run_seed`.
    pub fn build(&self, run_seed: u64, path: &str) -> AnyDevice {
        let seed = self.seed.unwrap_or(run_seed);
        let stream = |part: &str| Stream::of(seed, &format!("{path}{part}"));
        let mut device = match &self.kind {
            Kind::Null(parameters) => AnyDevice::Null(Null::new(&self.name, parameters)),
            Kind::Ssd(parameters) => AnyDevice::SimpleSsd(SimpleSsd::new(&self.name, parameters, stream(""))),
            Kind::Disk(parameters) => AnyDevice::SimpleDisk(SimpleDisk::new(&self.name, parameters, stream(""))),
        };
        if self.delay != DelayParameters::default() {
            device = AnyDevice::Delay(Box::new(Delay::new(device, &self.delay, stream("/delay"))));
        }
        if self.fault.is_active() {
            device = AnyDevice::Faulty(Box::new(Faulty::new(device, &self.fault, stream("/fault"))));
        }
        device
    }

    fn set(&mut self, text: &str, setting: &str) -> Result<(), ModelError> {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(ModelError::new(text, format!("'{setting}' is not of the form key=value")));
        };
        let (key, value) = (key.trim(), value.trim());
        if key == SEED.name {
            self.seed = Some(SEED.parse(value).ok_or_else(|| ModelError::bad_value(text, &SEED, value))?);
            return Ok(());
        }
        let mut outcome = None;
        let mut names = vec![SEED];
        self.each_parameter(|parameter, field| {
            names.push(*parameter);
            if parameter.name == key || (!parameter.alias.is_empty() && parameter.alias == key) {
                outcome = Some(match parameter.parse(value) {
                    Some(stored) => {
                        *field = stored;
                        Ok(())
                    }
                    None => Err(ModelError::bad_value(text, parameter, value)),
                });
            }
        });
        outcome.unwrap_or_else(|| Err(ModelError::unknown_key(text, key, &names)))
    }

    /// Calls `visit` with every row of this model and the value it stands for.
    fn each_parameter(&mut self, mut visit: impl FnMut(&Parameter, &mut u64)) {
        fn walk<P>(rows: &[Row<P>], parameters: &mut P, visit: &mut impl FnMut(&Parameter, &mut u64)) {
            for row in rows {
                visit(&row.parameter, (row.field)(parameters));
            }
        }
        match &mut self.kind {
            Kind::Null(parameters) => walk(NULL, parameters, &mut visit),
            Kind::Ssd(parameters) => walk(SIMPLE_SSD, parameters, &mut visit),
            Kind::Disk(parameters) => walk(SIMPLE_DISK, parameters, &mut visit),
        }
        walk(DELAY, &mut self.delay, &mut visit);
        walk(FAULT, &mut self.fault, &mut visit);
    }
}

/// Why a model's text was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError {
    text: String,
    message: String,
}

impl ModelError {
    fn new(text: &str, message: String) -> Self {
        Self { text: text.to_owned(), message }
    }

    fn unknown_model(text: &str, name: &str) -> Self {
        let names = MODELS.iter().flat_map(|row| [row.name, row.alias]).filter(|name| !name.is_empty());
        let all: Vec<_> = MODELS.iter().map(|row| row.name).collect();
        let nearest = names.min_by_key(|known| edit_distance(known, name)).unwrap_or("");
        let all = all.join(", ");
        Self::new(text, format!("there is no device model '{name}'; nearest: {nearest}. All of them: {all}"))
    }

    fn unknown_key(text: &str, key: &str, known: &[Parameter]) -> Self {
        let distance = |p: &&Parameter| {
            edit_distance(p.name, key).min(match p.alias {
                "" => usize::MAX,
                alias => edit_distance(alias, key),
            })
        };
        let nearest =
            known.iter().min_by_key(distance).map_or_else(String::new, |p| format!("{} ({})", p.name, p.allowed()));
        Self::new(
            text,
            format!("the model has no parameter '{key}'; nearest: {nearest}. All of them: hoistway list devices"),
        )
    }

    fn bad_value(text: &str, parameter: &Parameter, value: &str) -> Self {
        let (name, allowed) = (parameter.name, parameter.allowed());
        Self::new(text, format!("{name} cannot be '{value}'; allowed: {allowed}"))
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "model:{}: {}", self.text, self.message)
    }
}

impl std::error::Error for ModelError {}

/// Insertions, deletions and replacements between two names.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<_> = right.chars().collect();
    let mut row: Vec<_> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Device;

    #[test]
    fn overrides_reach_the_device() {
        let device = Model::parse("ssd,seed=7,channels=4,qd=16,t_read_us=12.5").unwrap().build(1, "dev0");
        assert_eq!(device.info().depth, 16);
        assert_eq!(device.info().name, "ssd,seed=7,channels=4,qd=16,t_read_us=12.5");
    }

    #[test]
    fn an_unknown_key_names_the_nearest_with_unit_and_range() {
        let error = Model::parse("ssd,chanels=4").unwrap_err().to_string();
        assert_eq!(
            error,
            "model:ssd,chanels=4: the model has no parameter 'chanels'; nearest: channels (1 to 1024). \
             All of them: hoistway list devices"
        );
    }

    #[test]
    fn a_value_out_of_range_says_what_is_allowed() {
        let error = Model::parse("model:null,latency_us=1e3").unwrap_err().to_string();
        assert_eq!(error, "model:null,latency_us=1e3: latency_us cannot be '1e3'; allowed: 0 to 100000000 us");
        assert!(Model::parse("null,qd=0").unwrap_err().to_string().contains("allowed: 1 to 4096"));
        assert!(Model::parse("null,inline=2").unwrap_err().to_string().contains("0 or 1"));
        assert!(Model::parse("null,inline").unwrap_err().to_string().contains("key=value"));
    }

    #[test]
    fn an_unknown_model_names_the_nearest() {
        let error = Model::parse("floppy").unwrap_err().to_string();
        assert!(error.contains("All of them: null, ssd, nvme, sata"), "{error}");
        assert!(Model::parse("nvmee").unwrap_err().to_string().contains("nearest: nvme"));
    }

    #[test]
    fn every_row_is_complete_and_its_default_lies_in_its_range() {
        for model in MODELS {
            let rows = model.parameters();
            for (index, (parameter, default)) in rows.iter().enumerate() {
                assert!(parameter.parse(default).is_some(), "{} {}={default}", model.name, parameter.name);
                assert!(parameter.doc.ends_with('.'), "{}", parameter.name);
                let again = rows[index + 1..].iter().any(|(other, _)| other.name == parameter.name);
                assert!(!again, "{} twice in {}", parameter.name, model.name);
            }
        }
    }
}
