//! Fits parameters to measured figures: least squares by the Levenberg-Marquardt method.
//!
//! All computation is in logarithms: a parameter changes by a percentage, and an error of a
//! percentage has the same weight in every row. A weak regularisation towards the initial values
//! keeps a parameter in place if no row depends on it. The search is deterministic, and the trials
//! of one step are independent of each other, so that they can run on all CPUs at once.

use hoistway::Error;

/// A free parameter.
#[derive(Clone, Debug)]
pub struct Free {
    /// Its initial value; above 0.
    pub initial: f64,
    /// Smallest value; at least 0.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Number of decimals that its values may have.
    pub decimals: u32,
}

impl Free {
    /// A value in written form: within the range, and without decimals beyond the fourth
    /// significant digit.
    pub fn written(&self, value: f64) -> String {
        let smallest = 0.1_f64.powi(i32::try_from(self.decimals).unwrap_or(0));
        let value = value.clamp(self.low.max(smallest), self.high);
        let digits_before = (0..18).take_while(|power| value >= 10.0_f64.powi(*power)).count();
        let places = 4_usize.saturating_sub(digits_before).min(self.decimals as usize);
        let text = format!("{value:.places$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }

    /// The value that is written for a logarithm, and the logarithm of that value.
    fn round(&self, log: f64) -> (f64, f64) {
        let value: f64 = self.written(log.exp()).parse().unwrap_or(self.initial);
        (value, value.ln())
    }
}

/// Errors of one trial, one per figure, as logarithms of modelled over measured. None: the
/// parameters are no valid model.
pub type Residuals = Option<Vec<f64>>;

/// The result of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchResult {
    /// Values of the free parameters, as written.
    pub values: Vec<f64>,
    /// The errors at these values.
    pub residuals: Vec<f64>,
    /// Number of trials.
    pub trials: usize,
}

/// The search stops when every error is below this.
const GOOD_ENOUGH: f64 = 0.002;
/// Relative steps for the finite differences: large ones first, which exceed the noise.
const DIFFERENCES: [f64; 3] = [0.06, 0.03, 0.012];
/// Damping factors of the trials of one step, from the boldest to the most cautious.
pub const DAMPING: [f64; 4] = [1e-3, 3e-2, 0.5, 5.0];
/// The largest change of a parameter in one step (a factor of two).
const LONGEST_STEP: f64 = 0.7;
/// Weight of the regularisation towards the start.
const PULL: f64 = 1e-4;

/// A trial that was a valid model.
#[derive(Clone, Debug)]
struct Point {
    values: Vec<f64>,
    logs: Vec<f64>,
    residuals: Vec<f64>,
    cost: f64,
}

/// The search and what it needs.
pub struct Search<'a> {
    /// The free parameters.
    pub free: &'a [Free],
    /// Largest number of trials.
    pub max_trials: usize,
    /// Runs trials: returns the residuals of every point, in order; None ends the search.
    #[allow(clippy::type_complexity)]
    pub evaluate: &'a mut dyn FnMut(&[Vec<f64>]) -> Result<Option<Vec<Residuals>>, Error>,
    /// Called after every step: trials so far, root of the mean square error.
    pub report: &'a mut dyn FnMut(usize, f64),
}

