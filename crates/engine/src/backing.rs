//! Parses the text that configures a volume's backing, checks and opens it, and describes it for
//! the turn.
//!
//! | text | opened | data path |
//! | --- | --- | --- |
//! | `/dev/sdb`, `/dev/sdb@1GiB+100GiB` | O_DIRECT, exclusive | ring |
//! | `disk.img` on a disk | O_DIRECT if it works, else the page cache | ring |
//! | `disk.img` on tmpfs, `memory:1GiB` | page cache | small requests inline, large ones by the ring's workers |
//! | a file that io_uring blocks on (FUSE, NFS) | O_DIRECT if it works, else the page cache | threads of the volume |
//! | `null:1TiB` | nothing | answered at once |
//! | `base=BASE,overlay=OVERLAY` | both as `disk.img`, the base for reading | as `disk.img`; a block that is written is copied first |
//! | `model:ssd,disk.img` | as `disk.img` | as `disk.img`, delivered when the device model says so |

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hoistway_block::{Priority, SECTOR_BYTES, SectorRange};
use hoistway_device::Model;
use hoistway_elevator::Actuators;
use hoistway_linux::claims::{Claim, Claims};
use hoistway_linux::device::{
    EmptyingAbilities, Facts, Kind, Opened, Opening, Refusal, emptying_abilities, memory_file, open, open_claimed,
};
use hoistway_linux::ioctl::{FileExtent, file_extents};
use hoistway_linux::ring::Emptying;

use crate::error::{EngineError, ErrorKind};
use crate::overlay::OpenOverlay;
use crate::shard::MAX_VOLUMES;
use crate::turn::{MAX_EXTENTS_KEPT, Positions, VolumeAbilities};

/// Files without known positions are placed at the volume number times this many bytes.
const SYNTHETIC_STRIDE_BYTES: u64 = 1 << 40;
const SIZE_HELP: &str = "write a size as a number with B, KiB, MiB, GiB or TiB";

/// A backing as configured.
#[derive(Clone, Debug)]
pub struct Backing {
    /// Where the data is stored.
    pub kind: BackingKind,
    /// The device model that delays completions, if any.
    pub model: Option<Model>,
}

/// The storage of a backing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackingKind {
    /// A file or block device, whole or a slice of it.
    Path {
        /// Its path.
        path: PathBuf,
        /// First byte and length of the slice; `None` for the whole file.
        slice: Option<(u64, u64)>,
    },
    /// An overlay over a read-only base ([`crate::overlay`]).
    Overlay {
        /// The path of the base.
        base: PathBuf,
        /// The path of the overlay.
        overlay: PathBuf,
    },
    /// Memory of this many bytes.
    Memory(u64),
    /// No storage: this many bytes that read as zeroes.
    Null(u64),
}

impl Backing {
    /// The file or device that a volume on it writes to, and the slice of it: of an overlay, the overlay's.
    pub fn written(&self) -> Option<(&Path, Option<(u64, u64)>)> {
        match &self.kind {
            BackingKind::Path { path, slice } => Some((path, *slice)),
            BackingKind::Overlay { overlay, .. } => Some((overlay, None)),
            BackingKind::Memory(_) | BackingKind::Null(_) => None,
        }
    }

