//! Which rate comes next, to find the highest one that holds a goal.
//!
//! A pure machine: it is told whether a step held and says the next step's rate.
//!
//! ```text
//!  Rising --held--> Rising (by a part more) --held at the top--> done
//!    |
//!  missed --> Narrowing: between the highest that held and the lowest that did not, until they are close
//! ```

/// How much higher the next step is while all steps hold.
pub const DEFAULT_RISE: f64 = 0.25;

/// Highest rate that held and lowest that did not are close enough when they differ by this part.
const CLOSE: f64 = 0.03;

/// Steps of a ramp, whatever its bounds.
const MAX_STEPS: u32 = 200;

/// A search between two rates.
#[derive(Clone, Debug)]
pub struct Ramp {
    to: f64,
    rise: f64,
    current: f64,
    held: Option<f64>,
    missed: Option<f64>,
    steps: u32,
}

impl Ramp {
    /// Begins at `from`; never asks for more than `to`.
    #[must_use]
    pub fn new(from: f64, to: f64, rise: f64) -> Self {
        Self { to, rise, current: from, held: None, missed: None, steps: 0 }
    }

    /// The rate of this step.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.current
    }

    /// The highest rate that held.
    #[must_use]
    pub fn best(&self) -> Option<f64> {
        self.held
    }

    /// Takes the end of a step; false when the search is over.
    pub fn step_ended(&mut self, held: bool) -> bool {
        self.steps += 1;
        let bound = if held { &mut self.held } else { &mut self.missed };
        *bound = Some(self.current);
        match self.next() {
            Some(rate) if self.steps < MAX_STEPS => {
                self.current = rate;
                true
            }
            _ => false,
        }
    }

    fn next(&self) -> Option<f64> {
        match (self.held, self.missed) {
            // Nothing holds below the first step: it was asked for as the lowest.
            (None, _) => None,
            (Some(held), None) => {
                let next = (held * (1.0 + self.rise)).min(self.to);
                (next > held).then_some(next)
            }
            (Some(held), Some(missed)) => (missed / held > 1.0 + CLOSE).then(|| (held * missed).sqrt()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates asked for when everything up to `capacity` holds.
    fn search(from: f64, to: f64, rise: f64, capacity: f64) -> (Vec<f64>, Option<f64>) {
        let mut ramp = Ramp::new(from, to, rise);
        let mut rates = vec![ramp.rate()];
        while ramp.step_ended(ramp.rate() <= capacity) {
            rates.push(ramp.rate());
        }
        (rates, ramp.best())
    }

    #[test]
    fn rises_and_narrows() {
        let (rates, best) = search(1000.0, 8000.0, 1.0, 5000.0);
        assert_eq!(rates[..4], [1000.0, 2000.0, 4000.0, 8000.0]);
        assert!(best.unwrap() <= 5000.0 && best.unwrap() > 5000.0 / (1.0 + CLOSE), "{best:?} {rates:?}");
    }

    #[test]
    fn ends() {
        let check = |from, to, rise, capacity, steps: usize, best| {
            let found = search(from, to, rise, capacity);
            assert_eq!((found.0.len(), found.1), (steps, best), "{found:?}");
        };
        check(1000.0, 8000.0, 1.0, 1e9, 4, Some(8000.0));
        check(1000.0, 8000.0, 1.0, 10.0, 1, None);
        check(1000.0, 1000.0, 1.0, 1e9, 1, Some(1000.0));
        assert_eq!(search(1.0, 1e300, 1e-9, 1e300).0.len(), MAX_STEPS as usize);
    }
}
