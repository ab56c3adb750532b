//! Named models, models in files, and the text that overrides their settings:
//! `ssd,seed=7,channels=16`, `./my.toml,disk.rpm=5400`.
//!
//! ```text
//! presets/NAME.toml (embedded) --+
//! a user's FILE.toml ------------+-> file.rs -> Preset { Model, anchors } -> ",key=value" -> Model -> AnyDevice
//! ```

mod anchor;
mod error;
mod file;
mod kind;
mod preset;

use hoistway_block::random::Stream;

use crate::any::AnyDevice;
use crate::array::Array;
use crate::delay::{Delay, DelayParameters};
use crate::disk::{Arms, Disk};
use crate::fault::{FaultParameters, Faulty};
use crate::flash::Flash;
use crate::interface::{Device, DeviceInfo};
use crate::limit::{Limit, LimitParameters};
use crate::null::Null;
use crate::parameter::{DELAY, FAULT, LIMIT, Parameter, Unit};
use kind::{Kind, walk};

pub use anchor::{Anchor, Figure, Repetition};
pub use error::ModelError;
pub use preset::{MODELS, ModelRow, Preset};

const SEED: Parameter = Parameter {
    name: "seed",
    alias: "",
    unit: Unit::Count,
    minimum: 0,
    maximum: u64::MAX,
    doc: "Seed of the device's random numbers; the run's own if not given.",
};

/// A device that can be built: its kind and its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    name: String,
    kind: Kind,
    limit: LimitParameters,
    delay: DelayParameters,
    fault: FaultParameters,
    seed: Option<u64>,
}

/// A parameter of a model and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The key, with the prefix `disk.` if it belongs to an array's members.
    pub key: String,
    /// The description of the parameter.
    pub parameter: &'static Parameter,
    /// The value as written.
    pub value: String,
}

impl Model {
    /// Reads `NAME[,key=value]...` or `FILE[,key=value]...`; a leading `model:` is accepted. A name
    /// that contains a slash or ends in `.toml` is a file, which is read now.
    ///
    /// ```
    /// use hoistway_device::{Device, Model};
    ///
    /// let model = Model::parse("ssd,queue_depth=8").unwrap();
    /// let device = model.build(1, "dev0");
    /// assert_eq!((device.info().depth, device.info().rotational), (8, false));
    /// let error = Model::parse("ssd,chanels=4").unwrap_err().to_string();
    /// assert!(error.contains("nearest: channels"), "{error}");
    /// ```
    ///
    /// # Errors
    /// What is wrong, the value, what is allowed, and the most similar name that exists.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let text = text.strip_prefix("model:").unwrap_or(text);
        let place = || format!("model:{text}");
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or("");
        let mut model = Preset::load(name)?.model;
        text.clone_into(&mut model.name);
        for setting in parts {
            let Some((key, value)) = setting.split_once('=') else {
                return Err(ModelError::new(place(), format!("'{setting}' is not of the form key=value")));
            };
            model.set(key.trim(), value.trim()).map_err(|wrong| ModelError::new(place(), wrong))?;
        }
        model.kind.check().map_err(|(key, what)| ModelError::new(place(), format!("{key}: {what}")))?;
        Ok(model)
    }

    fn of_kind(name: &str, kind: Kind) -> Self {
        let (limit, delay) = (LimitParameters::default(), DelayParameters::default());
        Self { name: name.to_owned(), kind, limit, delay, fault: FaultParameters::default(), seed: None }
    }

    /// Its text, without `model:`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of device: `hdd`, `raid`, `flash` or `null`.
    pub fn type_word(&self) -> &'static str {
        self.kind.word()
    }

    /// Capacity in sectors.
    pub fn capacity_sectors(&self) -> u64 {
        self.kind.capacity_sectors()
    }

    /// The same model with at least this capacity, for a file whose I/O it times. A file smaller
    /// than the model occupies the beginning of the device.
    #[must_use]
    pub fn with_capacity_sectors(mut self, sectors: u64) -> Self {
        self.kind.make_room(sectors);
        self
    }

    /// Whether it begins with random overwrites, a state that takes seconds to compute.
    pub fn is_overwritten(&self) -> bool {
        matches!(&self.kind, Kind::Flash(parameters) if parameters.history.is_overwritten())
    }

    /// The same model without its initial data: nothing has been written to it, so it is built at once.
    #[must_use]
    pub fn as_new(&self) -> Self {
        let mut model = self.clone();
        if let Kind::Flash(parameters) = &mut model.kind {
            parameters.history.precondition = 0;
        }
        model
    }

    /// What a host needs to know of the device before it is built.
    pub fn info(&self) -> DeviceInfo {
        self.as_new().build(0, "").info().clone()
    }

    /// Builds the device. Its random numbers come from the stream of `path` (`"dev0"`) under the
    /// model's own seed if it has one, else under `run_seed`.
    pub fn build(&self, run_seed: u64, path: &str) -> AnyDevice {
        let seed = self.seed.unwrap_or(run_seed);
        let stream = |part: &str| Stream::of(seed, &format!("{path}{part}"));
        let mut device = match &self.kind {
            Kind::Null(parameters) => AnyDevice::Null(Box::new(Null::new(&self.name, parameters))),
            Kind::Disk(parameters) if parameters.layout.actuators > 1 => {
                let stream_of = |arm: usize| stream(&format!("/arm{arm}"));
                AnyDevice::Arms(Box::new(Arms::new(&self.name, parameters, stream_of)))
            }
            Kind::Disk(parameters) => AnyDevice::Disk(Box::new(Disk::new(&self.name, parameters, stream("")))),
            Kind::Array(parameters, disk) => {
                AnyDevice::Array(Box::new(Array::new(&self.name, parameters, disk, seed, path)))
            }
            Kind::Flash(parameters) => AnyDevice::Flash(Box::new(Flash::new(&self.name, parameters, stream("")))),
        };
        if self.limit != LimitParameters::default() {
            device = AnyDevice::Limit(Box::new(Limit::new(device, &self.limit)));
        }
        if self.delay != DelayParameters::default() {
            device = AnyDevice::Delay(Box::new(Delay::new(device, &self.delay, stream("/delay"))));
        }
        if self.fault.is_active() {
            device = AnyDevice::Faulty(Box::new(Faulty::new(device, &self.fault, stream("/fault"))));
        }
        device
    }

    /// Its parameters with their values: those of its kind first, then those that every model has,
    /// except the seed.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        self.clone().each_parameter(|prefix, parameter, field| {
            let (key, value) = (format!("{prefix}{}", parameter.name), parameter.unit.show(*field));
            settings.push(Setting { key, parameter, value });
        });
        settings
    }

    /// The parameter of a key or alias.
    fn parameter(&mut self, key: &str) -> Option<&'static Parameter> {
        let mut found = (key == SEED.name).then_some(&SEED);
        self.each_parameter(|prefix, parameter, _| {
            if is_named(prefix, parameter, key) {
                found = Some(parameter);
            }
        });
        found
    }

    /// Sets one parameter; an error is a sentence without its position.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let Some(parameter) = self.parameter(key) else { return Err(self.unknown_key(key)) };
        let stored = parameter.parse(value).ok_or_else(|| error::bad_value(key, parameter, value))?;
        if key == SEED.name {
            self.seed = Some(stored);
        }
        self.each_parameter(|prefix, parameter, field| {
            if is_named(prefix, parameter, key) {
                *field = stored;
            }
        });
        Ok(())
    }

    fn unknown_key(&mut self, key: &str) -> String {
        let mut known: Vec<(String, &'static Parameter)> = vec![(SEED.name.to_owned(), &SEED)];
        self.each_parameter(|prefix, parameter, _| known.push((format!("{prefix}{}", parameter.name), parameter)));
        error::unknown_key(key, known.into_iter())
    }

    /// Calls `visit` with every parameter of this model, the prefix of its key, and its value.
    fn each_parameter(&mut self, mut visit: impl FnMut(&'static str, &'static Parameter, &mut u64)) {
        self.kind.each(&mut visit);
        walk("", LIMIT, &mut self.limit, &mut visit);
        walk("", DELAY, &mut self.delay, &mut visit);
        walk("", FAULT, &mut self.fault, &mut visit);
    }
}