    /// Parses a backing's text.
    ///
    /// # Errors
    /// An invalid size, slice or model; the message says what is allowed.
    pub fn parse(text: &str) -> Result<Self, EngineError> {
        if let Some(rest) = text.strip_prefix("model:") {
            let (model, path) = split_model(rest);
            let model = Model::parse(model).map_err(|error| {
                EngineError::usage(format!("backing '{text}': {error}"), "see `hoistway list devices`")
            })?;
            let Some(path) = path else {
                return Err(EngineError::usage(
                    format!("backing '{text}' names a device model but no file for the data"),
                    "write model:NAME[,KEY=VALUE...],PATH",
                ));
            };
            let behind = Self::parse(path)?;
            if behind.model.is_some() {
                return Err(EngineError::usage(
                    format!("backing '{text}' has a model behind a model"),
                    "name one model",
                ));
            }
            return Ok(Self { kind: behind.kind, model: Some(model) });
        }
        let sized = |text: &str| parse_size(text).filter(|size| *size >= SECTOR_BYTES);
        let wrong = |what: &str| EngineError::usage(format!("backing '{text}': {what}"), SIZE_HELP);
        if ["base=", "overlay="].iter().any(|key| text.starts_with(key)) {
            return Ok(Self { kind: parse_overlay(text)?, model: None });
        }
        let kind = if let Some(size) = text.strip_prefix("null:") {
            BackingKind::Null(sized(size).ok_or_else(|| wrong("not a size of at least 512 bytes"))?)
        } else if let Some(size) = text.strip_prefix("memory:") {
            BackingKind::Memory(sized(size).ok_or_else(|| wrong("not a size of at least 512 bytes"))?)
        } else {
            let (path, slice) = match text.rsplit_once('@') {
                Some((path, slice)) if text.starts_with("/dev/") => {
                    let parsed = slice.split_once('+').and_then(|(at, length)| Some((parse_size(at)?, sized(length)?)));
                    (path, Some(parsed.ok_or_else(|| wrong("a slice is written @START+LENGTH"))?))
                }
                _ => (text, None),
            };
            if path.is_empty() {
                return Err(EngineError::usage("the backing is empty", "give a file or a block device"));
            }
            BackingKind::Path { path: PathBuf::from(path), slice }
        };
        Ok(Self { kind, model: None })
    }
}

/// Parses `base=BASE,overlay=OVERLAY`, in any order.
fn parse_overlay(text: &str) -> Result<BackingKind, EngineError> {
    let wrong = |what: String| {
        EngineError::usage(
            format!("backing '{text}': {what}"),
            "write base=PATH,overlay=PATH; `hoistway image create` makes an overlay",
        )
    };
    let (mut base, mut overlay) = (None, None);
    for word in text.split(',') {
        let place = match word.split_once('=') {
            Some(("base", path)) => Some((&mut base, path)),
            Some(("overlay", path)) => Some((&mut overlay, path)),
            _ => None,
        };
        let Some((place, path)) = place.filter(|(_, path)| !path.is_empty()) else {
            return Err(wrong(format!("'{word}' is neither base=PATH nor overlay=PATH (a path has no comma)")));
        };
        if place.replace(PathBuf::from(path)).is_some() {
            return Err(wrong(format!("'{word}' names a second file")));
        }
    }
    match (base, overlay) {
        (Some(base), Some(overlay)) if base == overlay => Err(wrong("base and overlay are one file".to_owned())),
        (Some(base), Some(overlay)) => Ok(BackingKind::Overlay { base, overlay }),
        (None, _) => Err(wrong("base=PATH is missing".to_owned())),
        (_, None) => Err(wrong("overlay=PATH is missing".to_owned())),
    }
}

/// Splits `ssd,channels=8,/a/b.img` into `ssd,channels=8` and `/a/b.img`: settings contain `=`, the
/// rest is the path.
fn split_model(text: &str) -> (&str, Option<&str>) {
    let is_setting = |word: &str| {
        word.split_once('=')
            .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.'))
    };
    let mut end = text.find(',').unwrap_or(text.len());
    while let Some(rest) = text.get(end + 1..) {
        let word = rest.split(',').next().unwrap_or(rest);
        if !is_setting(word) {
            return (&text[..end], Some(rest));
        }
        end += 1 + word.len();
    }
    (text, None)
}

