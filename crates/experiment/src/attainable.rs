//! Which shares a device can deliver at which throughput: the reference for proportional-share
//! schedulers.
//!
//! A scheduler decides how many requests of each group are in flight, and all requests stay in the
//! device for about the same time. A tenant's rate is therefore its fraction of the requests in
//! flight times the device's rate at that depth (Little's law), and a tenant with few outstanding
//! requests limits how many may be in flight while shares are exact. Purely mathematical: no
//! device, no host. Source: docs/specifications/paternoster.md, section 3.

/// The demand of a tenant.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Tenant {
    /// Its weight.
    pub weight: f64,
    /// Maximum number of outstanding requests.
    pub outstanding: f64,
    /// Think time from a completion to the next request, in nanoseconds.
    pub think_ns: f64,
}

/// Measured rate of a device by the number of requests in flight, with linear interpolation.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Requests in flight and rate, in ascending order of the former.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve through measured points (requests in flight, rate per second), in any order. If a
    /// point at a larger depth is lower, because of noise or not, the higher rate is taken for it
    /// as well, because a scheduler may leave slots empty.
    pub fn new(mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut best = 0.0_f64;
        for point in &mut points {
            best = best.max(point.1);
            point.1 = best;
        }
        Self { points }
    }

    /// The rate with `population` requests in flight.
    pub fn at(&self, population: f64) -> f64 {
        let mut before = (0.0, 0.0);
        for &point in &self.points {
            if population <= point.0 {
                let part = if point.0 > before.0 { (population - before.0) / (point.0 - before.0) } else { 1.0 };
                return before.1 + part * (point.1 - before.1);
            }
            before = point;
        }
        before.1
    }

    /// The smallest number of requests in flight at which the rate is reached; the largest measured
    /// one if it never is.
    pub fn population_for(&self, rate: f64) -> f64 {
        let mut before = (0.0, 0.0);
        for &point in &self.points {
            if rate <= point.1 {
                let part = if point.1 > before.1 { (rate - before.1) / (point.1 - before.1) } else { 0.0 };
                return before.0 + part * (point.0 - before.0);
            }
            before = point;
        }
        before.0
    }

    /// Time that a request spends in the device, in nanoseconds, if rates are requests per second.
    fn residence_ns(&self, population: f64) -> f64 {
        let rate = self.at(population);
        if rate > 0.0 { population / rate * 1e9 } else { 0.0 }
    }
}