impl Search<'_> {
    /// The best point found; None if the evaluation ended the search.
    ///
    /// # Errors
    /// The evaluation failed, or the start is no valid model.
    pub fn run(mut self) -> Result<Option<SearchResult>, Error> {
        let start: Vec<f64> = self.free.iter().map(|free| free.initial.ln()).collect();
        let Some(mut points) = self.points(std::slice::from_ref(&start), &start)? else { return Ok(None) };
        let Some(mut best) = points.pop().flatten() else {
            return Err(Error::usage("the model to start from is not valid", "change its parameters"));
        };
        let mut trials = 1;
        for difference in DIFFERENCES {
            loop {
                (self.report)(trials, rms(&best.residuals));
                let is_good = best.residuals.iter().all(|residual| residual.abs() < GOOD_ENOUGH);
                let enough = trials + self.free.len() + DAMPING.len() > self.max_trials;
                if is_good || enough {
                    return Ok(Some(found(best, trials)));
                }
                let Some((next, made)) = self.step(&best, &start, difference)? else { return Ok(None) };
                trials += made;
                let gain = best.cost - next.cost;
                if gain > 0.0 {
                    best = next;
                }
                if gain <= best.cost * 0.01 {
                    break;
                }
            }
        }
        Ok(Some(found(best, trials)))
    }

    /// One step: computes the Jacobian, then tries four damping factors. Returns the best point,
    /// and the number of trials.
    fn step(&mut self, from: &Point, start: &[f64], difference: f64) -> Result<Option<(Point, usize)>, Error> {
        let moved: Vec<Vec<f64>> = (0..self.free.len()).map(|index| self.moved(from, index, difference)).collect();
        let Some(neighbours) = self.points(&moved, start)? else { return Ok(None) };
        let jacobian: Vec<Vec<f64>> =
            neighbours.iter().enumerate().map(|(index, neighbour)| slope(from, neighbour.as_ref(), index)).collect();
        let ways: Vec<Vec<f64>> = DAMPING.iter().map(|damping| way(from, start, &jacobian, *damping)).collect();
        let Some(ends) = self.points(&ways, start)? else { return Ok(None) };
        let made = moved.len() + ways.len();
        let best = neighbours
            .into_iter()
            .chain(ends)
            .flatten()
            .fold(from.clone(), |best, point| if point.cost < best.cost { point } else { best });
        Ok(Some((best, made)))
    }

    /// The point with one parameter changed: upwards, or downwards where that is not possible.
    fn moved(&self, from: &Point, index: usize, difference: f64) -> Vec<f64> {
        let free = &self.free[index];
        let up = from.logs[index] + difference;
        // A whole number must change by at least one.
        let up = up.max((from.values[index] + 0.1_f64.powi(i32::try_from(free.decimals).unwrap_or(0))).ln());
        let is_possible = up.exp() <= free.high;
        let mut logs = from.logs.clone();
        logs[index] = if is_possible { up } else { from.logs[index] - difference };
        logs
    }

    fn points(&mut self, logs: &[Vec<f64>], start: &[f64]) -> Result<Option<Vec<Option<Point>>>, Error> {
        let rounded: Vec<Vec<(f64, f64)>> =
            logs.iter().map(|logs| self.free.iter().zip(logs).map(|(free, log)| free.round(*log)).collect()).collect();
        let values: Vec<Vec<f64>> =
            rounded.iter().map(|point| point.iter().map(|(value, _)| *value).collect()).collect();
        let Some(residuals) = (self.evaluate)(&values)? else { return Ok(None) };
        let trials = values.into_iter().zip(rounded).zip(residuals);
        let points = trials.map(|((values, rounded), residuals)| {
            let residuals = residuals?;
            let logs: Vec<f64> = rounded.iter().map(|(_, log)| *log).collect();
            let pull: f64 = logs.iter().zip(start).map(|(log, start)| (log - start).powi(2)).sum();
            let cost = residuals.iter().map(|residual| residual * residual).sum::<f64>() + PULL * pull;
            Some(Point { values, logs, residuals, cost })
        });
        Ok(Some(points.collect()))
    }
}

fn found(best: Point, trials: usize) -> SearchResult {
    SearchResult { values: best.values, residuals: best.residuals, trials }
}

/// Root of the mean square.
pub fn rms(residuals: &[f64]) -> f64 {
    (residuals.iter().map(|residual| residual * residual).sum::<f64>() / residuals.len().max(1) as f64).sqrt()
}

/// The derivative of every residual by one parameter; zero where the neighbour is no valid model.
fn slope(from: &Point, neighbour: Option<&Point>, index: usize) -> Vec<f64> {
    let none = || vec![0.0; from.residuals.len()];
    let Some(neighbour) = neighbour else { return none() };
    let distance = neighbour.logs[index] - from.logs[index];
    if distance == 0.0 {
        return none();
    }
    neighbour.residuals.iter().zip(&from.residuals).map(|(there, here)| (there - here) / distance).collect()
}

