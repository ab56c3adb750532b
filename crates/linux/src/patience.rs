//! Calls that may hang, such as a look at a file of a file system whose server does not answer: on
//! a thread of their own, which is given up when they take too long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Calls that may hang at a time: each keeps a thread.
const MOST: usize = 16;
static HANGING: AtomicUsize = AtomicUsize::new(0);

/// Counts the call until it ends, however it ends.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        HANGING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes a call and waits for its result, at most for `timeout`. `None` if it takes longer (its
/// result is then dropped when it comes), if 16 others have not come back, or if there can be no
/// thread.
pub fn within<T: Send + 'static>(timeout: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let is_free = HANGING.fetch_add(1, Ordering::Relaxed) < MOST;
    let counted = Counted;
    if !is_free {
        return None;
    }
    let (answer, is_answered) = mpsc::channel();
    let body = move || {
        let _counted = counted;
        let _ = answer.send(call());
    };
    thread::Builder::new().name("may-hang".to_owned()).spawn(body).ok()?;
    is_answered.recv_timeout(timeout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_hang_are_given_up_and_their_number_is_bounded() {
        let long = Duration::from_secs(60);
        assert_eq!(within(long, || 7), Some(7));
        let (releases, held): (Vec<_>, Vec<_>) = (0..MOST).map(|_| mpsc::channel::<()>()).unzip();
        for held in held {
            assert_eq!(within(Duration::from_millis(1), move || held.recv().is_ok()), None);
        }
        assert_eq!(within(long, || 8), None, "no more threads");
        drop(releases);
        let start = std::time::Instant::now();
        while within(long, || 9).is_none() {
            assert!(start.elapsed() < long);
            thread::sleep(Duration::from_millis(1));
        }
    }
}