/// Parses `4096`, `512B`, `64KiB`, `1GiB`, `2TiB`: whole numbers, binary units, upper or lower
/// case.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// A volume as configured.
#[derive(Clone, Debug)]
pub struct VolumeSettings {
    /// Its name in status and messages.
    pub name: String,
    /// Its backing.
    pub backing: Backing,
    /// The directory that file paths must stay below.
    pub root: Option<PathBuf>,
    /// Whether it is opened and served read-only.
    pub is_read_only: bool,
    /// Whether the page cache is used even where direct I/O works.
    pub uses_page_cache: bool,
    /// Flushes are answered at once and FUA is ignored: for scratch disks.
    pub has_unsafe_flush: bool,
    /// The unit, in bytes, in which its clients address it. Its size must be a multiple of it, because
    /// they could not reach the rest.
    pub unit_bytes: u32,
    /// I/O priority of all its requests.
    pub priority: Priority,
    /// The block devices that the process writes to. Volumes on slices of one device have the same.
    pub claims: Arc<Claims>,
}

impl VolumeSettings {
    /// A writable volume on a backing, with defaults for everything else.
    pub fn new(name: impl Into<String>, backing: Backing) -> Self {
        Self {
            name: name.into(),
            backing,
            root: None,
            is_read_only: false,
            uses_page_cache: false,
            has_unsafe_flush: false,
            unit_bytes: 1,
            priority: Priority::NONE,
            claims: Arc::default(),
        }
    }
}

/// The facts of a volume, which its clients get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeFacts {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether writes, trims and zeroing are refused.
    pub is_read_only: bool,
    /// Whether positioning costs time, on the real device or in the model.
    pub is_rotational: bool,
    /// Requests aligned to this many bytes need no read-modify-write of neighbouring bytes; 1 = any
    /// alignment.
    pub block_bytes: u32,
    /// Smallest unit that the device writes without reading first, in bytes; at least
    /// `block_bytes`.
    pub physical_block_bytes: u32,
    /// Whether trimming frees space.
    pub can_trim: bool,
    /// Whether a range can be zeroed without writing zeroes.
    pub can_zero_fast: bool,
    /// Whether reads go through the page cache, so that hints of future reads are useful.
    pub uses_page_cache: bool,
    /// Its backing in words: kind, path, model.
    pub description: String,
    /// What an operator should know: it is used in another way than was asked for.
    pub note: Option<String>,
}

/// A volume whose backing is open.
pub(crate) struct OpenVolume {
    pub facts: VolumeFacts,
    pub abilities: VolumeAbilities,
    pub opened: Option<Opened>,
    /// Its part of a block device, if it writes to one.
    pub claim: Option<Claim>,
    /// First byte of the volume in its file.
    pub base_bytes: u64,
    /// Whether it is a whole file or device, and becomes larger with it.
    pub may_grow: bool,
    pub is_inline: bool,
    /// Whether io_uring would block on it: all I/O is done by threads of the volume.
    pub is_blocking: bool,
    /// Whether it is a file that other programs reach as well, and whose size can be asked for at any
    /// time.
    pub has_local_size: bool,
    pub model: Option<Model>,
    /// The base below it, if it is an overlay.
    pub overlay: Option<OpenOverlay>,
}

/// How long a backing may take to be opened while others are served.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

impl OpenVolume {
    /// Opens the backing as [`OpenVolume::open`] does, and gives up if that hangs. What is opened later is closed again.
    pub fn open_in_time(settings: &VolumeSettings) -> Result<Self, EngineError> {
        let (name, seconds) = (settings.name.clone(), OPEN_TIMEOUT.as_secs());
        let settings = settings.clone();
        hoistway_linux::patience::within(OPEN_TIMEOUT, move || Self::open(&settings)).unwrap_or_else(|| {
            let message = format!("volume '{name}': its backing was not opened within {seconds} s");
            Err(EngineError::system(message, "see what its file system waits for, and try again"))
        })
    }

