//! `--sched io.cost[:KEY=VALUE,...]`: no scheduler, but the kernel's controller io.cost (cgroup
//! v2), which divides the device by `io.weight`.
//!
//! The controller is enabled by a line in `io.cost.model` and one in `io.cost.qos` in the root of
//! the hierarchy; the keys are those of the lines. Without keys the kernel uses its defaults for
//! the class of the device (`model=auto`).

use hoistway_experiment::diagnostic::did_you_mean;
use hoistway_experiment::io_cost_lines::{ModelValues, Percent, QosValues, parse_model, parse_qos};
use hoistway_experiment::{Refusal, SchedulerSpec};
use hoistway_linux::cgroup::{Hierarchy, Version};
use hoistway_linux::setting::DeviceLine;

/// The name on the command line.
pub const NAME: &str = "io.cost";

/// The file of the cost model, which is written first, because the controller must not start with a
/// model other than the one asked for.
pub const MODEL_FILE: &str = "io.cost.model";
/// The file of the quality-of-service parameters, written second.
pub const QOS_FILE: &str = "io.cost.qos";

const MODEL: &str = "model";
const COEFFICIENTS: [&str; 6] = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
const QOS: [&str; 6] = ["rpct", "rlat", "wpct", "wlat", "min", "max"];

/// The lines of the two files, without the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lines {
    /// For [`MODEL_FILE`].
    pub model: String,
    /// For [`QOS_FILE`].
    pub qos: String,
}

/// Whether a setting belongs to these lines; other settings are the queue's.
pub fn is_key(key: &str) -> bool {
    key == MODEL || COEFFICIENTS.contains(&key) || QOS.contains(&key)
}

/// The settings that io.cost accepts, besides those of the queue.
pub fn keys() -> impl Iterator<Item = &'static str> + Clone {
    std::iter::once(MODEL).chain(COEFFICIENTS).chain(QOS)
}

/// The device's line in one of the controller's files, in the form in which the journal of changed
/// settings stores it to be restored.
pub fn line_of(device: &str, file: &str) -> DeviceLine {
    let absent = if file == QOS_FILE { "enable=0 ctrl=auto" } else { "ctrl=auto" };
    DeviceLine { device: device.to_owned(), absent: absent.to_owned() }
}

impl Lines {
    /// The lines for a scheduler named [`NAME`].
    ///
    /// # Errors
    /// A value that the kernel would refuse, or coefficients together with `model=auto`.
    pub fn of(spec: &SchedulerSpec) -> Result<Self, Refusal> {
        let coefficients = words(spec, &COEFFICIENTS);
        let model = match spec.setting(MODEL) {
            None | Some("auto") if coefficients.is_empty() => "ctrl=auto".to_owned(),
            Some("auto") => {
                let message = format!(
                    "{NAME}: model=auto lets the kernel choose the coefficients, so {coefficients} cannot be set"
                );
                return Err(Refusal::usage(message, "leave one of the two out"));
            }
            model => format!("ctrl=user model={} {coefficients}", model.unwrap_or("linear")),
        };
        let parameters = words(spec, &QOS);
        let qos = if parameters.is_empty() { "ctrl=auto".to_owned() } else { format!("ctrl=user {parameters}") };
        let lines = Self { model, qos: format!("enable=1 {qos}") };
        let refused = |error: hoistway_experiment::io_cost_lines::LineError| Refusal::from(error.diagnostic);
        let auto = ModelValues { is_user: false, read: [1; 3], write: [1; 3] };
        parse_model(&format!("0:0 {}", lines.model), &auto).map_err(refused)?;
        parse_qos(&format!("0:0 {}", lines.qos), &widest()).map_err(refused)?;
        Ok(lines)
    }
}

/// The parameters if none are given: any latency is good enough, and the rate of the controller's
/// virtual time may vary over its whole range, 1 to 10,000 %.
fn widest() -> QosValues {
    let none = Percent::whole(0);
    QosValues {
        is_enabled: false,
        is_user: false,
        read_percent: none,
        read_latency_us: 0,
        write_percent: none,
        write_latency_us: 0,
        min: Percent::whole(1),
        max: Percent::whole(10_000),
    }
}

