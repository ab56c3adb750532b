//! The twelve workload codes: `<cache><pattern><direction>`, with `:key=value` behind them (harness specification 5.2).
//!
//! ```text
//! b buffered | d direct    s sequential | r random    r read | w write | m mixed
//! drr:bs=4k,iodepth=32     direct random reads of 4 KiB, 32 in flight per thread
//! ```

use crate::fio::{self, Diagnostic};
use crate::job::{BlockSize, Engine, Job, Mix, Pattern, PerDirection, Placement};

/// The codes, in the order they are listed.
pub const CODES: [&str; 12] = ["bsr", "bsw", "bsm", "brr", "brw", "brm", "dsr", "dsw", "dsm", "drr", "drw", "drm"];

/// What the name `all` stands for.
pub const ALL: [&str; 8] = ["bsr", "brr", "bsw", "brw", "dsr", "drr", "dsw", "drw"];

/// A name that means no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Not one of the codes.
    #[error("unknown workload '{given}'; known are {}, all, or a .fio file{}", CODES.join(" "), did_you_mean(given))]
    Unknown {
        /// What was given.
        given: String,
    },
    /// The code is right, what follows it is not.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Overrides(Vec<Diagnostic>),
}

fn did_you_mean(given: &str) -> String {
    let code = given.split(':').next().unwrap_or("");
    let hint = crate::suggest::nearest(code, CODES);
    hint.map_or(String::new(), |code| format!("; did you mean '{code}'?"))
}

/// The job of `code[:key=value[,key=value]...]`, and notes about its settings. The code's case does not count.
///
/// The job's name is the text given, in lower case up to the colon.
///
/// # Errors
/// [`BadName`], with all codes and the nearest one, or with what is wrong with a setting.
pub fn parse(text: &str) -> Result<(Job, Vec<Diagnostic>), BadName> {
    let (code, overrides) = text.split_once(':').map_or((text, None), |(code, rest)| (code, Some(rest)));
    let code = code.to_lowercase();
    let unknown = || BadName::Unknown { given: text.to_owned() };
    let job = of_code(&code).ok_or_else(unknown)?;
    match overrides {
        None => Ok((job, Vec::new())),
        Some(overrides) => {
            let (mut job, notes) =
                fio::override_job(job, overrides, &format!("workload {code}")).map_err(BadName::Overrides)?;
            job.name = format!("{code}:{overrides}");
            Ok((job, notes))
        }
    }
}

fn of_code(code: &str) -> Option<Job> {
    let mut letters = code.chars();
    let (cache, pattern, direction) = (letters.next()?, letters.next()?, letters.next()?);
    if letters.next().is_some() {
        return None;
    }
    let is_direct = match cache {
        'b' => false,
        'd' => true,
        _ => return None,
    };
    let (pattern, placement) = match pattern {
        's' => (Pattern::Sequential { skip_bytes: 0 }, Placement::Split),
        'r' => (Pattern::Random { run: 1, repeat_offset: false }, Placement::Shared),
        _ => return None,
    };
    let mix = match direction {
        'r' => Mix::Read,
        'w' => Mix::Write,
        'm' => Mix::ReadWrite { read_percent: 50 },
        _ => return None,
    };
    Some(Job {
        name: code.to_owned(),
        mix,
        pattern,
        placement,
        // Uniform draws: threads share the file, so no thread could keep a map of what was visited.
        random_map: false,
        block_sizes: PerDirection::all(BlockSize::Fixed(if is_direct { 32 << 10 } else { 4 << 10 })),
        engine: Engine::Sync,
        direct: is_direct,
        ..Job::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_means_a_job_and_any_case_will_do() {
        for code in CODES {
            let (job, notes) = parse(code).expect(code);
            assert_eq!((job.direct, job.name.as_str(), notes.len()), (code.starts_with('d'), code, 0));
            assert_eq!(parse(&code.to_uppercase()).expect(code).0, job);
        }
    }

    #[test]
    fn an_unknown_code_gets_the_list_and_the_nearest() {
        let message = parse("bxr").expect_err("no such code").to_string();
        assert!(CODES.iter().all(|code| message.contains(code)) && message.contains("'bsr'"), "{message}");
    }

    #[test]
    fn settings_change_only_what_they_name() {
        let (plain, _) = parse("drr").expect("a code");
        let (job, _) = parse("drr:bs=4k,iodepth=32").expect("right settings");
        let name = "drr:bs=4k,iodepth=32".to_owned();
        let block_sizes = PerDirection::all(BlockSize::Fixed(4096));
        assert_eq!(job, Job { name, block_sizes, iodepth: 32, engine: Engine::Async, ..plain });
    }

    #[test]
    fn a_triple_in_a_setting_keeps_its_commas() {
        let (job, _) = parse("drm:bs=4k,16k,rwmixread=70").expect("right settings");
        assert_eq!((job.block_sizes.read, job.block_sizes.write), (BlockSize::Fixed(4096), BlockSize::Fixed(16_384)));
        assert_eq!(job.mix, Mix::ReadWrite { read_percent: 70 });
    }

    #[test]
    fn a_wrong_setting_is_placed_and_explained() {
        let message = parse("bsw:fsnyc=1").expect_err("no such option").to_string();
        assert!(message.contains("workload bsw:1:1") && message.contains("did you mean 'fsync'?"), "{message}");
    }
}
