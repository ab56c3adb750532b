//! The stable identity of a disk: its WWN or serial number. Its kernel name may change with every
//! boot.

use std::fs;

use super::facts::Disk;
use crate::exit::Error;

/// A udev property and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// `ID_WWN`, `ID_SERIAL` or `ID_SERIAL_SHORT`.
    pub property: &'static str,
    /// Its value.
    pub value: String,
}

/// In order of preference.
const PROPERTIES: [&str; 3] = ["ID_WWN", "ID_SERIAL", "ID_SERIAL_SHORT"];

impl Identity {
    /// From udev's database, else from sysfs as udev would derive it.
    pub fn of(disk: &Disk) -> Option<Self> {
        let database = fs::read_to_string(format!("/run/udev/data/b{}", disk.queue.number())).unwrap_or_default();
        Self::in_database(&database).or_else(|| {
            let wwid = disk.read("wwid").or_else(|| disk.read("device/wwid"));
            let serial = |name: &str| disk.read(name);
            Self::in_sysfs(wwid.as_deref(), serial("serial").as_deref(), serial("device/serial").as_deref())
        })
    }

    /// Parses lines `E:ID_WWN=0x5002538f00000000`.
    fn in_database(text: &str) -> Option<Self> {
        PROPERTIES.into_iter().find_map(|property| {
            let value =
                text.lines().find_map(|line| line.strip_prefix("E:")?.strip_prefix(property)?.strip_prefix('='))?;
            Self::checked(property, value)
        })
    }

    /// Derives the property as udev's own rules do: a SCSI identifier `naa.5002...` becomes the
    /// number `0x5002...`, the identifiers of NVMe stay as they are, and virtio has only a serial
    /// number.
    fn in_sysfs(wwid: Option<&str>, virtio_serial: Option<&str>, device_serial: Option<&str>) -> Option<Self> {
        let wwn = wwid.and_then(|wwid| match wwid.split_once('.') {
            Some(("naa", number)) => Some(format!("0x{number}")),
            Some(("eui" | "nvme" | "uuid", _)) => Some(wwid.to_owned()),
            _ => None,
        });
        let wwn = wwn.and_then(|wwn| Self::checked("ID_WWN", &wwn));
        let whole = virtio_serial.and_then(|serial| Self::checked("ID_SERIAL", serial));
        wwn.or(whole).or_else(|| device_serial.and_then(|serial| Self::checked("ID_SERIAL_SHORT", serial)))
    }

    /// A value that can be used in a rule unchanged.
    fn checked(property: &'static str, value: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '+');
        let value = value.trim();
        (!value.is_empty() && value.chars().all(is_plain)).then(|| Self { property, value: value.to_owned() })
    }

    /// Its form in file names.
    pub fn slug(&self) -> String {
        self.value.replace([':', '+'], "-")
    }

    /// The link that udev creates for it, if its name follows from the property.
    pub fn link(&self) -> Option<String> {
        let name = match self.property {
            "ID_WWN" if self.value.starts_with("0x") => format!("wwn-{}", self.value),
            "ID_WWN" => format!("nvme-{}", self.value),
            _ => {
                let entries = fs::read_dir("/dev/disk/by-id").ok()?.flatten();
                let mut names: Vec<String> =
                    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
                names.sort();
                names.into_iter().find(|name| name.ends_with(&self.value))?
            }
        };
        Some(format!("/dev/disk/by-id/{name}"))
    }
}

/// The error that no configuration for boot can be written.
pub fn missing(name: &str) -> Error {
    let what = format!("{name} has neither a WWN nor a serial number that udev could identify it with");
    let help =
        "a rule for the kernel's name would match another disk after renumbering; --apply sets it until the next boot";
    Error::refused(what, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(identity: Option<Identity>) -> String {
        identity.map_or_else(String::new, |it| format!("{}={}", it.property, it.value))
    }

    #[test]
    fn the_wwn_goes_before_serials() {
        let database = "S:disk/by-id/x\nE:ID_SERIAL=SAMSUNG_MZ7_S4NG\nE:ID_WWN=0x5002538f00000001\n";
        assert_eq!(text(Identity::in_database(database)), "ID_WWN=0x5002538f00000001");
        assert_eq!(text(Identity::in_database("E:ID_SERIAL=QEMU_1\n")), "ID_SERIAL=QEMU_1");
        assert_eq!(text(Identity::in_database("E:ID_PATH=pci-0000\n")), "");
    }

    #[test]
    fn sysfs_gives_what_udev_would_have_made_of_it() {
        let of = |wwid, virtio, serial| text(Identity::in_sysfs(wwid, virtio, serial));
        assert_eq!(of(Some("naa.5002538f00000001"), None, None), "ID_WWN=0x5002538f00000001");
        assert_eq!(of(Some("eui.0025385971b2"), None, Some("S4")), "ID_WWN=eui.0025385971b2");
        assert_eq!(of(Some("t10.ATA     QEMU"), Some("disk-1"), None), "ID_SERIAL=disk-1");
        assert_eq!(of(None, None, Some("S4NG")), "ID_SERIAL_SHORT=S4NG");
        // A quotation mark would end the value in the rule.
        assert_eq!(of(None, Some("a\", RUN+=\"x"), None), "");
    }

    #[test]
    fn links_are_udevs() {
        let link = |value: &str| Identity { property: "ID_WWN", value: value.to_owned() }.link().unwrap();
        assert_eq!(link("0x5002"), "/dev/disk/by-id/wwn-0x5002");
        assert_eq!(link("eui.00"), "/dev/disk/by-id/nvme-eui.00");
    }
}
