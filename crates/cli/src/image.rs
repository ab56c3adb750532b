//! `hoistway image`: overlays that are not served. They are made, described, checked and written into their base.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hoistway_engine::overlay::format::BLOCK_BYTES;
use hoistway_engine::overlay::image::{self, ImageInfo};
use hoistway_engine::{EngineError, ErrorKind};
use hoistway_experiment::Exit;
use hoistway_export::configuration::Size;
use serde_json::{Value, json};

use crate::exit::{Error, Outcome, print};
use crate::units;

/// `hoistway image`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  hoistway image create --base /images/debian.img /var/lib/vm1.ov
  hoistway image info /var/lib/vm1.ov
  hoistway serve --nbd unix:/run/hoistway.sock --export vm1=base=/images/debian.img,overlay=/var/lib/vm1.ov")]
pub struct ImageArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make an overlay: a disk that begins as a base image, and to which only what is written takes space
    #[command(after_help = "Examples:
  hoistway image create --base /images/debian.img /var/lib/vm1.ov
  hoistway image create --base /images/debian.img --size 40GiB /var/lib/vm2.ov

The base is a raw image and must not change as long as it has overlays. Make a raw image of a qcow2 one with
qemu-img convert -O raw.")]
    Create {
        /// The base image, which is only read
        #[arg(long, value_name = "FILE")]
        base: PathBuf,
        /// Size of the disk; behind the end of the base it is empty [default: the size of the base]
        #[arg(long, value_name = "SIZE", value_parser = units::size)]
        size: Option<u64>,
        /// The overlay, which must not exist
        overlay: PathBuf,
        /// Print the description as JSON
        #[arg(long)]
        json: bool,
    },
    /// Describe an overlay: its size, its base, and how much of it is its own
    #[command(after_help = "Examples:
  hoistway image info /var/lib/vm1.ov
  hoistway image info --json /var/lib/vm1.ov

It may be served meanwhile; the numbers are then those of a moment.")]
    Info {
        /// The overlay
        overlay: PathBuf,
        /// Print the description as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check that an overlay is whole and that its base is as it was; changes nothing
    #[command(after_help = "Examples:
  hoistway image check /var/lib/vm1.ov
  hoistway image check --base /new/place/debian.img /var/lib/vm1.ov

Exit code 0 if it can be served, also if one copy of a page of its bitmap is damaged: the other one is used, and the
damaged one is written again later.")]
    Check {
        /// The base, if it is not where it was when the overlay was made
        #[arg(long, value_name = "FILE")]
        base: Option<PathBuf>,
        /// The overlay, which no server has open
        overlay: PathBuf,
        /// Print the description as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write an overlay into its base, and make it an empty overlay of what the base is then
    #[command(after_help = "Examples:
  hoistway image commit /var/lib/vm1.ov

The base is changed: other overlays on it are refused from then on, and must be made anew. A commit that was interrupted
is finished by the same command.")]
    Commit {
        /// The base, if it is not where it was when the overlay was made
        #[arg(long, value_name = "FILE")]
        base: Option<PathBuf>,
        /// The overlay, which no server has open
        overlay: PathBuf,
        /// Print what was done as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub fn run(arguments: &ImageArguments) -> Outcome {
    match &arguments.action {
        Action::Create { base, size, overlay, json } => {
            describe(overlay, &image::create(base, overlay, size.unwrap_or(0)).map_err(refused)?, *json)
        }
        Action::Info { overlay, json } => describe(overlay, &image::info(overlay).map_err(refused)?, *json),
        Action::Check { base, overlay, json } => {
            describe(overlay, &image::check(overlay, base.as_deref()).map_err(refused)?, *json)
        }
        Action::Commit { base, overlay, json } => commit(overlay, base.as_deref(), *json),
    }
}

fn commit(overlay: &Path, base: Option<&Path>, json: bool) -> Outcome {
    let done = image::commit(overlay, base).map_err(refused)?;
    let left = image::info(overlay).map_err(refused)?;
    if json {
        let value = json!({
            "base": left.base_path,
            "overlay": overlay,
            "written_bytes": done.written_bytes,
            "emptied_bytes": done.emptied_bytes,
        });
        print(&format!("{value:#}\n"))?;
        return Ok(Exit::Done);
    }
    print(&format!(
        "{}: {} written and {} emptied; {} is an empty overlay now, and all others on this base are lost\n",
        left.base_path.display(),
        Size(done.written_bytes),
        Size(done.emptied_bytes),
        overlay.display()
    ))?;
    Ok(Exit::Done)
}

fn describe(overlay: &Path, info: &ImageInfo, json: bool) -> Outcome {
    let text = if json { format!("{:#}\n", document(overlay, info)) } else { table(overlay, info) };
    print(&text)?;
    Ok(Exit::Done)
}

fn document(overlay: &Path, info: &ImageInfo) -> Value {
    let damaged = info.damaged.iter().map(|slot| json!({"page": slot.page, "slot": slot.slot}));
    json!({
        "overlay": overlay,
        "size_bytes": info.size_bytes,
        "allocated_bytes": info.allocated_bytes,
        "block_bytes": BLOCK_BYTES,
        "own_blocks": info.own_blocks,
        "base_blocks": info.base_blocks,
        "base": info.base_path,
        "base_size_bytes": info.base.size_bytes,
        "base_modified_s": info.base.modified_s,
        "base_modified_ns": info.base.modified_ns,
        "is_committing": info.is_committing,
        "damaged_slots": damaged.collect::<Vec<_>>(),
    })
}

fn table(overlay: &Path, info: &ImageInfo) -> String {
    let own_bytes = info.own_blocks * BLOCK_BYTES;
    let mut text = format!(
        "overlay    {}\nsize       {}\non disk    {}\nown        {own_bytes} bytes in {} of the base's {} blocks of 64KiB\n\
         base       {}\nbase size  {}\n",
        overlay.display(),
        Size(info.size_bytes),
        Size(info.allocated_bytes),
        info.own_blocks,
        info.base_blocks,
        info.base_path.display(),
        Size(info.base.size_bytes)
    );
    if info.is_committing {
        text += &format!("state      a commit was interrupted: hoistway image commit {}\n", overlay.display());
    }
    for slot in &info.damaged {
        text += &format!("damaged    copy {} of page {} of the bitmap; another one is used\n", slot.slot, slot.page);
    }
    text
}

fn refused(error: EngineError) -> Error {
    let exit = match error.kind {
        ErrorKind::Usage => Exit::Usage,
        ErrorKind::Unsafe => Exit::Refused,
        ErrorKind::System => Exit::Failed,
    };
    Error::new(exit, error.message, error.help)
}
