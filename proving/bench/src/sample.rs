//! The summary of several measurements of one quantity.

/// Measurements of one quantity, outliers included. A failed measurement is NaN, and is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// The smallest measurement that this share does not exceed (nearest rank). NaN without any.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the length")]
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
    }

    /// Half of the measurements are below it.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The quartiles; half of the measurements lie between them. `None` if there is only one.
    pub fn spread(&self) -> Option<[f64; 2]> {
        (self.0.len() > 1).then(|| [self.quantile(0.25), self.quantile(0.75)])
    }

    pub fn push(&mut self, value: f64) {
        self.0.extend((!value.is_nan()).then_some(value));
    }

    /// Each measurement divided by the one next to it; empty if their numbers differ.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        if self.0.len() != other.0.len() {
            return Self::default();
        }
        self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect()
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().filter(|value| !value.is_nan()).collect())
    }
}

impl From<f64> for Sample {
    fn from(value: f64) -> Self {
        [value].into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_one_of_the_measurements_and_an_outlier_does_not_move_it() {
        let sample: Sample = [3.0, 1.0, 900.0, 2.0, 4.0].into_iter().collect();
        assert_eq!(sample.median(), 3.0);
        assert_eq!(sample.spread(), Some([2.0, 4.0]));
        assert_eq!((sample.quantile(0.0), sample.quantile(1.0)), (1.0, 900.0));
        let three: Sample = [2.0, 3.0, 1.0].into_iter().collect();
        assert_eq!(three.spread(), Some([1.0, 3.0]));
    }

    #[test]
    fn one_measurement_has_no_spread_and_none_has_no_median() {
        assert_eq!(Sample::from(5.0).spread(), None);
        assert!(Sample::default().median().is_nan());
        assert_eq!(Sample::from(f64::NAN), Sample::default());
    }

    #[test]
    fn a_ratio_is_taken_within_each_repetition() {
        let ours: Sample = [10.0, 1.0].into_iter().collect();
        let bare: Sample = [20.0, 2.0].into_iter().collect();
        assert_eq!(ours.over(&bare), [0.5, 0.5].into_iter().collect());
        assert_eq!(ours.over(&Sample::from(20.0)), Sample::default());
    }
}