    /// Opens the backing that the settings name.
    pub fn open(settings: &VolumeSettings) -> Result<Self, EngineError> {
        let volume = Self::open_any(settings)?;
        let (size_bytes, unit_bytes) = (volume.facts.size_bytes, settings.unit_bytes);
        if size_bytes.is_multiple_of(u64::from(unit_bytes.max(1))) {
            return Ok(volume);
        }
        let message = format!(
            "volume '{}': it has {size_bytes} bytes, and its clients could not reach the last {} of them, because they \
             address it in units of {unit_bytes} bytes",
            settings.name,
            size_bytes % u64::from(unit_bytes)
        );
        let help =
            format!("make it longer (truncate -s %{unit_bytes} FILE), or serve it by NBD only and with min_block = 1");
        Err(EngineError::usage(message, help))
    }

    fn open_any(settings: &VolumeSettings) -> Result<Self, EngineError> {
        let described = |error: EngineError| EngineError {
            message: format!("volume '{}': {}", settings.name, error.message),
            ..error
        };
        match &settings.backing.kind {
            BackingKind::Null(size_bytes) => Ok(Self::null(settings, *size_bytes)),
            BackingKind::Memory(size_bytes) => {
                let file = memory_file("hoistway", *size_bytes).map_err(|error| {
                    let message = format!("volume '{}': no memory of {size_bytes} bytes: {error}", settings.name);
                    EngineError::system(message, "ask for less")
                })?;
                Self::on_file(settings, file, None, format!("memory of {size_bytes} bytes")).map_err(described)
            }
            BackingKind::Overlay { base, overlay } => crate::overlay::open(settings, base, overlay).map_err(described),
            BackingKind::Path { path, slice } => {
                let opening = Opening {
                    writable: !settings.is_read_only,
                    direct: !settings.uses_page_cache,
                    exclusive: !settings.is_read_only,
                    claimed_bytes: slice.unwrap_or((0, 0)),
                };
                let refused = |refusal| described(EngineError::from(refusal));
                let claim = match &settings.root {
                    // A node below the root is opened by its own rules, and claimed alone.
                    Some(_) if !path.starts_with("/dev") => None,
                    _ => settings.claims.claim(path, opening, &settings.name).map_err(refused)?,
                };
                let opened = open_fitting(path, settings.root.as_deref(), opening, claim.is_some()).map_err(refused)?;
                let has_local_size = opened.facts.has_local_size;
                let volume = Self::on_file(settings, opened, *slice, path.display().to_string()).map_err(described)?;
                Ok(Self { claim, has_local_size, ..volume })
            }
        }
    }

    fn null(settings: &VolumeSettings, size_bytes: u64) -> Self {
        let facts = VolumeFacts {
            name: settings.name.clone(),
            size_bytes,
            is_read_only: settings.is_read_only,
            is_rotational: false,
            block_bytes: 1,
            physical_block_bytes: 4_096,
            can_trim: true,
            can_zero_fast: true,
            uses_page_cache: false,
            description: "nothing".to_owned(),
            note: None,
        };
        let abilities = VolumeAbilities {
            size_bytes,
            is_read_only: settings.is_read_only,
            alignment_bytes: 1,
            emptying_alignment_bytes: 1,
            trimming: Some(Emptying::PunchHole),
            can_punch: true,
            can_zero: true,
            uses_page_cache: false,
            is_null: true,
            has_unsafe_flush: true,
            priority: settings.priority,
            positions: Positions::linear(0),
        };
        Self::with_model(
            Self {
                facts,
                abilities,
                opened: None,
                claim: None,
                base_bytes: 0,
                may_grow: false,
                is_inline: false,
                is_blocking: false,
                has_local_size: false,
                model: None,
                overlay: None,
            },
            settings,
        )
    }

