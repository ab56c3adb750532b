//! From samples to figures and scores.

use std::collections::BTreeMap;

use hoistway_experiment::share::Fairness;
use hoistway_experiment::statistics::Estimate;

use super::desideratum::{Desideratum, Score, TradeOff, best_trade_off, front};
use super::document::{CellResult, CellRow, DesideratumRow, Figure, MechanismRow, SettingRow, Verdict};
use super::plan::{Plan, Samples, Subject};
use super::rounds::Sample;

/// Repetitions by number.
type Repetitions = BTreeMap<u32, Sample>;

/// The cells, the rows and the columns of the results. After a signal, figures have fewer
/// repetitions, and cells of which a setting has none are left out.
pub fn evaluate(plan: &Plan, samples: &Samples) -> (Vec<DesideratumRow>, Vec<MechanismRow>, Vec<CellRow>) {
    let asked = plan
        .cells
        .iter()
        .enumerate()
        .flat_map(|(at, cell)| cell.desideratum.answered().iter().map(move |it| (at, *it)));
    let cells: Vec<CellRow> = asked.filter_map(|(at, desideratum)| cell(plan, samples, at, desideratum)).collect();
    let measured = Desideratum::ALL.into_iter().filter(|it| cells.iter().any(|cell| cell.desideratum == *it));
    let measured: Vec<Desideratum> = measured.collect();
    let columns = measured.iter().map(|it| DesideratumRow { name: *it, title: it.title(), rule: it.rule() }).collect();
    let rows = plan.mechanisms.iter().enumerate().map(|(number, mechanism)| MechanismRow {
        name: mechanism.name.clone(),
        settings: mechanism.describe(),
        unavailable: unavailable(plan, number),
        verdicts: measured.iter().map(|it| verdict(*it, number, &cells)).collect(),
    });
    (columns, rows.collect(), cells)
}

/// The first refusal of a mechanism that runs in no cell.
fn unavailable(plan: &Plan, number: usize) -> Option<String> {
    let mut refusals = (0..plan.cells.len()).map(|at| plan.refusals.get(&(at, number)));
    let first = plan.refusals.get(&(0, number));
    refusals.all(|refusal| refusal.is_some()).then(|| first.cloned()).flatten()
}

/// A cell, judged by one of what its runs answer.
fn cell(plan: &Plan, samples: &Samples, at: usize, desideratum: Desideratum) -> Option<CellRow> {
    let cell = &plan.cells[at];
    let of = |subject: Subject| samples.get(&(at, subject));
    let none = of(Subject::Mechanism(0, 0))?;
    let alone: Vec<&Repetitions> =
        cell.tenants_alone().into_iter().map(|tenant| of(Subject::Alone(tenant))).collect::<Option<_>>()?;
    let weights: Vec<f64> = cell.groups.iter().map(|group| f64::from(group.weight.get())).collect();
    let figures = CellFigures { desideratum, none, alone, weights };
    let mut results = Vec::new();
    let mut trade_offs: Vec<Vec<TradeOff>> = Vec::new();
    for (number, mechanism) in plan.mechanisms.iter().enumerate() {
        let refusal = plan.refusals.get(&(at, number)).cloned();
        let settings = plan.settings.get(&(at, number)).map_or(&[][..], Vec::as_slice);
        let mut rows = Vec::new();
        let mut offs = Vec::new();
        for (index, setting) in settings.iter().enumerate().filter(|_| refusal.is_none()) {
            let runs = of(Subject::Mechanism(number, index))?;
            let (mut figures, trade_off) = figures.of(runs);
            figures.iter_mut().take(1).for_each(|judged| judged.is_close = is_close(judged, desideratum));
            offs.extend(trade_off);
            rows.push(SettingRow { setting: setting.text.clone(), figures, is_on_front: None });
        }
        trade_offs.push(offs);
        let mechanism = mechanism.name.clone();
        results.push(CellResult { mechanism, refusal, score: None, decided_by: None, settings: rows });
    }
    decide(desideratum, &mut results, &trade_offs);
    Some(CellRow {
        name: cell.name.clone(),
        desideratum,
        ramp_s: (cell.ramp_ns + cell.returns_ns) as f64 / 1e9,
        round_s: cell.round_ns as f64 / 1e9,
        rounds: cell.rounds,
        results,
    })
}

/// Whether the interval of a judged figure contains one of its limits.
fn is_close(figure: &Figure, desideratum: Desideratum) -> bool {
    let (met, partly) = desideratum.limits();
    let half = figure.ci95.unwrap_or(0.0);
    [met, partly].into_iter().any(|limit| half > 0.0 && (figure.mean - limit).abs() <= half)
}

