//! Quantities such as `100m`: validation and normalization as on the real server.

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub(crate) struct InvalidQuantity;

/// The number of nanos of one. The real server rounds amounts up to nanos.
const NANOS: i128 = 1_000_000_000;
/// The largest amount with a binary suffix, in nanos.
const MAX_BINARY_NANOS: i128 = i64::MAX as i128 * NANOS;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The multiplier of a suffix.
#[derive(Clone, Copy)]
enum Unit {
    /// A power of ten, written as a letter.
    Decimal(i32),
    /// A power of ten, written as an exponent.
    Exponent(i32),
    /// A power of 1024.
    Binary(u32),
}

/// Returns the normalized quantity of the real server; `None` if it equals the input. Amounts beyond 10^29
/// stay unchanged.
pub(crate) fn canonical(text: &str) -> Result<Option<String>, InvalidQuantity> {
    let Some((unit, amount)) = parse(text)? else { return Ok(None) };
    let sign = if text.starts_with('-') && amount > 0 { "-" } else { "" };
    let written = format!("{sign}{}", unit.written(amount));
    Ok(Some(written).filter(|written| written != text))
}

/// Returns the amount in nanos, for comparisons. Invalid quantities count as 0, and amounts beyond 10^29 as
/// the largest amount.
pub(crate) fn nanos(text: &str) -> i128 {
    let amount = parse(text).map_or(0, |parsed| parsed.map_or(i128::MAX, |(_, amount)| amount));
    if text.starts_with('-') { -amount } else { amount }
}

/// Returns the unit of a quantity, and its amount in nanos without the sign. Returns `None` if the amount is
/// too large.
fn parse(text: &str) -> Result<Option<(Unit, i128)>, InvalidQuantity> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return Err(InvalidQuantity);
    }
    let unit = Unit::of(suffix).ok_or(InvalidQuantity)?;
    let digits = [whole, fraction].concat().parse::<i128>().ok();
    let amount = digits.and_then(|digits| unit.nanos(digits, i32::try_from(fraction.len()).ok()?));
    Ok(amount.map(|amount| (unit, amount)))
}

impl Unit {
    fn of(suffix: &str) -> Option<Self> {
        if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Some(Self::Decimal(*power));
        }
        if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
            return Some(Self::Binary(power as u32));
        }
        suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse().ok()).map(Self::Exponent)
    }

    /// Returns the amount in nanos, rounded up. `digits` include `places` digits of a fraction. Returns
    /// `None` if the amount is too large.
    fn nanos(self, digits: i128, places: i32) -> Option<i128> {
        let (digits, power) = match self {
            Self::Decimal(power) | Self::Exponent(power) => (digits, power),
            Self::Binary(power) => (digits.checked_mul(1024i128.checked_pow(power)?)?, 0),
        };
        let power = power.checked_sub(places)?.checked_add(9)?;
        let scale = 10i128.checked_pow(power.unsigned_abs());
        let nanos = match (power >= 0, scale) {
            (true, scale) => digits.checked_mul(scale?)?,
            (false, Some(scale)) => digits / scale + i128::from(digits % scale != 0),
            // A tiny amount is rounded up to one nano.
            (false, None) => i128::from(digits != 0),
        };
        Some(if matches!(self, Self::Binary(_)) { nanos.min(MAX_BINARY_NANOS) } else { nanos })
    }

    /// Formats the amount with the largest suffix that leaves an integer.
    fn written(self, mut nanos: i128) -> String {
        if matches!(self, Self::Binary(_)) && nanos % NANOS == 0 && nanos >= 1024 * NANOS {
            let (mut number, mut power) = (nanos / NANOS, 0);
            while number % 1024 == 0 {
                (number, power) = (number / 1024, power + 1);
            }
            return format!("{number}{}", BINARY.get(power).unwrap_or(&""));
        }
        let is_exponent = matches!(self, Self::Exponent(_));
        let mut power = if nanos == 0 { 0 } else { -9 };
        while nanos != 0 && nanos % 1000 == 0 && (is_exponent || power < 18) {
            (nanos, power) = (nanos / 1000, power + 3);
        }
        if is_exponent && power != 0 {
            return format!("{nanos}e{power}");
        }
        let suffix = DECIMAL.iter().find(|(_, known)| *known == power).map_or("", |(name, _)| name);
        format!("{nanos}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of Go's own type.
    const GO: &[(&str, &str)] = &[
        ("0", "0"),
        ("00", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1.0", "1"),
        ("1e3", "1e3"),
        ("1e4", "10e3"),
        ("10e3", "10e3"),
        ("1000e3", "1e6"),
        ("1024Ki", "1Mi"),
        ("1024Mi", "1Gi"),
        ("8Gi", "8Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.9765625Ki", "1k"),
        ("0.1Gi", "107374182400m"),
        ("1Ei", "1Ei"),
        ("16Ei", "9223372036854775807"),
        ("8Ei", "9223372036854775807"),
        ("7Ei", "7Ei"),
        ("12E", "12E"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("1.1n", "2n"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1e21", "1e21"),
        ("1e-3", "1e-3"),
        ("0.0001", "100u"),
        ("100k", "100k"),
        ("1000k", "1M"),
        ("1000000", "1M"),
        ("-3k", "-3k"),
        ("-1.5Gi", "-1536Mi"),
        ("-0.1n", "-1n"),
        ("0.000000001Ki", "1024n"),
        ("1000Ki", "1000Ki"),
        ("512", "512"),
        ("512Ki", "512Ki"),
        ("4Ki", "4Ki"),
        ("3Ki", "3Ki"),
        ("999999999999999Ki", "999999999999999Ki"),
        ("1.1Ki", "1126400m"),
        ("1e30", "1e30"),
        ("1e-30", "1e-9"),
        ("12.000", "12"),
        (".5", "500m"),
        ("1u", "1u"),
        ("1000u", "1m"),
        ("1000000u", "1"),
        ("10000n", "10u"),
        ("1.10", "1100m"),
        ("0.001m", "1u"),
        ("-20Ei", "-9223372036854775807"),
        ("00m", "0"),
    ];

    #[test]
    fn quantities_are_formatted_as_in_go() {
        for (text, written) in GO {
            assert_eq!(
                canonical(text).map(|new| new.unwrap_or_else(|| (*text).into())),
                Ok((*written).into()),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_quantities_are_rejected() {
        for text in
            ["1.2.3", "", "zz", " 1", "0x1", "1 ", "1mm2x", "é", "-", ".", "1K", "1e", "1Mim", "1eKi", "1ki"]
        {
            assert_eq!(canonical(text), Err(InvalidQuantity), "{text}");
        }
    }
}
