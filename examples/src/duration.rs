//! `RunDuration`: the run time of an example, from `--duration 30s`, `--duration 2m` or `--duration
//! forever`.

use std::{str::FromStr, time::Duration};

/// Holds the run time of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunDuration(Option<Duration>);

impl RunDuration {
    /// Waits until the time has passed or Ctrl-C is pressed.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. A second call waits for the full time again.
    pub async fn wait(self) {
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

impl FromStr for RunDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self(None));
        }
        let invalid = || "expected 30s, 2m, 1h or forever".to_owned();
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let unit_seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err(invalid()),
        };
        let number: u64 = number.parse().map_err(|_| invalid())?;
        Ok(Self(Some(Duration::from_secs(number.saturating_mul(unit_seconds)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_number_with_unit_or_forever() {
        assert_eq!("90s".parse(), Ok(RunDuration(Some(Duration::from_secs(90)))));
        assert_eq!("2m".parse(), Ok(RunDuration(Some(Duration::from_secs(120)))));
        assert_eq!("forever".parse(), Ok(RunDuration(None)));
        for text in ["", "5", "s", "1d", "-1s", "1.5s"] {
            assert!(text.parse::<RunDuration>().is_err(), "{text:?}");
        }
    }
}
