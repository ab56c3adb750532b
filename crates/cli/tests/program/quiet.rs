//! Whether the machine is quiet enough for figures that depend on when processes run.

use std::fs;
use std::time::Duration;

/// Share of all processors' time above which other work counts. The margins of the tests are 5 % of their figures and
/// more, and what is running is not on all processors at once.
const SHARE_MAX: f64 = 0.1;
/// How long the processors are watched: a hundred ticks of two processors.
const WATCHED: Duration = Duration::from_millis(500);

/// Whether other processes have the processors now; prints that the test is left out because of it. To be asked before
/// and after what is measured. Work at a low priority (`nice`) does not count.
pub fn is_busy(test: &str) -> bool {
    let before = used_and_all();
    std::thread::sleep(WATCHED);
    let (used, all) = used_and_all();
    let share = (used - before.0) / (all - before.1);
    if share > SHARE_MAX {
        println!("SKIPPED {test}: others have {:.0} % of the processors", share * 100.0);
    }
    share > SHARE_MAX
}

/// Ticks of all processors since the start: those used by processes of normal priority and by the kernel, and all.
fn used_and_all() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").expect("the processors' times");
    let ticks: Vec<f64> =
        text.lines().next().expect("a line").split_whitespace().skip(1).map_while(|it| it.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; then guests, whose time is in user already.
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..8] else { panic!("{text}") };
    let used = user + system + irq + softirq + steal;
    (used, used + nice + idle + iowait)
}