    /// A volume on an open file, or on a slice of it.
    pub fn on_file(
        settings: &VolumeSettings,
        opened: Opened,
        slice: Option<(u64, u64)>,
        place: String,
    ) -> Result<Self, EngineError> {
        let Facts { kind, size_bytes: whole_bytes, .. } = opened.facts;
        let Range { base_bytes, size_bytes, alignment_bytes } = range_of(&opened, slice, &place)?;
        let EmptyingAbilities { can_punch, can_zero, can_discard } = match settings.is_read_only {
            true => EmptyingAbilities::default(),
            false => emptying_abilities(opened.file.as_fd(), whole_bytes),
        };
        let trimming = match kind {
            // A device that cannot discard has nothing to give back: its "holes" are written zeroes.
            Kind::BlockDevice => can_discard.then_some(Emptying::Discard),
            _ => can_punch.then_some(Emptying::PunchHole),
        };
        let note = cache_note(settings, &opened);
        let extents = file_places(&opened, kind, base_bytes);
        let abilities = VolumeAbilities {
            size_bytes,
            is_read_only: settings.is_read_only,
            alignment_bytes,
            emptying_alignment_bytes: match (kind, opened.facts.direct_alignment_bytes) {
                (Kind::BlockDevice, Some(block_bytes)) => alignment_bytes.max(block_bytes),
                _ => alignment_bytes,
            },
            trimming,
            can_punch,
            can_zero,
            uses_page_cache: !opened.is_direct,
            is_null: false,
            has_unsafe_flush: settings.has_unsafe_flush,
            priority: settings.priority,
            positions: Positions { extents, base_bytes },
        };
        let way = if opened.is_direct { "direct" } else { "page cache" };
        let facts = VolumeFacts {
            name: settings.name.clone(),
            size_bytes,
            is_read_only: settings.is_read_only,
            is_rotational: opened.facts.is_rotational,
            block_bytes: alignment_bytes,
            physical_block_bytes: opened.facts.physical_block_bytes.max(alignment_bytes),
            can_trim: trimming.is_some(),
            can_zero_fast: can_punch || can_zero,
            uses_page_cache: !opened.is_direct,
            description: format!("{place} ({}, {way})", kind_name(kind)),
            note,
        };
        let is_inline = kind == Kind::MemoryFile;
        let is_blocking = !is_inline && !hoistway_linux::device::is_asynchronous(opened.file.as_fd(), whole_bytes);
        let may_grow = slice.is_none() && settings.backing.model.is_none();
        let volume = Self {
            facts,
            abilities,
            opened: Some(opened),
            claim: None,
            base_bytes,
            may_grow,
            is_inline,
            is_blocking,
            has_local_size: false,
            model: None,
            overlay: None,
        };
        Ok(Self::with_model(volume, settings))
    }

    fn with_model(mut self, settings: &VolumeSettings) -> Self {
        if let Some(model) = &settings.backing.model {
            self.facts.description = format!("{} behind model {}", self.facts.description, model.name());
            self.abilities.positions.extents.clear();
            self.model = Some(model.clone());
        }
        self
    }

    /// Sets where a volume without known positions begins, so that the volumes of a shard do not
    /// overlap: on a model behind the volumes placed before, elsewhere at a multiple of
    /// [`SYNTHETIC_STRIDE_BYTES`].
    pub fn place(&mut self, number: u32, model_used_bytes: u64) {
        if self.model.is_some() {
            self.abilities.positions.base_bytes = model_used_bytes;
        } else if self.opened.as_ref().is_none_or(|opened| opened.facts.kind != Kind::BlockDevice) {
            self.abilities.positions.base_bytes = u64::from(number) * SYNTHETIC_STRIDE_BYTES;
        }
        if let Some(overlay) = &mut self.overlay {
            overlay.base_positions.base_bytes = u64::from(MAX_VOLUMES + number) * SYNTHETIC_STRIDE_BYTES;
        }
    }

    /// The range that each actuator of the underlying drive serves, in the sectors used for
    /// positions.
    pub fn actuators(&self) -> Actuators {
        let Some(opened) = &self.opened else { return Actuators::ONE };
        let ranges = hoistway_linux::actuators::actuator_ranges(opened.file.as_fd());
        let range = |(first_sector, sectors)| SectorRange { first_sector, sectors };
        Actuators::of(&ranges.into_iter().map(range).collect::<Vec<_>>())
    }

