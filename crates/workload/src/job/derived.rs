//! Values derived from the options of a job: its depth, random map, CPUs and files.

use hoistway_block::Priority;

use super::{Amount, BlockSize, Direction, Distribution, Engine, Job, Mix, Pace, Pattern, Placement};
use crate::program::Program;

impl Job {
    /// The job of a program, with the program's name, for one pass.
    pub fn of(program: Program) -> Self {
        let mut job = Self { name: program.name().to_owned(), ..Self::default() };
        program.describe(&mut job);
        job.source.program = Some(program);
        job
    }

    /// Maximum number of I/Os in flight of a thread: `iodepth`, or 1 with a synchronous engine.
    pub fn effective_depth(&self) -> u32 {
        match self.submission.engine {
            Engine::Sync => 1,
            Engine::Async | Engine::Null => self.submission.iodepth.max(1),
        }
    }

    /// Whether random I/Os visit every block exactly once per pass: the job asks for it, and all
    /// sizes and alignments are equal.
    ///
    /// With other sizes, runs or hot spots, a map would need memory in proportion to the area.
    /// There blocks may repeat, unless [`Job::trims_to_map`].
    pub fn uses_random_map(&self) -> bool {
        let Pattern::Random { run: 1, .. } = self.shape.pattern else { return false };
        let directions = self.shape.mix.directions();
        let mut used = Direction::ALL.into_iter().filter(|direction| directions.contains(direction));
        let Some(first) = used.next() else { return false };
        let unit = |direction: Direction| {
            let size = self.shape.block_sizes.of(direction);
            let align = *self.shape.block_align_bytes.of(direction);
            match size {
                BlockSize::Fixed(bytes) if align == 0 || align == *bytes => Some(*bytes),
                _ => None,
            }
        };
        let uniform = self.shape.distribution == Distribution::Uniform;
        let always = directions.iter().all(|direction| *self.shape.random_percent.of(*direction) >= 100);
        self.shape.random_map
            && self.area.zones.is_none()
            && uniform
            && always
            && unit(first).is_some()
            && used.all(|other| unit(other) == unit(first))
    }

    /// Whether random I/Os of different sizes are trimmed so that each block is visited once per
    /// pass, as in fio: the job asks for it, and all sizes are multiples of the smallest one.
    pub fn trims_to_map(&self) -> bool {
        let directions = self.shape.mix.directions();
        let smallest_bytes = self.shape.block_sizes.of(directions[0]).smallest_bytes().max(1);
        let fits = |direction: &Direction| {
            let (size, align) = (self.shape.block_sizes.of(*direction), *self.shape.block_align_bytes.of(*direction));
            let is_multiple = match size {
                BlockSize::Fixed(_) | BlockSize::Range { .. } => size.largest_bytes().is_multiple_of(smallest_bytes),
                BlockSize::Split(entries) => entries.iter().all(|entry| entry.bytes.is_multiple_of(smallest_bytes)),
            };
            size.smallest_bytes() == smallest_bytes && is_multiple && (align == 0 || align == smallest_bytes)
        };
        let is_random = matches!(self.shape.pattern, Pattern::Random { run: 1, .. });
        let draws_all = directions.iter().all(|direction| *self.shape.random_percent.of(*direction) >= 100);
        let is_plain = self.area.zones.is_none() && self.shape.distribution == Distribution::Uniform;
        self.shape.random_map
            && is_random
            && draws_all
            && is_plain
            && !self.shape.sizes_unaligned
            && !self.shape.sizes_by_pattern
            && !matches!(self.shape.mix, Mix::TrimWrite | Mix::Rewrite)
            && !self.uses_random_map()
            && directions.iter().all(fits)
    }

    /// Whether its I/Os are issued at recorded times; such a job sleeps most of the time and must
    /// wake up on time.
    pub fn keeps_recorded_times(&self) -> bool {
        self.source.replay.as_ref().is_some_and(|replay| replay.pace == Pace::AsRecorded)
    }

    /// The CPUs that a thread may run on; empty means all.
    pub fn cpus_of(&self, thread: u32) -> Vec<usize> {
        let all = self.affinity.cpus.iter().map(|&cpu| cpu as usize);
        match self.affinity.cpus.len() {
            0 => Vec::new(),
            count if self.affinity.splits_cpus => all.skip(thread as usize % count).take(1).collect(),
            _ => all.collect(),
        }
    }

    /// The job's I/O priority.
    pub fn priority(&self) -> Priority {
        Priority(self.priorities.priority_bits)
    }

    /// The name of the area (file, device, region) of `thread`; equal names mean the same area.
    ///
    /// It is `file` if given. Otherwise it is `<job>.<thread>.0` for [`Placement::Own`], else the
    /// file of the group, `<group or job>.area`. `directory` is prepended to generated names only.
    pub fn area_name(&self, thread: u32) -> String {
        if !self.area.file.is_empty() {
            return self.area.file.clone();
        }
        let owner = if self.group.is_empty() { &self.name } else { &self.group };
        let base = match self.area.placement {
            Placement::Own => format!("{}.{thread}.0", self.name),
            Placement::Shared | Placement::Split => format!("{owner}.area"),
        };
        if self.area.directory.is_empty() { base } else { format!("{}/{base}", self.area.directory) }
    }

    /// The smallest area in bytes that satisfies every thread; `None` if the job accepts any size.
    pub fn wanted_area_bytes(&self) -> Option<u64> {
        let files = u64::from(self.area.files.max(1));
        let all_files = |bytes: u64| match files {
            1 => bytes,
            _ => bytes.next_multiple_of(crate::files::FILE_ALIGNMENT_BYTES).saturating_mul(files),
        };
        if let Some(bytes) = self.area.file_bytes {
            return Some(all_files(bytes));
        }
        let size_bytes = match self.area.size.map(|size| size.part(files)) {
            Some(Amount::Bytes(bytes)) => bytes,
            Some(Amount::Percent(_)) => return None,
            None => self.source.program?.area_bytes()?,
        };
        let threads = u64::from(self.threads.max(1));
        let (Amount::Bytes(first), Amount::Bytes(increment_bytes)) = (self.area.offset, self.area.offset_increment)
        else {
            return None;
        };
        Some(all_files(match self.area.placement {
            Placement::Split => {
                first.saturating_add(crate::pattern::round_up_to_mib(size_bytes).saturating_mul(threads))
            }
            Placement::Shared | Placement::Own => {
                first.saturating_add(increment_bytes.saturating_mul(threads - 1)).saturating_add(size_bytes)
            }
        }))
    }
}
