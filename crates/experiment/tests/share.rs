//! Shares, due shares, averages and confidence: cases 6 to 9 of docs/specifications/harness.md,
//! section 13.

use hoistway_experiment::share::{Fairness, water_fill};
use hoistway_experiment::statistics::{Estimate, truncated_mean};

/// Case 6: averages are truncated, not rounded: (6186 + 6187 + 6187) / 3 = 6186.67.
#[test]
fn t6_an_average_is_truncated() {
    assert_eq!(truncated_mean(&[6186.0, 6187.0, 6187.0]), 6186);
}

/// Case 6: the total is averaged from the totals of the sets: twice 100.5 + 200.5 is 301, while the
/// truncated columns sum to 300.
#[test]
fn t6_the_total_is_averaged_from_totals() {
    let (a, b) = ([100.5, 100.5], [200.5, 200.5]);
    let totals: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    assert_eq!((truncated_mean(&a), truncated_mean(&b), truncated_mean(&totals)), (100, 200, 301));
}

/// Service, then sum, share_error_max in %, mean in %, Jain, as printed in
/// docs/specifications/harness.md, section 5.5; weights are 100 x i.
const ROWS: [(&[f64], f64, &str, &str, &str); 4] = [
    (&[1000., 2100., 2900., 4100.], 10100., "4.3", "2.7", "0.9991"),
    (&[2500., 2500., 2500., 2500.], 10000., "150.0", "57.3", "0.7622"),
    (&[500., 1000., 1500., 2000., 2500., 3000., 3500., 4000.], 18000., "0.0", "0.0", "1.0000"),
    (&[900., 1500., 3300., 3900., 5600., 5500., 6600., 8900.], 36200., "25.4", "10.7", "0.9850"),
];

/// Case 7: share errors and Jain's index reproduce the rows of
/// docs/specifications/harness.md, section 5.5, to the printed digits.
#[test]
fn t7_share_metrics_reproduce_the_published_rows() {
    for (got, sum, error_max, error_mean, jain) in ROWS {
        let due: Vec<f64> = (1..=got.len()).map(|i| 100.0 * i as f64).collect();
        let fairness = Fairness::of(got, &due).unwrap();
        assert_eq!(got.iter().sum::<f64>(), sum);
        assert_eq!(format!("{:.1}", fairness.error_max * 100.0), error_max, "{got:?}");
        assert_eq!(format!("{:.1}", fairness.error_mean * 100.0), error_mean, "{got:?}");
        assert_eq!(format!("{:.4}", fairness.jain), jain, "{got:?}");
    }
}

fn due(demands: [Option<f64>; 3]) -> Vec<f64> {
    let [a, b, c] = demands;
    let due = water_fill(1000.0, &[(100.0, a), (100.0, b), (200.0, c)]);
    due.iter().map(|due| (due * 100.0).round() / 100.0).collect()
}

/// Case 8: capacity 1000, weights 100:100:200; what a group does not use goes to the others by
/// weight.
#[test]
fn t8_unused_share_goes_to_the_others_by_weight() {
    assert_eq!(due([Some(50.0), None, None]), [50.0, 316.67, 633.33]);
}

/// Case 8: without demands, by weight alone.
#[test]
fn t8_unlimited_groups_share_by_weight() {
    assert_eq!(due([None, None, None]), [250.0, 250.0, 500.0]);
}

/// Case 8: demands 50, 100, 1000: the third gets the rest.
#[test]
fn t8_two_satisfied_groups_leave_the_rest_to_the_third() {
    assert_eq!(due([Some(50.0), Some(100.0), Some(1000.0)]), [50.0, 100.0, 850.0]);
}

/// Case 9: 100, 110, 90: mean 100, s = 10, t = 4.303, half width 4.303 x 10 / sqrt(3) = 24.84.
#[test]
fn t9_the_interval_is_students() {
    let estimate = Estimate::of(&[100.0, 110.0, 90.0]);
    assert_eq!((estimate.mean, estimate.sd), (100.0, 10.0));
    assert_eq!(format!("{:.2}", estimate.ci95.unwrap()), "24.84");
}

/// Case 9: one repetition has no interval; in JSON it is null, not 0.
#[test]
fn t9_one_repetition_has_no_interval() {
    let json = serde_json::to_string(&Estimate::of(&[100.0])).unwrap();
    assert!(json.contains("\"ci95\":null"), "{json}");
}
