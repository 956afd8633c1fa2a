//! How long an example runs: `--for 30s`, `--for 2m`, `--for ever`.

use std::{str::FromStr, time::Duration};

/// The time that a program is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life(Option<Duration>);

impl Life {
    /// Returns when the time is over, or at once on Ctrl-C.
    ///
    /// # Cancel safety
    /// Safe: nothing is kept.
    pub async fn over(self) {
        let time = async {
            match self.0 {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = time => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

impl FromStr for Life {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "ever" {
            return Ok(Self(None));
        }
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let seconds_each = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err(format!("{text:?} is no time: expected 30s, 2m, 1h or ever")),
        };
        let number: u64 =
            number.parse().map_err(|_| format!("{text:?} is no time: expected 30s, 2m, 1h or ever"))?;
        Ok(Self(Some(Duration::from_secs(number.saturating_mul(seconds_each)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_with_a_unit_or_ever() {
        assert_eq!("90s".parse(), Ok(Life(Some(Duration::from_secs(90)))));
        assert_eq!("2m".parse(), Ok(Life(Some(Duration::from_secs(120)))));
        assert_eq!("ever".parse(), Ok(Life(None)));
        for text in ["", "5", "s", "1d", "-1s", "1.5s"] {
            assert!(text.parse::<Life>().is_err(), "{text:?}");
        }
    }
}