/// Scores each mechanism, and marks the front of all settings.
fn decide(desideratum: Desideratum, results: &mut [CellResult], trade_offs: &[Vec<TradeOff>]) {
    if desideratum != Desideratum::Priority {
        for result in results {
            let judged = result.settings.first().and_then(|setting| setting.figures.first());
            // What did not happen in some of the repetitions has no mean.
            let score = |figure: &Figure| match figure.is_lower_bound {
                true => Score::Not,
                false => Score::of(figure.mean, desideratum.limits()),
            };
            result.score = judged.map(score);
            result.decided_by = judged.map(|_| 0);
        }
        return;
    }
    let none_latency = trade_offs.first().and_then(|offs| offs.first()).map_or(f64::INFINITY, |off| off.latency_ratio);
    let all: Vec<TradeOff> = trade_offs.iter().flatten().copied().collect();
    let mut on_front = front(&all).into_iter();
    for (result, offs) in results.iter_mut().zip(trade_offs) {
        let best = best_trade_off(offs, none_latency);
        (result.decided_by, result.score) = (best.map(|(index, _)| index), best.map(|(_, score)| score));
        result.settings.iter_mut().for_each(|row| row.is_on_front = on_front.next());
    }
}

/// The verdict on a mechanism (by number) from the cells of a desideratum.
fn verdict(desideratum: Desideratum, number: usize, cells: &[CellRow]) -> Verdict {
    let cells = cells.iter().filter(|cell| cell.desideratum == desideratum);
    let results: Vec<(&str, &CellResult)> = cells.map(|cell| (cell.name.as_str(), &cell.results[number])).collect();
    let scores: Vec<Score> = results.iter().filter_map(|(_, result)| result.score).collect();
    let deciding = |result: &CellResult| {
        let row = result.settings.get(result.decided_by?)?;
        Some(row.figures.first()?.clone())
    };
    // The worst score first, then the largest figure.
    let rank = |score: Option<Score>| match score {
        Some(Score::Not) => 2,
        Some(Score::Partly) => 1,
        Some(Score::Met) | None => 0,
    };
    let known = results.iter().filter_map(|(name, result)| Some((*name, rank(result.score), deciding(result)?)));
    let worst = known.max_by(|a, b| a.1.cmp(&b.1).then(a.2.mean.total_cmp(&b.2.mean)));
    Verdict {
        desideratum,
        score: Score::of_cells(&scores),
        met_cells: scores.iter().filter(|score| **score == Score::Met).count(),
        cells: scores.len(),
        worst_cell: worst.as_ref().map(|(name, _, _)| (*name).to_owned()),
        figure: worst.map(|(_, _, figure)| figure),
        refusal: results.iter().find_map(|(_, result)| result.refusal.clone()),
    }
}

/// What the figures of a cell are compared with.
struct CellFigures<'a> {
    desideratum: Desideratum,
    none: &'a Repetitions,
    alone: Vec<&'a Repetitions>,
    weights: Vec<f64>,
}

