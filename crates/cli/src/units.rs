//! Values of options in the format of the command line: sizes, percent, lists of numbers.

use hoistway_experiment::Diagnostic;

use hoistway_experiment::units::{bytes, refused};
pub use hoistway_experiment::units::{ios_per_s, time};

/// A simulated machine: `key=value,...`.
pub fn machine(text: &str) -> Result<hoistway_experiment::Machine, Diagnostic> {
    hoistway_experiment::Machine::parse(text)
}

/// Seeds: `1,2,3`.
pub fn seeds(text: &str) -> Result<Vec<u64>, Diagnostic> {
    let seeds: Option<Vec<u64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    let mut sorted = seeds.clone().unwrap_or_default();
    sorted.sort_unstable();
    let is_twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    seeds.filter(|_| !is_twice).ok_or_else(|| {
        Diagnostic::new(format!("'{text}' is not a list of seeds"), "write whole numbers, each once: 1,2,3,4")
    })
}

/// A size in bytes: `512`, `4k`, `1.5GiB`, `100MB`. With a fraction, rounded down to a multiple
/// of 512.
pub fn size(text: &str) -> Result<u64, Diagnostic> {
    let help = "write bytes, or a number with k, M, G, T (1024-based; also KiB) or kB, MB, GB, TB (1000-based)";
    bytes(text).map_err(|is_too_large| refused(text, "size", is_too_large, help))
}

/// A ratio from a percentage: `5%` or `5` is 0.05.
pub fn percent(text: &str) -> Result<f64, Diagnostic> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let is_decimal = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    number
        .parse::<f64>()
        .ok()
        .filter(|_| is_decimal)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| Diagnostic::new(format!("'{text}' is not a percentage"), "write 5% or 0.5%"))
}

/// A list of percentiles, each above 0 and at most 100.
pub fn percentiles(text: &str) -> Result<Vec<f64>, Diagnostic> {
    let one = |part: &str| part.trim().parse::<f64>().ok().filter(|value| *value > 0.0 && *value <= 100.0);
    text.split(',').map(one).collect::<Option<Vec<f64>>>().ok_or_else(|| {
        Diagnostic::new(
            format!("'{text}' is not a list of percentiles"),
            "write numbers above 0 and up to 100 (= the largest), for example 50,99,99.9,100",
        )
    })
}

/// A list of thread counts, each 1 to 4096.
pub fn threads(text: &str) -> Result<Vec<u32>, Diagnostic> {
    let one = |part: &str| part.trim().parse::<u32>().ok().filter(|count| (1..=4096).contains(count));
    text.split(',').map(one).collect::<Option<Vec<u32>>>().ok_or_else(|| {
        Diagnostic::new(
            format!("'{text}' is not a list of thread counts"),
            "write numbers from 1 to 4096, for example 1,3,6",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_know_both_families_of_units() {
        let sizes = ["512", "4k", "4K", "4KiB", "4kB", "1M", "2GB", "1.5G", "1.0005k"].map(|text| size(text).unwrap());
        assert_eq!(sizes, [512, 4096, 4096, 4096, 4000, 1 << 20, 2_000_000_000, 3 << 29, 1024]);
    }

    #[test]
    fn what_is_left_over_behind_a_number_is_an_error() {
        for text in ["", "k", "4kk", "4 k 1", "1..5k", "1.", "-1", "0x10", "99999999999T", "1e3"] {
            assert!(size(text).is_err(), "{text}");
        }
        for text in ["", "1x", "s", "1,5s", "-1s", "400000000000h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentages_are_ratios() {
        assert!((percent("5%").unwrap() - 0.05).abs() < 1e-12);
        assert!(percent("5%%").is_err() && percent("inf").is_err() && percent("-1").is_err());
    }
}
