//! Turns for the tasks of a tokio program.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hoistway_block::Nanos;
use hoistway_elevator::structures::NoMemory;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::{NotAdded, RateLimits, Shares, SharesSettings, TenantId, TurnId, Why, cost_of_bytes};

/// A [`Shares`] whose items are waiting tasks. Cheap to clone: all clones are one queue.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use hoistway_shares::{AsyncShares, SharesSettings};
///
/// let shares = AsyncShares::new(&SharesSettings::default()).unwrap();
/// let db = shares.add_tenant(800).unwrap();
/// let permit = shares.acquire(db, 1).await.unwrap();
/// // ... use what is shared ...
/// drop(permit);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct AsyncShares {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    begin: Instant,
    state: Mutex<State>,
    /// One task that waits is told of a timer for which none sleeps.
    unwatched: Notify,
}

#[derive(Debug)]
struct State {
    shares: Shares<oneshot::Sender<Permit>>,
    /// The earliest time until which a task sleeps for all.
    watched_ns: Option<Nanos>,
}

impl State {
    /// The timer of the queue, if no task sleeps until then or less.
    fn unwatched_ns(&self) -> Option<Nanos> {
        self.shares.next_timer().filter(|at| self.watched_ns.is_none_or(|watched| *at < watched))
    }
}

/// The right to use what is shared, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    /// `None` once it is known that no task waits for it.
    inner: Option<Arc<Inner>>,
    id: TurnId,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            let now = inner.now();
            let is_over = inner.lock().shares.done(self.id, now);
            debug_assert!(is_over, "a permit is dropped once");
            inner.serve_for_others();
        }
    }
}

/// A task was not queued.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NotServed(
    /// The reason.
    pub Why,
);

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NotServed {}

impl Inner {
    fn now(&self) -> Nanos {
        Nanos::try_from(self.begin.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives their permits to all tasks whose turn it is.
    fn serve(self: &Arc<Self>) {
        let mut state = self.lock();
        let now = self.now();
        while let Some(turn) = state.shares.next(now) {
            let permit = Permit { inner: Some(Arc::clone(self)), id: turn.id };
            // The task has given up: the turn ends here, where the lock is held already.
            if let Err(mut unused) = turn.item.send(permit) {
                unused.inner = None;
                let is_over = state.shares.done(unused.id, now);
                debug_assert!(is_over, "its turn has just come");
            }
        }
    }

    /// The same by a task that will not wait itself: one of those that do hears of the timer.
    fn serve_for_others(self: &Arc<Self>) {
        self.serve();
        if self.lock().unwatched_ns().is_some() {
            self.unwatched.notify_one();
        }
    }
}

/// The duty of one task to sleep until the queue's timer, which ends limits and holds. It passes to another task that
/// waits when this one has its turn or gives up.
struct Watch<'a> {
    inner: &'a Inner,
    until_ns: Option<Nanos>,
}

impl Watch<'_> {
    /// Takes the duty for the present timer, if no other task has it.
    fn renew(&mut self) {
        let mut state = self.inner.lock();
        self.end(&mut state);
        self.until_ns = state.unwatched_ns();
        state.watched_ns = self.until_ns.or(state.watched_ns);
    }

    fn end(&mut self, state: &mut State) {
        // Another task may sleep for an earlier timer since.
        if self.until_ns.is_some() && state.watched_ns == self.until_ns {
            state.watched_ns = None;
        }
        self.until_ns = None;
    }

    /// Ends at the timer; never without the duty.
    async fn elapsed(&self) {
        match self.until_ns {
            Some(at_ns) => sleep_until(self.inner.begin + Duration::from_nanos(at_ns)).await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.until_ns.is_none() {
            return;
        }
        let inner = self.inner;
        let mut state = inner.lock();
        self.end(&mut state);
        if state.unwatched_ns().is_some() {
            inner.unwatched.notify_one();
        }
    }
}

impl AsyncShares {
    /// A queue without tenants.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(settings: &SharesSettings) -> Result<Self, NoMemory> {
        let state = Mutex::new(State { shares: Shares::new(settings)?, watched_ns: None });
        Ok(Self { inner: Arc::new(Inner { begin: Instant::now(), state, unwatched: Notify::new() }) })
    }

    /// As [`Shares::add_tenant`].
    ///
    /// # Errors
    /// [`NotAdded`]: a weight outside 1 to 10,000, or no room.
    pub fn add_tenant(&self, weight: u32) -> Result<TenantId, NotAdded> {
        let now = self.inner.now();
        self.inner.lock().shares.add_tenant(weight, now)
    }

    /// As [`Shares::set_weight`].
    #[must_use = "false: nothing has changed"]
    pub fn set_weight(&self, tenant: TenantId, weight: u32) -> bool {
        let now = self.inner.now();
        self.inner.lock().shares.set_weight(tenant, weight, now)
    }

    /// As [`Shares::set_limits`].
    #[must_use = "false: there is no limit"]
    pub fn set_limits(&self, tenant: TenantId, limits: &RateLimits) -> bool {
        let now = self.inner.now();
        let is_set = self.inner.lock().shares.set_limits(tenant, limits, now);
        self.inner.serve_for_others();
        is_set
    }

    /// As [`Shares::remove_tenant`].
    #[must_use = "false: there is no such tenant"]
    pub fn remove_tenant(&self, tenant: TenantId) -> bool {
        let now = self.inner.now();
        self.inner.lock().shares.remove_tenant(tenant, now)
    }

    /// Waits for the task's turn to move `bytes`: [`AsyncShares::acquire`] with [`cost_of_bytes`].
    ///
    /// # Errors
    /// As of [`AsyncShares::acquire`].
    pub async fn acquire_bytes(&self, tenant: TenantId, bytes: u64) -> Result<Permit, NotServed> {
        self.acquire(tenant, cost_of_bytes(bytes)).await
    }

    /// Waits for the task's turn. A task that gives up waiting (its future is dropped) loses only its
    /// place; if its turn came meanwhile, its tenant has paid for it.
    ///
    /// # Errors
    /// [`NotServed`] at once, if the queue is full, the tenant unknown or the cost out of range.
    pub async fn acquire(&self, tenant: TenantId, cost: u32) -> Result<Permit, NotServed> {
        let (sender, mut turn) = oneshot::channel();
        let now = self.inner.now();
        self.inner.lock().shares.submit(tenant, cost, sender, now).map_err(|rejected| NotServed(rejected.why))?;
        let mut watch = Watch { inner: &self.inner, until_ns: None };
        loop {
            self.inner.serve();
            watch.renew();
            let (mut timer, mut news) = (pin!(watch.elapsed()), pin!(self.inner.unwatched.notified()));
            let permit = poll_fn(|context| match Pin::new(&mut turn).poll(context) {
                Poll::Ready(permit) => Poll::Ready(Some(permit)),
                Poll::Pending if timer.as_mut().poll(context).is_ready() => Poll::Ready(None),
                Poll::Pending => news.as_mut().poll(context).map(|()| None),
            });
            if let Some(permit) = permit.await {
                // The sender is dropped only with its permit sent.
                return permit.map_err(|_| NotServed(Why::NoSuchTenant));
            }
        }
    }
}
