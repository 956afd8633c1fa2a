//! A least-squares fit of non-negative coefficients to the relative errors of predictions.

/// The number of passes over the coefficients. A pass takes less than a microsecond.
const PASSES: usize = 200_000;

/// Finds non-negative coefficients `c` that minimize the sum of `(row · c / measured - 1)²`.
///
/// Each row has one more value than there are measured properties: the first value is 1, for the base.
pub(super) fn fit<const N: usize>(rows: &[([f64; N], f64)]) -> [f64; N] {
    let scaled: Vec<[f64; N]> =
        rows.iter().map(|(row, measured)| row.map(|value| value / measured)).collect();
    let norms: [f64; N] =
        std::array::from_fn(|at| scaled.iter().map(|row| row[at] * row[at]).sum::<f64>().sqrt());
    // A property that no row has is not fitted.
    let column =
        |at: usize| scaled.iter().map(move |row| if norms[at] > 0.0 { row[at] / norms[at] } else { 0.0 });
    let gram: [[f64; N]; N] =
        std::array::from_fn(|a| std::array::from_fn(|b| column(a).zip(column(b)).map(|(a, b)| a * b).sum()));
    let target: [f64; N] = std::array::from_fn(|at| column(at).sum());
    let mut fitted = [0.0; N];
    for _ in 0..PASSES {
        for at in 0..N {
            if norms[at] > 0.0 {
                let others: f64 = (0..N).filter(|&b| b != at).map(|b| gram[at][b] * fitted[b]).sum();
                fitted[at] = (target[at] - others).max(0.0);
            }
        }
    }
    std::array::from_fn(|at| if norms[at] > 0.0 { fitted[at] / norms[at] } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_returns_exact_coefficients() {
        let rows: Vec<_> = (1..20)
            .map(|at| {
                let row = [1.0, f64::from(at), f64::from(at * at % 7)];
                (row, 1000.0 + 20.0 * row[1] + 3.0 * row[2])
            })
            .collect();
        let [base, a, b] = fit(&rows);
        assert!(
            (base - 1000.0).abs() < 1e-3 && (a - 20.0).abs() < 1e-3 && (b - 3.0).abs() < 1e-3,
            "{base} {a} {b}"
        );
    }

    #[test]
    fn coefficients_are_never_negative() {
        let rows = [([1.0, 1.0, 0.0], 10.0), ([1.0, 2.0, 0.0], 8.0), ([1.0, 3.0, 0.0], 6.0)];
        let fitted = fit(&rows);
        assert!(fitted.iter().all(|value| *value >= 0.0 && value.is_finite()), "{fitted:?}");
        assert_eq!(fitted[2], 0.0);
    }
}