/// The largest population for which `fits` holds, found by bisection; `fits` must hold for all
/// smaller ones.
fn largest_population(most: f64, fits: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, most);
    if fits(high) {
        return high;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// N*: the maximum number of requests in flight while shares are exactly by weight. The curve is in
/// requests per second. Source: docs/specifications/paternoster.md, section 3.1, formula 2.
pub fn n_star(tenants: &[Tenant], curve: &Curve, depth: f64) -> f64 {
    let sum: f64 = tenants.iter().map(|tenant| tenant.weight).sum();
    largest_population(depth, |population| {
        let residence_ns = curve.residence_ns(population);
        tenants.iter().all(|tenant| {
            let share = tenant.weight / sum;
            population <= unthrottled_in_flight(tenant, residence_ns) / share
        })
    })
}

/// Number of requests in flight if no tenant is throttled.
pub fn n_work_conserving(tenants: &[Tenant], curve: &Curve, depth: f64) -> f64 {
    largest_population(depth, |population| {
        let residence_ns = curve.residence_ns(population);
        population <= tenants.iter().map(|tenant| unthrottled_in_flight(tenant, residence_ns)).sum()
    })
}

/// Number of requests that a tenant keeps in flight if it is not throttled; its others are in their
/// think time.
fn unthrottled_in_flight(tenant: &Tenant, residence_ns: f64) -> f64 {
    if residence_ns <= 0.0 {
        return tenant.outstanding;
    }
    tenant.outstanding / (1.0 + tenant.think_ns / residence_ns)
}

/// n_eps: the smallest number of requests in flight that delivers (1 - loss) of the rate at `full`.
pub fn n_eps(curve: &Curve, full: f64, loss: f64) -> f64 {
    curve.population_for(curve.at(full) * (1.0 - loss))
}

/// Weighted water-filling: requests in flight per tenant if `population` are in flight altogether,
/// as close to the weights as the demands permit. The sum is smaller than `population` if the
/// demands are. Source: docs/specifications/paternoster.md, section 3.2, formula 4.
pub fn waterfill(tenants: &[Tenant], residence_ns: f64, population: f64) -> Vec<f64> {
    let most: Vec<f64> = tenants.iter().map(|tenant| unthrottled_in_flight(tenant, residence_ns)).collect();
    let filled =
        |level: f64| -> f64 { tenants.iter().zip(&most).map(|(tenant, most)| most.min(level * tenant.weight)).sum() };
    let full = tenants.iter().zip(&most).map(|(tenant, most)| most / tenant.weight).fold(0.0, f64::max);
    let level = largest_population(full, |level| filled(level) <= population);
    tenants.iter().zip(&most).map(|(tenant, most)| most.min(level * tenant.weight)).collect()
}

/// Due and attainable rates.
#[derive(Clone, PartialEq, Debug)]
pub struct Attainable {
    /// N*, see [`n_star`].
    pub n_star: f64,
    /// Number of requests in flight that delivers (1 - loss) of the full rate.
    pub n_eps: f64,
    /// Rate if no tenant is throttled.
    pub full_rate: f64,
    /// Rate with exact shares.
    pub exact_rate: f64,
    /// Rates closest to the weights at a loss of `loss`.
    pub rates: Vec<f64>,
    /// Requests in flight of each tenant in that case.
    pub in_flight: Vec<f64>,
    /// Requests in flight of each tenant if it were not throttled.
    pub demand: Vec<f64>,
}

impl Attainable {
    /// Computes all values for a loss of `loss` (0.03 = 3 %).
    ///
    /// ```
    /// use hoistway_experiment::attainable::{Attainable, Curve, Tenant};
    ///
    /// // The device serves 10,000 requests per second for each one in flight, up to 100,000 with 10 or more.
    /// let curve = Curve::new(vec![(1.0, 10_000.0), (10.0, 100_000.0), (32.0, 100_000.0)]);
    /// let tenant = |weight, outstanding| Tenant { weight, outstanding, think_ns: 0.0 };
    /// // Weight 3 with one outstanding request, weight 1 with 32: shares of 3:1 allow only 4/3 in flight.
    /// let can = Attainable::new(&[tenant(3.0, 1.0), tenant(1.0, 32.0)], &curve, 32.0, 0.03);
    /// assert!((can.n_star - 4.0 / 3.0).abs() < 0.01);
    /// assert!(can.exact_rate < 14_000.0 && can.full_rate > 99_000.0);
    /// ```
    pub fn new(tenants: &[Tenant], curve: &Curve, depth: f64, loss: f64) -> Self {
        let full = n_work_conserving(tenants, curve, depth);
        let (n_star, n_eps) = (n_star(tenants, curve, depth), n_eps(curve, full, loss));
        // Exact shares are taken if they deliver as much, and regardless of their rate if all of it
        // may be lost.
        let population = if loss >= 1.0 { n_star } else { n_eps.max(n_star.min(full)) };
        let residence_ns = curve.residence_ns(population);
        let in_flight = waterfill(tenants, residence_ns, population);
        let demand = tenants.iter().map(|tenant| unthrottled_in_flight(tenant, residence_ns)).collect();
        let all: f64 = in_flight.iter().sum();
        let rate = curve.at(population);
        let rates = in_flight.iter().map(|part| if all > 0.0 { part / all * rate } else { 0.0 }).collect();
        Self { n_star, n_eps, full_rate: curve.at(full), exact_rate: curve.at(n_star), rates, in_flight, demand }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants(of: &[(f64, f64)]) -> Vec<Tenant> {
        of.iter().map(|&(weight, outstanding)| Tenant { weight, outstanding, think_ns: 0.0 }).collect()
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b.abs().max(1.0)
    }

    /// A sharp knee: 100,000 a second with 10 in flight or more.
    fn knee() -> Curve {
        Curve::new(vec![(10.0, 100_000.0), (1.0, 10_000.0), (32.0, 100_000.0)])
    }

    #[test]
    fn a_curve_is_straight_between_its_points_and_never_falls() {
        let curve = Curve::new(vec![(1.0, 10.0), (2.0, 18.0), (4.0, 17.0)]);
        assert!(
            near(curve.at(0.5), 5.0)
                && near(curve.at(1.5), 14.0)
                && near(curve.at(4.0), 18.0)
                && near(curve.at(9.0), 18.0)
        );
        assert!(near(curve.population_for(14.0), 1.5) && near(curve.population_for(99.0), 4.0));
    }

    #[test]
    fn the_heaviest_bounds_how_many_may_be_inside() {
        let two = tenants(&[(60.0, 1.0), (20.0, 1.0)]);
        assert!(near(n_star(&two, &knee(), 32.0), 1.0 / 0.75));
        assert!(near(n_work_conserving(&two, &knee(), 32.0), 2.0));
        let deep = tenants(&[(60.0, 32.0), (20.0, 32.0)]);
        assert!(near(n_star(&deep, &knee(), 32.0), 32.0));
        // A think time equal to the residence time halves the requests in flight: d / (s (1 + z /
        // L)).
        let thinking: Vec<_> = two.iter().map(|tenant| Tenant { think_ns: 100_000.0, ..*tenant }).collect();
        assert!(near(n_star(&thinking, &knee(), 32.0), 0.5 / 0.75));
    }

    #[test]
    fn water_is_filled_by_weight_up_to_what_is_asked_for() {
        let three = tenants(&[(100.0, 1.0), (200.0, 8.0), (300.0, 2.0)]);
        let in_flight = waterfill(&three, 0.0, 5.0);
        // The first and third have only 1 and 2; the rest belongs to the second.
        for (got, expected) in in_flight.iter().zip([1.0, 2.0, 2.0]) {
            assert!(near(*got, expected), "{in_flight:?}");
        }
        assert!(near(waterfill(&three, 0.0, 3.0).iter().sum(), 3.0));
        assert!(near(waterfill(&three, 0.0, 99.0).iter().sum(), 11.0));
    }

    #[test]
    fn exact_shares_are_taken_where_they_cost_nothing() {
        let deep = tenants(&[(60.0, 24.0), (20.0, 24.0)]);
        let all = Attainable::new(&deep, &knee(), 32.0, 0.03);
        assert!(near(all.rates[0], 75_000.0) && near(all.rates[1], 25_000.0), "{all:?}");
        let shallow = Attainable::new(&tenants(&[(60.0, 4.0), (20.0, 16.0)]), &knee(), 32.0, 0.03);
        // 9.7 in flight: 4 of the first, 5.7 of the second.
        assert!(near(shallow.n_eps, 9.7) && near(shallow.rates[0], 40_000.0), "{shallow:?}");
    }
}
