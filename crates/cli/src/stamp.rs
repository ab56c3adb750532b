//! A time in the names of directories.

/// A time as `20261120-095012`, UTC.
pub fn stamp(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Year, month and day from a number of days since 1970 (Gregorian calendar): counted in eras of
/// 400 years that begin on the first of March, so that the leap day is the last day of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::stamp;

    #[test]
    fn times_become_stamps() {
        // 2024-02-29 is day 19782; 2026-11-20 day 20777.
        assert_eq!(stamp(19_782 * 86_400_000), "20240229-000000");
        assert_eq!(stamp((20_777 * 86_400 + 9 * 3600 + 50 * 60 + 12) * 1000), "20261120-095012");
    }
}
