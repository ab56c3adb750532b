//! Whether the machine is quiet enough for figures that depend on when processes run.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Share of all processors' time above which other work counts. The margins of the tests are 5 % of their figures and
/// more, and what is running is not on all processors at once.
const SHARE_MAX: f64 = 0.1;
/// How long the processors are watched: a hundred ticks of two processors.
const WATCHED: Duration = Duration::from_millis(500);

/// Tests of one program measure one after the other: the servers and clients of one would be others to the next.
static ALONE: Mutex<()> = Mutex::new(());

/// What `measure` finds, if other processes leave the processors alone before and after it; otherwise nothing, and a line
/// says that the test is left out.
pub fn undisturbed<T>(test: &str, measure: impl FnOnce() -> T) -> Option<T> {
    let is_quiet = || {
        let share = share_of_others();
        if share > SHARE_MAX {
            println!("SKIPPED {test}: others have {:.0} % of the processors", share * 100.0);
        }
        share <= SHARE_MAX
    };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_quiet() {
        return None;
    }
    let measured = measure();
    is_quiet().then_some(measured)
}

/// Share of all processors' time that other processes have now. Work at a low priority (`nice`) does not count.
fn share_of_others() -> f64 {
    let (before, own_before) = (used_and_all(), own());
    std::thread::sleep(WATCHED);
    let ((used, all), own) = (used_and_all(), own());
    (used - before.0 - (own - own_before)) / (all - before.1)
}

/// Ticks that this process has used: its own tests are not the work of others.
fn own() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("this process");
    // Behind the name: the state is the first field, user and system time are the 12th and 13th.
    let fields = text.rsplit_once(')').expect("a name").1.split_whitespace();
    fields.skip(11).take(2).map(|it| it.parse::<f64>().expect("ticks")).sum()
}

/// Ticks of all processors since the start: those used by processes of normal priority and by the kernel, and all.
fn used_and_all() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").expect("the processors' times");
    let ticks: Vec<f64> =
        text.lines().next().expect("a line").split_whitespace().skip(1).map_while(|it| it.parse().ok()).collect();
    // The time of guests follows these eight; the kernel counts it in `user` as well.
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..8] else { panic!("{text}") };
    let used = user + system + irq + softirq + steal;
    (used, used + nice + idle + iowait)
}