    /// The number of commands that a device of this kind takes at a time.
    pub fn default_depth(&self) -> u32 {
        if self.facts.is_rotational { 32 } else { 128 }
    }
}

/// Opens with direct I/O unless the size leaves a partial block at the end, which only the page
/// cache can reach.
pub(crate) fn open_fitting(
    path: &Path,
    root: Option<&Path>,
    opening: Opening,
    is_claimed: bool,
) -> Result<Opened, Refusal> {
    let open = |opening| if is_claimed { open_claimed(path, opening) } else { open(path, root, opening) };
    let opened = open(opening)?;
    let is_whole = |alignment: u32| opened.facts.size_bytes.is_multiple_of(u64::from(alignment));
    if opened.is_direct && !opened.facts.direct_alignment_bytes.is_some_and(is_whole) {
        // The descriptor holds the lock, so it must be closed before the file is opened again.
        drop(opened);
        return open(Opening { direct: false, ..opening });
    }
    Ok(opened)
}

/// The part of a file that is a volume.
struct Range {
    base_bytes: u64,
    size_bytes: u64,
    /// Alignment that its I/O needs; 1 = none.
    alignment_bytes: u32,
}

/// The range of a slice, or of the whole file; an error if it does not begin and end at the alignment.
fn range_of(opened: &Opened, slice: Option<(u64, u64)>, place: &str) -> Result<Range, EngineError> {
    let whole_bytes = opened.facts.size_bytes;
    let (base_bytes, size_bytes) = match slice {
        None => (0, whole_bytes),
        Some((at, length)) if at.checked_add(length).is_some_and(|end| end <= whole_bytes) => (at, length),
        Some((at, length)) => {
            let message = format!("slice @{at}+{length} is not inside the {whole_bytes} bytes of {place}");
            return Err(EngineError::usage(message, "choose a slice inside the device"));
        }
    };
    let alignment_bytes = match (opened.is_direct, opened.facts.direct_alignment_bytes) {
        (true, Some(alignment)) => alignment,
        _ => 1,
    };
    if !base_bytes.is_multiple_of(u64::from(alignment_bytes)) {
        let message = format!("slice of {place} begins at {base_bytes}, not at a multiple of {alignment_bytes}");
        return Err(EngineError::usage(message, "begin the slice at a whole MiB"));
    }
    if !size_bytes.is_multiple_of(u64::from(alignment_bytes)) {
        // A whole file of such a size is opened without direct I/O.
        let message = format!("slice of {place} has {size_bytes} bytes, which is no multiple of {alignment_bytes}");
        return Err(EngineError::usage(message, "give the slice a whole number of MiB"));
    }
    Ok(Range { base_bytes, size_bytes, alignment_bytes })
}

/// Why a volume uses the page cache although direct I/O was asked for. A file in memory has nothing to
/// bypass.
fn cache_note(settings: &VolumeSettings, opened: &Opened) -> Option<String> {
    if opened.is_direct || settings.uses_page_cache || opened.facts.kind == Kind::MemoryFile {
        return None;
    }
    let size_bytes = opened.facts.size_bytes;
    let why = match opened.facts.direct_alignment_bytes {
        None => "its file system has no direct I/O".to_owned(),
        Some(alignment) => {
            format!("its size of {size_bytes} bytes is no multiple of the {alignment} bytes that direct I/O needs")
        }
    };
    Some(format!("it uses the page cache, because {why}"))
}