/// The step of the linear model with this damping.
fn way(from: &Point, start: &[f64], jacobian: &[Vec<f64>], damping: f64) -> Vec<f64> {
    let size = jacobian.len();
    let dot = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(l, r)| l * r).sum::<f64>();
    let mut matrix: Vec<Vec<f64>> = Vec::with_capacity(size);
    for row in 0..size {
        let mut line: Vec<f64> = jacobian.iter().map(|column| dot(&jacobian[row], column)).collect();
        line[row] = line[row] * (1.0 + damping) + PULL * (1.0 + damping);
        line.push(-dot(&jacobian[row], &from.residuals) - PULL * (from.logs[row] - start[row]));
        matrix.push(line);
    }
    let step = solved(matrix);
    let longest = step.iter().fold(0.0, |longest: f64, part| longest.max(part.abs()));
    let shrink = if longest > LONGEST_STEP { LONGEST_STEP / longest } else { 1.0 };
    from.logs.iter().zip(step).map(|(log, part)| log + part * shrink).collect()
}

/// Solves a positive definite system, whose right-hand side is its last column, by elimination.
fn solved(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let size = matrix.len();
    for pivot in 0..size {
        let line = matrix[pivot].clone();
        for row in matrix.iter_mut().skip(pivot + 1) {
            let factor = row[pivot] / line[pivot];
            row.iter_mut().zip(&line).for_each(|(value, above)| *value -= factor * above);
        }
    }
    let mut solution = vec![0.0; size];
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| matrix[row][column] * solution[column]).sum();
        solution[row] = (matrix[row][size] - known) / matrix[row][row];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(start: f64) -> Free {
        Free { initial: start, low: 0.0, high: 10_000.0, decimals: 3 }
    }

    fn search(free: &[Free], max_trials: usize, model: impl Fn(&[f64]) -> Option<Vec<f64>>) -> SearchResult {
        let mut evaluate =
            |points: &[Vec<f64>]| Ok(Some(points.iter().map(|point| model(point)).collect::<Vec<Residuals>>()));
        let search = Search { free, max_trials, evaluate: &mut evaluate, report: &mut |_, _| {} };
        search.run().unwrap().unwrap()
    }

    #[test]
    fn two_correlated_parameters_are_distinguished() {
        // The latency is a + b at depth 1, and the rate is 1 / b at a large depth, as with cell
        // time a and firmware time b of an SSD.
        let model = |p: &[f64]| Some(vec![((p[0] + p[1]) / 130.0).ln(), (p[1] / 13.5).ln()]);
        let found = search(&[free(50.0), free(5.0)], 200, model);
        assert!((found.values[0] - 116.5).abs() < 1.0 && (found.values[1] - 13.5).abs() < 0.1, "{found:?}");
        assert!(found.trials < 60, "{found:?}");
    }

    #[test]
    fn a_parameter_without_effect_stays() {
        let found = search(&[free(50.0), free(7.0)], 200, |p| Some(vec![(p[0] / 80.0).ln()]));
        assert!((found.values[0] - 80.0).abs() < 0.5 && found.values[1] == 7.0, "{found:?}");
    }

    #[test]
    fn the_search_stays_inside_its_ranges_and_its_number_of_trials() {
        let narrow = Free { high: 60.0, ..free(50.0) };
        let found =
            search(&[narrow], 200, |p| if p[0] > 60.0 { panic!("{p:?}") } else { Some(vec![(p[0] / 80.0).ln()]) });
        assert_eq!(found.values, [60.0]);
        let found = search(&[free(1.0)], 12, |p| Some(vec![(p[0] / 5_000.0).ln()]));
        assert!(found.trials <= 12 && found.values[0] > 1.5, "{found:?}");
        // The search avoids points that cannot be built.
        let found = search(&[free(50.0)], 200, |p| (p[0] < 55.0).then(|| vec![(p[0] / 80.0).ln()]));
        assert!(found.values[0] > 52.0 && found.values[0] < 55.0, "{found:?}");
    }

    #[test]
    fn values_are_written_with_four_digits() {
        let of = |decimals| Free { decimals, ..free(1.0) };
        assert_eq!(of(3).written(13.456_78), "13.46");
        assert_eq!(of(3).written(0.001_234), "0.001");
        assert_eq!(of(0).written(1157.4), "1157");
        assert_eq!(of(0).written(0.2), "1");
        assert_eq!(of(6).written(9.0), "9");
        assert_eq!(of(3).written(20_000.0), "10000");
    }
}