fn is_named(prefix: &str, parameter: &Parameter, key: &str) -> bool {
    let Some(name) = key.strip_prefix(prefix) else { return false };
    parameter.name == name || (!parameter.alias.is_empty() && parameter.alias == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_before_a_device_is_built_holds_of_it() {
        let spellings =
            ["hdd,qd=4", "raid5x12", "null,latency_us=10", "ssd,precondition=random,random_mult=0.1,sim_mib=64"];
        for model in spellings.map(|text| Model::parse(text).unwrap()) {
            assert_eq!(model.info(), *model.build(1, "dev0").info(), "{}", model.name());
        }
    }

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
        let error = Model::parse("raid5x12,disk.seek_avg=4").unwrap_err().to_string();
        assert!(error.ends_with("it lacks its unit; nearest: disk.seek_avg_ms (0 to 100000 ms)"), "{error}");
    }

    #[test]
    fn a_value_out_of_range_says_what_is_allowed() {
        let error = Model::parse("model:null,latency_us=1e3").unwrap_err().to_string();
        assert_eq!(error, "model:null,latency_us=1e3: latency_us cannot be '1e3'; allowed: 0 to 100000000 us");
        assert!(Model::parse("null,qd=0").unwrap_err().to_string().contains("allowed: 1 to 4096"));
        assert!(Model::parse("null,inline=2").unwrap_err().to_string().contains("0 or 1"));
        assert!(Model::parse("null,inline").unwrap_err().to_string().contains("key=value"));
        assert!(Model::parse("raid5x12,disk.rpm=1").unwrap_err().to_string().contains("disk.rpm cannot be '1'"));
    }

    #[test]
    fn an_unknown_model_names_the_nearest() {
        let error = Model::parse("floppy").unwrap_err().to_string();
        assert!(error.contains("All of them: null, sata, wd2500js"), "{error}");
        assert!(Model::parse("nvmee").unwrap_err().to_string().contains("nearest: nvme"));
    }
}
