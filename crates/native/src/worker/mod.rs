//! The worker: one thread of a job as a process of its own, controlled by messages from the host;
//! it ends when the pipe from the host is closed.

mod perform;

use std::io::{self, BufRead, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

use hoistway_block::Nanos;
use hoistway_experiment::{IssuerPlace, Recorder, Window};
use hoistway_workload::Issuer;

use crate::message::{FromHost, FromWorker, Order, send};
use crate::recordings;
use perform::{IoMethod, WorkerRun};

/// State shared between the thread that reads the host's messages and the thread that does the I/O.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag {
    stop: Arc<AtomicBool>,
}

impl StopFlag {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The worker's main function: an order from standard input, a run, the figures to standard output.
///
/// # Errors
/// Only that the pipe is closed; every other error is reported to the host.
pub fn work() -> io::Result<()> {
    // A terminal's signals go to every process; only the host reacts to them.
    let _ = rustix::process::setsid();
    let mut lines = BufReader::new(io::stdin());
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let outcome = match serde_json::from_str::<Order>(&line) {
        Ok(mut order) => fetch(&mut order).and_then(|()| run_order(&order, lines)),
        Err(error) => Err(format!("the order cannot be read: {error}")),
    };
    outcome.or_else(|why| send(&mut io::stdout(), &FromWorker::Failed(why)))
}

/// Loads the data that is too long for the order.
fn fetch(order: &mut Order) -> Result<(), String> {
    let Some(path) = order.recording.take() else { return Ok(()) };
    recordings::fetch(&path, &mut order.experiment, order.issuer)
}

fn run_order(order: &Order, lines: BufReader<io::Stdin>) -> Result<(), String> {
    let place = order.experiment.issuers().nth(order.issuer).ok_or("there is no such thread")?;
    if let Some(cgroup) = &order.cgroup {
        hoistway_linux::cgroup::enter(cgroup).map_err(|error| format!("cgroup {}: {error}", cgroup.display()))?;
    }
    let cpus = place.job.cpus_of(place.thread);
    hoistway_linux::thread::pin(&cpus).map_err(|error| format!("cpus_allowed={cpus:?}: {error}"))?;
    let priority = order.experiment.priority_of(&place);
    if priority != hoistway_block::Priority::NONE {
        hoistway_linux::ioctl::set_io_priority(priority.0)
            .map_err(|error| format!("I/O priority {priority:?}: {error}"))?;
    }
    // After entering the cgroup, because the kernel charges its state of an open file or ring to
    // the group of its creator.
    let issuer = Issuer::new(place.job, place.thread, order.area_bytes, order.experiment.run_seed())
        .map_err(|error| error.to_string())?;
    let method = IoMethod::open(&order.path, &place, &issuer, order.first_byte..order.first_byte + order.area_bytes)?;
    let _ = hoistway_linux::thread::precise_timers();
    let _ = hoistway_linux::thread::short_slices();
    if place.job.keeps_recorded_times() {
        let _ = hoistway_linux::thread::most_urgent();
    }
    let (inbox, stop_flag) = listen(lines);
    send_to_host(&FromWorker::Ready)?;
    let (at_ns, run_begin_ns) = match inbox.recv() {
        Ok(FromHost::Begin { at_ns, run_begin_ns }) => (at_ns, run_begin_ns),
        // The run ended before this worker was to begin.
        Ok(_) => {
            return send_figures(order, &place, Recorder::new(&order.experiment, Window::of(&order.experiment, 0)));
        }
        Err(_) => return Ok(()),
    };
    sleep_until(at_ns);
    let run = WorkerRun::new(issuer, method, Window::of(&order.experiment, run_begin_ns), order);
    let recorder = run.run(&stop_flag)?;
    send_to_host(&FromWorker::Ended)?;
    report(order, &place, recorder, &inbox)
}

/// Waits until all workers have ended, then sends the figures.
fn report(
    order: &Order,
    place: &IssuerPlace<'_>,
    mut recorder: Recorder,
    inbox: &Receiver<FromHost>,
) -> Result<(), String> {
    loop {
        match inbox.recv() {
            Ok(FromHost::Report { end_ns }) => {
                if end_ns < recorder.window().end_ns {
                    recorder.end_window(end_ns);
                }
                return send_figures(order, place, recorder);
            }
            Ok(_) => {}
            Err(_) => return Ok(()),
        }
    }
}

fn send_figures(order: &Order, place: &IssuerPlace<'_>, recorder: Recorder) -> Result<(), String> {
    let own = recorder.finish(&order.experiment, None).into_iter().nth(place.group);
    own.map_or(Ok(()), |group| send_to_host(&FromWorker::Figures(Box::new(group))))
}

/// Reads the host's messages on a thread of its own. When the pipe is closed, the process ends,
/// whatever it is doing.
fn listen(lines: BufReader<io::Stdin>) -> (Receiver<FromHost>, StopFlag) {
    let (sender, inbox) = mpsc::channel();
    let stop_flag = StopFlag::default();
    let stop = Arc::clone(&stop_flag.stop);
    std::thread::spawn(move || {
        for line in lines.lines() {
            match line.map_err(drop).and_then(|line| serde_json::from_str(&line).map_err(drop)) {
                Ok(FromHost::Stop) => stop.store(true, Ordering::Relaxed),
                Ok(message) => _ = sender.send(message),
                Err(()) => break,
            }
        }
        // The host has ended, or sent an invalid message: the kernel finishes the requests in
        // flight.
        std::process::exit(1);
    });
    (inbox, stop_flag)
}

fn sleep_until(at_ns: Nanos) {
    loop {
        let left_ns = at_ns.saturating_sub(hoistway_linux::thread::monotonic_ns());
        if left_ns == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_nanos(left_ns));
    }
}

pub(crate) fn send_to_host(message: &FromWorker) -> Result<(), String> {
    send(&mut io::stdout(), message).map_err(|error| error.to_string())
}
