//! Concurrent `dd` readers, the calibration of the model `sata`. Sources:
//! docs/specifications/devices.md, sections 9.2 (the recipe) and 11.2.

use crate::assert_near;
use crate::dd::{self, Arrived, Outcome, recipe, sectors_of_gb};
use crate::driver::sata;

const TURN_MS: f64 = 8.333_333;

/// Consecutive arrivals from one reader.
fn visits(outcome: &Outcome) -> Vec<&[Arrived]> {
    outcome.arrived.chunk_by(|a, b| a.reader == b.reader).collect()
}

fn two_readers(stride_gb: f64) -> Outcome {
    dd::run(&sata(), 1, &[0, sectors_of_gb(stride_gb)], 1_024)
}

/// For each visit, the time from the end of the same reader's previous visit to its start, in
/// revolutions. Only completions are visible, so the start is computed from the time of a window
/// without switches; a track or cylinder switch in the window may be included (see [`is_turns`]).
fn absences(outcome: &Outcome) -> Vec<f64> {
    let visits = visits(outcome);
    let mut absences = Vec::new();
    for visit in visits[2..].windows(3) {
        let (left, back) = (visit[0].last().unwrap(), &visit[2][0]);
        let transfer_ms = f64::from(back.sectors) * TURN_MS / 1_157.0;
        absences.push(((back.at - left.at) as f64 / 1e6 - transfer_ms) / TURN_MS);
    }
    absences
}

/// Whether an absence is `turns` revolutions, possibly with a track or cylinder switch in the
/// window, within 0.3 ms.
fn is_turns(absence: f64, turns: f64) -> bool {
    let switches_ms = [0.0, 126.0 * TURN_MS / 1_157.0, 210.0 * TURN_MS / 1_157.0];
    switches_ms.iter().any(|switch_ms| ((absence - turns) * TURN_MS - switch_ms).abs() < 0.3)
}

#[test]
fn t21_two_readers_lock_to_whole_revolutions() {
    for (stride_gb, usual, sum) in [(22.0, 3.0, 19.7), (1.0, 2.0, 24.7)] {
        assert_near("sum", recipe(&sata(), 2, stride_gb).sum, sum, 0.06);
        let outcome = two_readers(stride_gb);
        let visits = visits(&outcome);
        let whole = &visits[2..visits.len() - 2];
        let sectors = |visit: &[Arrived]| visit.iter().map(|window| window.sectors).sum::<u32>();
        // If a second window begins at the first sector of a cylinder, the head must seek to that
        // cylinder (2.0 ms). The skew hides only a switch inside a transfer (1.5 ms), so the head
        // misses the sector and waits for another revolution. Meanwhile the reader's third command
        // arrives at the disk, and the visit brings three windows.
        let others = whole.iter().filter(|visit| sectors(visit) != 512).count();
        assert!(others * 200 < whole.len(), "{others} of {} visits bring something else than two windows", whole.len());
        let absences = absences(&outcome);
        for absence in &absences {
            assert!((1..=6).any(|turns| is_turns(*absence, f64::from(turns))), "{absence} revolutions");
        }
        let share = absences.iter().filter(|absence| is_turns(**absence, usual)).count() as f64 / absences.len() as f64;
        assert!(share > 0.6, "{share} of the absences at {stride_gb} GB take {usual} revolutions");
    }
}

#[test]
fn t22_one_to_eight_readers_as_in_2010() {
    for (count, sum, published) in [(1, 63.3, 63.3), (2, 19.7, 18.7), (4, 24.1, 21.6), (8, 26.3, 29.6)] {
        let means = recipe(&sata(), count, 22.0);
        assert_near(&format!("{count} readers"), means.sum, sum, 0.06);
        assert_near(&format!("{count} readers, published"), means.sum, published, 0.15);
        if count == 8 {
            assert!(means.spread >= 1.5, "fastest over slowest {}", means.spread);
        }
    }
}

/// The table of docs/specifications/devices.md, section 12, as far as the drive alone determines
/// it.
#[test]
fn t22_each_parameter_moves_the_readers_as_it_should() {
    let unqueued = sata().with(|disk| disk.firmware.depth = 1);
    let rows = [
        (sata().with(|disk| disk.seeks.seek_avg_ns = 8_000_000), 22.0, [21.2, 27.8, 29.8]),
        (sata().with(|disk| disk.seeks.seek_track_ns = 1_000_000), 22.0, [20.0, 25.1, 27.2]),
        (sata().with(|disk| disk.seeks.seek_jitter_ns = 0), 22.0, [19.6, 26.1, 28.4]),
        (sata().with(|disk| disk.order.coalesce = 0), 22.0, [18.9, 22.7, 23.0]),
        (unqueued, 22.0, [19.3, 18.1, 17.4]),
        (sata().with(|disk| disk.order.age_weight_millionths = 200_000), 22.0, [19.6, 19.6, 17.7]),
        (sata().with(|disk| disk.order.max_age_ns = 100_000_000), 22.0, [19.6, 22.0, 14.7]),
        (sata(), 12.0, [23.1, 28.2, 30.2]),
        (sata(), 30.0, [18.8, 22.4, 22.7]),
    ];
    for (parameters, stride_gb, expected) in rows {
        for (count, expected) in [2, 4, 8].into_iter().zip(expected) {
            let sum = recipe(&parameters, count, stride_gb).sum;
            assert_near(&format!("{count} readers, {stride_gb} GB, {parameters:?}"), sum, expected, 0.03);
        }
    }
}

#[test]
fn t23_commitment_at_the_end_of_a_transfer_never_leaves_a_stream() {
    let late = sata().with(|disk| disk.order.commit = 1);
    let means = recipe(&late, 2, 22.0);
    assert!(means.sum >= 60.0, "{}", means.sum);
    let outcome = dd::run(&late, 1, &[0, sectors_of_gb(22.0)], 2_048);
    let longest = |outcome: &Outcome| {
        let arrivals = |reader| outcome.arrived.iter().filter(move |a| a.reader == reader).map(|a| a.at);
        let gaps = [0, 1].map(|reader| arrivals(reader).zip(arrivals(reader).skip(1)).map(|(a, b)| b - a).max());
        gaps.into_iter().flatten().max().unwrap()
    };
    assert!(longest(&outcome) > 1_000_000_000, "the slower one starves: {}", longest(&outcome));
    assert!(longest(&two_readers(22.0)) < 100_000_000, "which commitment at the start prevents");
}

#[test]
fn t24_without_coalescing_second_windows_come_first() {
    let starts = [0.0, 22.0, 44.0, 66.0].map(sectors_of_gb);
    let out_of_order = |coalesce| {
        let outcome = dd::run(&sata().with(|disk| disk.order.coalesce = coalesce), 1, &starts, 1_024);
        let mut next = starts;
        let mut swapped = 0;
        for window in &outcome.arrived {
            let next = &mut next[window.reader as usize];
            swapped += usize::from(window.sector > *next);
            *next = (*next).max(window.sector + u64::from(window.sectors));
        }
        swapped
    };
    assert_eq!(out_of_order(1), 0);
    assert!(out_of_order(0) > 100, "{}", out_of_order(0));
    let drop = 1.0 - recipe(&sata().with(|disk| disk.order.coalesce = 0), 4, 22.0).sum / recipe(&sata(), 4, 22.0).sum;
    assert!((0.03..=0.10).contains(&drop), "{drop}");
}
