//! The kind of a device with all its settings: the one place that knows every parameter table.

use crate::array::{ARRAY, ArrayParameters};
use crate::disk::{DISK, DiskParameters};
use crate::flash::{FLASH, FlashParameters};
use crate::null::NullParameters;
use crate::parameter::{NULL, Parameter, Row};

/// A device's kind and parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Null(NullParameters),
    Disk(DiskParameters),
    /// The array and its members.
    Array(ArrayParameters, DiskParameters),
    Flash(FlashParameters),
}

/// Prefix of the parameters of an array's members.
pub(crate) const MEMBER: &str = "disk.";

impl Kind {
    /// The words of `type`.
    pub(crate) const WORDS: [&str; 4] = ["hdd", "raid", "flash", "null"];

    /// The kind for a word, with its defaults.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "null" => Kind::Null(NullParameters::default()),
            "hdd" => Kind::Disk(DiskParameters::default()),
            "raid" => Kind::Array(ArrayParameters::default(), member()),
            "flash" => Kind::Flash(FlashParameters::default()),
            _ => return None,
        })
    }

    /// Its word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Kind::Disk(_) => "hdd",
            Kind::Array(..) => "raid",
            Kind::Flash(_) => "flash",
            Kind::Null(_) => "null",
        }
    }

    /// Calls `visit` with every parameter of this kind, the prefix of its key, and its value.
    pub(crate) fn each(&mut self, visit: &mut impl FnMut(&'static str, &'static Parameter, &mut u64)) {
        match self {
            Kind::Null(parameters) => walk("", NULL, parameters, visit),
            Kind::Disk(parameters) => walk("", DISK, parameters, visit),
            Kind::Array(parameters, disk) => {
                walk("", ARRAY, parameters, visit);
                walk(MEMBER, DISK, disk, visit);
            }
            Kind::Flash(parameters) => walk("", FLASH, parameters, visit),
        }
    }

    /// The parameters of the disk, or of the array's member disks.
    pub(crate) fn disk_mut(&mut self) -> Option<&mut DiskParameters> {
        match self {
            Kind::Disk(disk) | Kind::Array(_, disk) => Some(disk),
            Kind::Null(_) | Kind::Flash(_) => None,
        }
    }

    /// A violated constraint between values that are each allowed: the key at fault, and a
    /// sentence.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        let own = |(key, what): (&str, String)| (key.to_owned(), what);
        match self {
            Kind::Null(_) => Ok(()),
            Kind::Disk(parameters) => parameters.check().map_err(own),
            Kind::Array(parameters, disk) => {
                parameters.check().map_err(own)?;
                disk.check().map_err(|(key, what)| (format!("{MEMBER}{key}"), what))?;
                if disk.layout.actuators > 1 {
                    let what =
                        "members of an array have one hardware queue: the controller supports no more".to_owned();
                    return Err((format!("{MEMBER}actuators"), what));
                }
                if self.capacity_sectors() == 0 {
                    let (chunk, sectors) = (chunk_sectors(parameters), disk.layout.capacity_sectors);
                    let what = format!("a chunk of {chunk} sectors does not fit on a disk of {sectors}");
                    return Err(("chunk_kib".to_owned(), what));
                }
                Ok(())
            }
            Kind::Flash(parameters) => parameters.check().map_err(own),
        }
    }

    /// Capacity in sectors.
    pub(crate) fn capacity_sectors(&self) -> u64 {
        match self {
            Kind::Null(parameters) => parameters.capacity_sectors,
            Kind::Disk(parameters) => parameters.layout.capacity_sectors,
            Kind::Array(array, disk) => {
                data_disks(array) * (disk.layout.capacity_sectors / chunk_sectors(array)) * chunk_sectors(array)
            }
            Kind::Flash(parameters) => parameters.layout.capacity_sectors,
        }
    }

    /// Enlarges the device to `sectors` if necessary; a null device gets exactly this size. If the
    /// file behind another model is smaller than the model's device, it is like a partition at the
    /// outer edge of the disk: geometry and seeks stay those of the real device. Only a larger file
    /// makes the device larger: more cylinders, more flash.
    pub(crate) fn make_room(&mut self, sectors: u64) {
        match self {
            Kind::Null(parameters) => parameters.capacity_sectors = sectors,
            Kind::Disk(DiskParameters { layout, .. }) => layout.capacity_sectors = layout.capacity_sectors.max(sectors),
            Kind::Array(array, disk) => {
                let chunk = chunk_sectors(array);
                let rows = sectors.div_ceil(chunk).div_ceil(data_disks(array));
                disk.layout.capacity_sectors = disk.layout.capacity_sectors.max(rows * chunk);
            }
            Kind::Flash(FlashParameters { layout, .. }) => {
                layout.capacity_sectors = layout.capacity_sectors.max(sectors);
            }
        }
    }
}

/// The default member of an array: without a volatile cache, because controllers switch it off.
pub(crate) fn member() -> DiskParameters {
    DiskParameters::default().with(|disk| disk.writing.write_cache = 0)
}

/// Data chunks per row: one less with parity.
fn data_disks(array: &ArrayParameters) -> u64 {
    if array.has_parity() { array.disks - 1 } else { array.disks }
}

fn chunk_sectors(array: &ArrayParameters) -> u64 {
    array.chunk_kib * 2
}

/// Calls `visit` with the parameters of one table.
pub(crate) fn walk<P>(
    prefix: &'static str,
    rows: &'static [Row<P>],
    parameters: &mut P,
    visit: &mut impl FnMut(&'static str, &'static Parameter, &mut u64),
) {
    for row in rows {
        visit(prefix, &row.parameter, (row.field)(parameters));
    }
}