/// The places on the device of a file's bytes from `base_bytes` on, by their offset in the volume;
/// empty if unknown.
pub(crate) fn file_places(opened: &Opened, kind: Kind, base_bytes: u64) -> Vec<FileExtent> {
    if kind != Kind::RegularFile {
        return Vec::new();
    }
    let known = file_extents(opened.file.as_fd(), MAX_EXTENTS_KEPT).unwrap_or_default();
    let of_volume = known.into_iter().filter_map(|extent| {
        let before = base_bytes.saturating_sub(extent.file_bytes);
        (before < extent.length_bytes).then(|| FileExtent {
            file_bytes: (extent.file_bytes + before) - base_bytes,
            device_bytes: extent.device_bytes + before,
            length_bytes: extent.length_bytes - before,
        })
    });
    of_volume.collect()
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::BlockDevice => "block device",
        Kind::RegularFile => "file",
        Kind::MemoryFile => "file in memory",
    }
}

/// The ranges of the actuators below a shard's volumes, if all volumes lie on the same drive.
pub(crate) fn common_actuators(volumes: &[OpenVolume]) -> Actuators {
    let mut drives = volumes.iter().map(OpenVolume::actuators);
    let first = drives.next().unwrap_or(Actuators::ONE);
    if drives.all(|other| other == first) { first } else { Actuators::ONE }
}

/// The model that all of a shard's volumes share, with room for all of them; an error if their
/// models differ.
pub(crate) fn common_model(volumes: &[OpenVolume]) -> Result<Option<Model>, EngineError> {
    let Some(first) = volumes.first() else { return Ok(None) };
    let name = |volume: &OpenVolume| volume.model.as_ref().map(|model| model.name().to_owned());
    if let Some(other) = volumes.iter().find(|volume| name(volume) != name(first)) {
        let shown = |volume: &OpenVolume| name(volume).map_or("no model".to_owned(), |model| format!("model {model}"));
        return Err(EngineError {
            message: format!(
                "volumes '{}' ({}) and '{}' ({}) share one device, which can have one model only",
                first.facts.name,
                shown(first),
                other.facts.name,
                shown(other)
            ),
            help: "give all volumes of a device the same model, or put them on devices of their own".to_owned(),
            kind: ErrorKind::Usage,
        });
    }
    let sectors = volumes.iter().map(|volume| volume.facts.size_bytes.div_ceil(SECTOR_BYTES)).sum();
    Ok(first.model.clone().map(|model| model.with_capacity_sectors(sectors)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_binary_units() {
        let sizes = ["512", "64KiB", "1g", "2TiB", "3 MiB"].map(parse_size);
        assert_eq!(sizes, [Some(512), Some(65_536), Some(1 << 30), Some(2 << 40), Some(3 << 20)]);
        for wrong in ["", "KiB", "1.5GiB", "12 parsecs", "99999999999TiB"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_model_takes_its_settings_and_leaves_the_path() {
        assert_eq!(split_model("ssd,/a/b.img"), ("ssd", Some("/a/b.img")));
        assert_eq!(split_model("ssd,channels=8,seed=1,disk,1.img"), ("ssd,channels=8,seed=1", Some("disk,1.img")));
        assert_eq!(split_model("ssd,channels=8"), ("ssd,channels=8", None));
    }

    #[test]
    fn each_form_of_backing_is_recognised() {
        let kind = |text: &str| Backing::parse(text).map(|backing| backing.kind);
        assert_eq!(kind("null:1TiB"), Ok(BackingKind::Null(1 << 40)));
        assert_eq!(kind("memory:1MiB"), Ok(BackingKind::Memory(1 << 20)));
        let slice = Some((1 << 30, 100 << 30));
        assert_eq!(kind("/dev/sdb@1GiB+100GiB"), Ok(BackingKind::Path { path: "/dev/sdb".into(), slice }));
        assert_eq!(kind("a@b.img"), Ok(BackingKind::Path { path: "a@b.img".into(), slice: None }));
        for wrong in ["null:", "memory:12x", "/dev/sdb@1GiB", "model:ssd", "model:nonsense,/a"] {
            let error = Backing::parse(wrong).expect_err(wrong);
            assert!(error.message.contains(wrong), "{error}");
        }
    }
}
