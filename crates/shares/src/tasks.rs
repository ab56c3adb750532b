//! Turns for the tasks of a tokio program.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hoistway_block::Nanos;
use hoistway_elevator::structures::NoMemory;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

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
    shares: Mutex<Shares<oneshot::Sender<Permit>>>,
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
            let is_over = inner.lock().done(self.id, now);
            debug_assert!(is_over, "a permit is dropped once");
            inner.serve();
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

    fn lock(&self) -> MutexGuard<'_, Shares<oneshot::Sender<Permit>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives their permits to all tasks whose turn it is.
    fn serve(self: &Arc<Self>) {
        let mut shares = self.lock();
        let now = self.now();
        while let Some(turn) = shares.next(now) {
            let permit = Permit { inner: Some(Arc::clone(self)), id: turn.id };
            // The task has given up: the turn ends here, where the lock is held already.
            if let Err(mut unused) = turn.item.send(permit) {
                unused.inner = None;
                let is_over = shares.done(unused.id, now);
                debug_assert!(is_over, "its turn has just come");
            }
        }
    }
}

impl AsyncShares {
    /// A queue without tenants.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(settings: &SharesSettings) -> Result<Self, NoMemory> {
        let shares = Mutex::new(Shares::new(settings)?);
        Ok(Self { inner: Arc::new(Inner { begin: Instant::now(), shares }) })
    }

    /// As [`Shares::add_tenant`].
    ///
    /// # Errors
    /// [`NotAdded`]: a weight outside 1 to 10,000, or no room.
    pub fn add_tenant(&self, weight: u32) -> Result<TenantId, NotAdded> {
        let now = self.inner.now();
        self.inner.lock().add_tenant(weight, now)
    }

    /// As [`Shares::set_weight`].
    #[must_use = "false: nothing has changed"]
    pub fn set_weight(&self, tenant: TenantId, weight: u32) -> bool {
        let now = self.inner.now();
        self.inner.lock().set_weight(tenant, weight, now)
    }

    /// As [`Shares::set_limits`].
    #[must_use = "false: there is no limit"]
    pub fn set_limits(&self, tenant: TenantId, limits: &RateLimits) -> bool {
        let now = self.inner.now();
        let is_set = self.inner.lock().set_limits(tenant, limits, now);
        self.inner.serve();
        is_set
    }

    /// As [`Shares::remove_tenant`].
    #[must_use = "false: there is no such tenant"]
    pub fn remove_tenant(&self, tenant: TenantId) -> bool {
        let now = self.inner.now();
        self.inner.lock().remove_tenant(tenant, now)
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
        self.inner.lock().submit(tenant, cost, sender, now).map_err(|rejected| NotServed(rejected.why))?;
        loop {
            self.inner.serve();
            let timer = self.inner.lock().next_timer();
            let answer = match timer {
                // A limit holds items back: each waiting task looks again when it lets one go.
                Some(at_ns) => match timeout_at(self.inner.begin + Duration::from_nanos(at_ns), &mut turn).await {
                    Ok(answer) => answer,
                    Err(_) => continue,
                },
                None => (&mut turn).await,
            };
            // The sender is dropped only with its permit sent.
            return answer.map_err(|_| NotServed(Why::NoSuchTenant));
        }
    }
}
