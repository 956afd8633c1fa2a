//! The query of a URL.

use jiff::SignedDuration;
use tokio::time::Duration;

use crate::status::Status;
use crate::wire::escape;

/// The parameters after the `?`. If a parameter is repeated, the first value applies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(pairs.filter_map(pair).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or("")
    }

    /// Parses a boolean like the real server: true if the parameter is present and not `0` or `false`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    pub(crate) fn optional_flag(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        Some(value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let invalid = |_| Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"));
        value.parse().map(Some).map_err(invalid)
    }

    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Status> {
        let text = self.text("timeout");
        if matches!(text, "" | "0") {
            return Ok(None);
        }
        let duration: SignedDuration = text.parse().map_err(|_| {
            Status::bad_request(format!(
                "invalid timeout specified in the request URL - time: invalid duration {text:?}"
            ))
        })?;
        Ok(Duration::try_from(duration).ok().filter(|duration| !duration.is_zero()))
    }

    pub(crate) fn without(&self, names: &[&str]) -> Self {
        Self(self.0.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned().collect())
    }
}

/// Parses one parameter. Like Go, ignores parameters with a semicolon or an invalid escape.
fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let decode = |text: &str| escape::decode(&text.replace('+', " "));
    if text.contains(';') { None } else { Some((decode(name)?, decode(value)?)) }
}

/// Parses a version. Returns the error message of the real server if the text is not a number.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    parse_unsigned(text).map_err(|cause| format!("resourceVersion: Invalid value: {text:?}: {cause}"))
}

/// Parses a number without a sign. Returns an error message if the text is not such a number.
pub(crate) fn parse_unsigned(text: &str) -> Result<u64, String> {
    let is_signed = text.starts_with('+');
    let number = text.parse().ok().filter(|_| !is_signed);
    number.ok_or_else(|| format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
}