impl CellFigures<'_> {
    /// The figures of a setting, the judged one first.
    fn of(&self, runs: &Repetitions) -> (Vec<Figure>, Option<TradeOff>) {
        let make = |name, unit, value: &dyn Fn(u32, &Sample) -> Option<f64>| figure(name, unit, runs, value);
        let against_none = |number: u32, value: &dyn Fn(&Sample) -> Option<f64>| {
            let (own, none) = (value(runs.get(&number)?)?, value(self.none.get(&number)?)?);
            (none > 0.0).then(|| own / none)
        };
        let rate = |sample: &Sample| Some(sample.total_bytes_per_s());
        let p50 = |sample: &Sample| sample.latency_ns.map(|(p50_ns, _)| p50_ns);
        let p99 = |sample: &Sample| sample.latency_ns.map(|(_, p99_ns)| p99_ns);
        let loss = make("loss of throughput", "%", &|number, _| Some((1.0 - against_none(number, &rate)?) * 100.0));
        let utilisation = make("throughput of none's", "%", &|number, _| Some(against_none(number, &rate)? * 100.0));
        let total = make("throughput", "MB/s", &|_, sample| Some(sample.total_bytes_per_s() / 1e6));
        match self.desideratum {
            Desideratum::LowOverhead => {
                let growth = make("growth of p99", "%", &|number, _| Some((against_none(number, &p99)? - 1.0) * 100.0));
                let loss = Figure { name: "loss of IOPS", ..loss };
                let rest = [
                    make("IOPS", "1/s", &|_, sample| Some(sample.ios_per_s)),
                    make("p50", "us", &|_, sample| Some(p50(sample)? / 1e3)),
                    make("p99", "us", &|_, sample| Some(p99(sample)? / 1e3)),
                ];
                let (first, second) = if growth.mean > loss.mean { (growth, loss) } else { (loss, growth) };
                ([first, second].into_iter().chain(rest).collect(), None)
            }
            Desideratum::EqualRequests => {
                let rates = |sample: &Sample| Some(sample.bytes_per_s.clone());
                let mut figures =
                    self.shares(runs, ["weighted error", "largest error", "Jain"], &|_, sample| rates(sample));
                figures.push(utilisation);
                (figures, None)
            }
            Desideratum::UnequalRequests | Desideratum::ReadsBesideWrites => {
                let bytes = |_: u32, sample: &Sample| Some(sample.bytes_per_s.clone());
                let bytes = self.shares(runs, ["error in bytes", "largest error in bytes", "Jain in bytes"], &bytes);
                let progress = |number: u32, sample: &Sample| {
                    let alone = self.alone.iter().enumerate().map(|(tenant, runs)| {
                        let alone = runs.get(&number)?.bytes_per_s.get(tenant).copied()?;
                        (alone > 0.0).then(|| sample.bytes_per_s[tenant] / alone)
                    });
                    alone.collect::<Option<Vec<f64>>>()
                };
                let names = ["error in progress", "largest error in progress", "Jain in progress"];
                let progress = self.shares(runs, names, &progress);
                let is_bytes = bytes[0].mean <= progress[0].mean;
                let (first, second) = if is_bytes { (bytes, progress) } else { (progress, bytes) };
                (first.into_iter().chain(second).chain([utilisation]).collect(), None)
            }
            Desideratum::Priority => {
                let alone = |number: u32| p99(self.alone.first()?.get(&number)?);
                let latency = make("p99 of alone's", "x", &|number, sample| Some(p99(sample)? / alone(number)?));
                let off = TradeOff { latency_ratio: latency.mean, utilisation: utilisation.mean / 100.0 };
                let rest = [
                    make("p50", "us", &|_, sample| Some(p50(sample)? / 1e3)),
                    make("p99", "us", &|_, sample| Some(p99(sample)? / 1e3)),
                ];
                ([latency, utilisation].into_iter().chain(rest).chain([total]).collect(), Some(off))
            }
            Desideratum::Bursts => (self.response(runs).into_iter().chain([utilisation, total]).collect(), None),
            Desideratum::Delta => (vec![self.delta(runs), utilisation, total], None),
            Desideratum::WorkConservation => (vec![loss, utilisation, total], None),
        }
    }

    /// How soon the important tenant gets its due after it comes back, and how often it does not.
    fn response(&self, runs: &Repetitions) -> [Figure; 2] {
        let due = |number: u32, sample: &Sample| self.due_bytes_per_s(number, sample);
        let response =
            figure("response", "ms", runs, &|number, sample| Some(sample.response_ms(due(number, sample)?).0));
        let never =
            runs.iter().filter(|(number, sample)| due(**number, sample).is_some_and(|due| !sample.response_ms(due).1));
        let never = never.count() as f64;
        let response = Figure { is_lower_bound: never > 0.0, ..response };
        let never = figure("runs without response", "%", runs, &|_, _| Some(never / runs.len().max(1) as f64 * 100.0));
        [response, never]
    }

    /// The longest time that the important tenant stays below its due after it came back.
    fn delta(&self, runs: &Repetitions) -> Figure {
        let due = |number: u32, sample: &Sample| self.due_bytes_per_s(number, sample);
        let delta = figure("delta", "ms", runs, &|number, sample| Some(sample.delta_ms(due(number, sample)?)));
        let is_never =
            |(number, sample): (&u32, &Sample)| due(*number, sample).is_some_and(|due| !sample.response_ms(due).1);
        Figure { is_lower_bound: runs.iter().any(is_never), ..delta }
    }

    /// What the important tenant is due: its part by weight of what all do, and at most what it does
    /// alone.
    fn due_bytes_per_s(&self, number: u32, sample: &Sample) -> Option<f64> {
        let share = self.weights[0] / self.weights.iter().sum::<f64>();
        let alone = self.alone.first()?.get(&number)?.bytes_per_s.first().copied()?;
        Some((share * sample.total_bytes_per_s()).min(alone))
    }

    /// Weighted error, largest error and Jain's index of what the tenants got.
    fn shares(
        &self,
        runs: &Repetitions,
        names: [&'static str; 3],
        got: &dyn Fn(u32, &Sample) -> Option<Vec<f64>>,
    ) -> Vec<Figure> {
        let fairness = |number: u32, sample: &Sample| Fairness::of(&got(number, sample)?, &self.weights);
        let make = |name, unit, value: &dyn Fn(Fairness) -> f64| {
            figure(name, unit, runs, &|number, sample| Some(value(fairness(number, sample)?)))
        };
        vec![
            make(names[0], "%", &|fairness| fairness.weighted_error() * 100.0),
            make(names[1], "%", &|fairness| fairness.error_max * 100.0),
            make(names[2], "", &|fairness| fairness.jain),
        ]
    }
}

/// A figure from all repetitions; those in which nothing was done have no shares and no latency, and
/// are left out.
fn figure(
    name: &'static str,
    unit: &'static str,
    runs: &Repetitions,
    value: &dyn Fn(u32, &Sample) -> Option<f64>,
) -> Figure {
    let known = runs.iter().filter_map(|(number, sample)| Some((value(*number, sample)?, sample.steady_from)));
    let (values, steady): (Vec<f64>, Vec<Option<usize>>) = known.unzip();
    let Estimate { mean, ci95, n, .. } = Estimate::of(&values);
    Figure {
        name,
        unit,
        mean,
        ci95,
        n,
        steady: steady.iter().flatten().count(),
        steady_from_round: steady.iter().flatten().max().copied(),
        is_close: false,
        is_lower_bound: false,
    }
}