fn words(spec: &SchedulerSpec, keys: &[&str]) -> String {
    let named = spec.settings.iter().filter(|setting| keys.contains(&setting.key.as_str()));
    named.map(|setting| format!("{}={}", setting.key, setting.value)).collect::<Vec<_>>().join(" ")
}

/// Checks that the controller is available and accepts these settings.
///
/// # Errors
/// There is no cgroup v2 with the I/O controller, or no io.cost in the kernel; or see
/// [`Lines::of`].
pub fn check(spec: &SchedulerSpec, hierarchy: Option<&Hierarchy>) -> Result<(), Refusal> {
    let Some(hierarchy) = hierarchy.filter(|hierarchy| hierarchy.version == Version::V2) else {
        let message = "io.cost is a controller of cgroup v2, and the I/O controller here is not v2's";
        return Err(Refusal::usage(
            message,
            "boot with cgroup_no_v1=io, or use bfq, whose weights version 1 has as well",
        ));
    };
    if !hierarchy.mount.join(QOS_FILE).exists() {
        let message = "this kernel has no io.cost (CONFIG_BLK_CGROUP_IOCOST)";
        return Err(Refusal::usage(message, "use bfq, or --host simulator with --limiter io.cost"));
    }
    Lines::of(spec).map(|_| ())
}

/// Whether this machine has the controller.
pub fn is_there() -> bool {
    check(&SchedulerSpec::named(NAME), Hierarchy::find().as_ref()).is_ok()
}

/// The refusal of a setting that neither the lines nor the queue have.
pub fn no_such_key(key: &str, of_queue: impl Iterator<Item = &'static str> + Clone) -> Refusal {
    let names = keys().chain(of_queue);
    let meant = did_you_mean(key, names.clone());
    let available = names.collect::<Vec<_>>().join(", ");
    Refusal::usage(format!("{NAME} has no setting '{key}'"), format!("{meant}(available: {available})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Lines, String> {
        Lines::of(&text.parse().unwrap()).map_err(|refusal| refusal.to_string())
    }

    fn pair(model: &str, qos: &str) -> Lines {
        Lines { model: model.to_owned(), qos: qos.to_owned() }
    }

    #[test]
    fn settings_become_lines_as_the_kernel_reads_them() {
        assert_eq!(lines("io.cost").unwrap(), pair("ctrl=auto", "enable=1 ctrl=auto"));
        assert_eq!(lines("io.cost:model=auto").unwrap(), lines("io.cost").unwrap());
        assert_eq!(
            lines("io.cost:rbps=1000000,rrandiops=380,min=100,max=100,nr_requests=64").unwrap(),
            pair("ctrl=user model=linear rbps=1000000 rrandiops=380", "enable=1 ctrl=user min=100 max=100")
        );
    }

    #[test]
    fn values_that_the_kernel_refuses_are_refused_before_the_run() {
        for (text, expected) in [
            ("io.cost:model=cubic", "cubic"),
            ("io.cost:min=150,max=100", "above"),
            ("io.cost:rbps=many", "many"),
            ("io.cost:model=auto,rbps=1000", "lets the kernel choose the coefficients"),
        ] {
            let error = lines(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn it_needs_version_2_and_a_kernel_that_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let of = |version| Hierarchy { version, mount: directory.path().to_owned() };
        let refused = |hierarchy: Option<Hierarchy>| {
            check(&SchedulerSpec::named(NAME), hierarchy.as_ref()).map_err(|refusal| refusal.message)
        };
        assert!(refused(None).unwrap_err().contains("cgroup v2"));
        assert!(refused(Some(of(Version::V1))).unwrap_err().contains("cgroup v2"));
        assert!(refused(Some(of(Version::V2))).unwrap_err().contains("CONFIG_BLK_CGROUP_IOCOST"));
        std::fs::write(directory.path().join(QOS_FILE), "").unwrap();
        assert_eq!(refused(Some(of(Version::V2))), Ok(()));
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest() {
        let refusal = no_such_key("rpcnt", ["nr_requests"].into_iter());
        assert!(refusal.help.contains("'rpct'") && refusal.help.contains("nr_requests"), "{refusal}");
    }
}
