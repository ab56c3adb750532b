//! Which shares a device can give at which throughput: the oracle that a proportional scheduler is held against.
//!
//! A scheduler in front of a device decides who is inside and how many; requests inside all stay about as long. So a tenant's rate is
//! its part of the population times the device's rate at that population, and a tenant with few requests outstanding bounds how many
//! may be inside while shares are exact (specification paternoster.md, section 3). Plain mathematics: no device, no host.

/// What a tenant asks for.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Tenant {
    /// Its weight.
    pub weight: f64,
    /// Requests that it has outstanding at most.
    pub outstanding: f64,
    /// From a completion to its next request, in nanoseconds.
    pub think_ns: f64,
}

/// What a device delivers with so many requests inside, as measured; straight lines in between.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Population and rate, ascending in population.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve through measured points (population, rate per second), in any order. Where a measurement at a larger
    /// population is lower, noise or not, the larger one is taken to do as well: a scheduler may leave slots empty.
    pub fn new(mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut best = 0.0_f64;
        for point in &mut points {
            best = best.max(point.1);
            point.1 = best;
        }
        Self { points }
    }

    /// The rate with `population` requests inside.
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

    /// The smallest population at which the rate is reached; the largest measured one if it never is.
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

    /// How long a request stays inside, in nanoseconds, if rates are requests per second.
    fn residence_ns(&self, population: f64) -> f64 {
        let rate = self.at(population);
        if rate > 0.0 { population / rate * 1e9 } else { 0.0 }
    }
}

/// The largest population for which `fits` holds, which it does for all smaller ones.
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

/// N*: how many may be inside while shares are exactly by weight (formula 2). The curve is in requests per second.
pub fn n_star(tenants: &[Tenant], curve: &Curve, depth: f64) -> f64 {
    let sum: f64 = tenants.iter().map(|tenant| tenant.weight).sum();
    largest_population(depth, |population| {
        let residence_ns = curve.residence_ns(population);
        tenants.iter().all(|tenant| {
            let share = tenant.weight / sum;
            population <= inside_of(tenant, residence_ns) / share
        })
    })
}

/// How many are inside when nobody is held back.
pub fn n_work_conserving(tenants: &[Tenant], curve: &Curve, depth: f64) -> f64 {
    largest_population(depth, |population| {
        let residence_ns = curve.residence_ns(population);
        population <= tenants.iter().map(|tenant| inside_of(tenant, residence_ns)).sum()
    })
}

/// What a tenant keeps inside if nobody holds it back: the others of its requests are on their way.
fn inside_of(tenant: &Tenant, residence_ns: f64) -> f64 {
    if residence_ns <= 0.0 {
        return tenant.outstanding;
    }
    tenant.outstanding / (1.0 + tenant.think_ns / residence_ns)
}

/// n with so much lost: the smallest population that delivers (1 - loss) of what `full` delivers.
pub fn n_eps(curve: &Curve, full: f64, loss: f64) -> f64 {
    curve.population_for(curve.at(full) * (1.0 - loss))
}

/// Weighted water-filling (formula 4): who has how many inside when `population` are, as near to the weights as what
/// they ask for permits. Less than `population` in all if they do not ask for as much.
pub fn waterfill(tenants: &[Tenant], residence_ns: f64, population: f64) -> Vec<f64> {
    let most: Vec<f64> = tenants.iter().map(|tenant| inside_of(tenant, residence_ns)).collect();
    let filled =
        |level: f64| -> f64 { tenants.iter().zip(&most).map(|(tenant, most)| most.min(level * tenant.weight)).sum() };
    let full = tenants.iter().zip(&most).map(|(tenant, most)| most / tenant.weight).fold(0.0, f64::max);
    let level = largest_population(full, |level| filled(level) <= population);
    tenants.iter().zip(&most).map(|(tenant, most)| most.min(level * tenant.weight)).collect()
}

/// What is due by weight, and what can be had.
#[derive(Clone, PartialEq, Debug)]
pub struct Attainable {
    /// N*.
    pub n_star: f64,
    /// Population that delivers (1 - loss).
    pub n_eps: f64,
    /// Rate when nobody is held back.
    pub full_rate: f64,
    /// Rate with exact shares.
    pub exact_rate: f64,
    /// Rates nearest to the weights at a loss of `loss`.
    pub rates: Vec<f64>,
    /// How many requests of each are inside then.
    pub inside: Vec<f64>,
    /// How many of each would be if nobody held it back.
    pub asked: Vec<f64>,
}

impl Attainable {
    /// Everything at once, for a loss of so much (0.03 = 3 %).
    pub fn new(tenants: &[Tenant], curve: &Curve, depth: f64, loss: f64) -> Self {
        let full = n_work_conserving(tenants, curve, depth);
        let (n_star, n_eps) = (n_star(tenants, curve, depth), n_eps(curve, full, loss));
        // Exact shares that deliver as much are taken.
        // With all to give, exact shares are taken whatever they deliver.
        let population = if loss >= 1.0 { n_star } else { n_eps.max(n_star.min(full)) };
        let residence_ns = curve.residence_ns(population);
        let inside = waterfill(tenants, residence_ns, population);
        let asked = tenants.iter().map(|tenant| inside_of(tenant, residence_ns)).collect();
        let all: f64 = inside.iter().sum();
        let rate = curve.at(population);
        let rates = inside.iter().map(|part| if all > 0.0 { part / all * rate } else { 0.0 }).collect();
        Self { n_star, n_eps, full_rate: curve.at(full), exact_rate: curve.at(n_star), rates, inside, asked }
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

    /// A sharp knee: 100,000 a second at 10 inside and more.
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
        // Thinking as long as a request stays halves what is inside: d / (s (1 + z / L)).
        let thinking: Vec<_> = two.iter().map(|tenant| Tenant { think_ns: 100_000.0, ..*tenant }).collect();
        assert!(near(n_star(&thinking, &knee(), 32.0), 0.5 / 0.75));
    }

    #[test]
    fn water_is_filled_by_weight_up_to_what_is_asked_for() {
        let three = tenants(&[(100.0, 1.0), (200.0, 8.0), (300.0, 2.0)]);
        let inside = waterfill(&three, 0.0, 5.0);
        // 1 and 2 are all that the first and third have; the rest is the second's.
        for (got, expected) in inside.iter().zip([1.0, 2.0, 2.0]) {
            assert!(near(*got, expected), "{inside:?}");
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
        // 9.7 inside: 4 of the first, 5.7 of the second.
        assert!(near(shallow.n_eps, 9.7) && near(shallow.rates[0], 40_000.0), "{shallow:?}");
    }
}
