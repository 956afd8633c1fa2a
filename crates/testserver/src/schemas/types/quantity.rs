//! Quantities such as `100m`: validation and normalization as on the real server. Most quantities are
//! already normalized.

/// The reasons why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidQuantity {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The power of ten of the finest resolution.
const NANO: i64 = -9;
/// A quantity with at most this many digits takes the fast path.
const FEW_DIGITS: usize = 18;
/// The upper limit for binary suffixes: the largest 64-bit integer.
const LARGEST: &[u8] = b"9223372036854775807";

/// Returns the normalized quantity of the real server; `None` if it equals the input.
///
/// # Errors
/// Returns an error if the text is not a quantity.
pub(crate) fn canonical(text: &str) -> Result<Option<String>, InvalidQuantity> {
    let Parts { negative, whole, fraction, suffix } = Parts::of(text)?;
    let unit = Unit::of(suffix)?;
    let digits = [whole, fraction].concat();
    let exponent = unit.exponent() - fraction.len() as i64;
    if is_canonical(whole, fraction, &digits, unit, exponent) {
        return Ok(None);
    }
    let mut amount = Amount { digits: digits.trim_start_matches('0').into(), exponent };
    let mut form = unit.form();
    if let Unit::Binary(power) = unit {
        (0..power).for_each(|_| amount.double());
        amount.round_up();
        amount.cap();
        if amount.is_below(1024) || amount.whole().is_none() {
            form = Form::Decimal;
        }
    } else {
        amount.round_up();
    }
    let written = amount.written(form);
    let sign = if negative && written != "0" { "-" } else { "" };
    let written = format!("{sign}{written}");
    Ok(Some(written).filter(|written| written != text))
}

/// A quantity, split into parts.
struct Parts<'a> {
    negative: bool,
    /// The integer digits, without leading zeros but not empty.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, InvalidQuantity> {
        if text.is_empty() {
            return Err(InvalidQuantity::Format);
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = after(unsigned, |c| c.is_ascii_digit());
        let whole = whole.trim_start_matches('0');
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => after(rest, |c| c.is_ascii_digit()),
            None => ("", rest),
        };
        let (_, power) = after(suffix, |c| "eEinumkKMGTP".contains(c));
        let power = power.strip_prefix(['+', '-']).unwrap_or(power);
        if power.bytes().any(|byte| !byte.is_ascii_digit()) {
            return Err(InvalidQuantity::Format);
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative: text.starts_with('-'), whole, fraction, suffix })
    }
}

/// Splits the text after the leading characters that satisfy `begins`.
fn after(text: &str, begins: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.len() - text.trim_start_matches(begins).len())
}

/// The multiplier of a suffix.
#[derive(Clone, Copy)]
enum Unit {
    /// A power of ten, written as a letter.
    Decimal(i64),
    /// A power of ten, written as an exponent.
    Exponent(i64),
    /// A power of two.
    Binary(u32),
}

/// The notation of an amount.
#[derive(Clone, Copy)]
enum Form {
    Decimal,
    Exponent,
    Binary,
}

const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Unit {
    fn of(suffix: &str) -> Result<Self, InvalidQuantity> {
        if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Ok(Self::Decimal(*power));
        }
        if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Ok(Self::Binary(*power));
        }
        let power = suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i64>().ok());
        // The real server keeps 32 bits of the exponent.
        power.map(|power| Self::Exponent((power as i32).into())).ok_or(InvalidQuantity::Suffix)
    }

    fn exponent(self) -> i64 {
        match self {
            Self::Decimal(power) | Self::Exponent(power) => power,
            Self::Binary(_) => 0,
        }
    }

    fn form(self) -> Form {
        match self {
            Self::Decimal(_) => Form::Decimal,
            Self::Exponent(_) => Form::Exponent,
            Self::Binary(_) => Form::Binary,
        }
    }
}

/// Returns whether the real server keeps the text without normalization.
fn is_canonical(whole: &str, fraction: &str, digits: &str, unit: Unit, exponent: i64) -> bool {
    if let Unit::Binary(power) = unit {
        // Approximates how many of fifteen digits the power uses.
        let room = 14usize.saturating_sub((power as usize) * 3 / 10);
        let odd = digits.parse::<u64>().is_ok_and(|number| !number.is_multiple_of(8));
        return fraction.is_empty() && whole.len() <= room && odd;
    }
    digits.len() <= FEW_DIGITS
        && exponent >= NANO
        && exponent % 3 == 0
        && !digits.ends_with("000")
        && !digits.starts_with('0')
}

/// A number of any size: the digits, and the power of ten of the last digit.
struct Amount {
    digits: Vec<u8>,
    exponent: i64,
}

impl Amount {
    fn double(&mut self) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            let doubled = (*digit - b'0') * 2 + carry;
            (*digit, carry) = (b'0' + doubled % 10, doubled / 10);
        }
        if carry > 0 {
            self.digits.insert(0, b'0' + carry);
        }
    }

    /// Rounds away from zero, to the finest resolution.
    fn round_up(&mut self) {
        let Ok(dropped @ 1..) = usize::try_from(NANO.saturating_sub(self.exponent)) else { return };
        let kept = self.digits.len().saturating_sub(dropped);
        let rest = self.digits.split_off(kept);
        self.exponent = NANO;
        if rest.iter().all(|digit| *digit == b'0') {
            return;
        }
        for digit in self.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.digits.insert(0, b'1');
    }

    fn cap(&mut self) {
        let whole = self.digits.len() as i64 + self.exponent;
        let most = LARGEST.len() as i64;
        // The exponent is at most zero here, so more digits mean a larger number.
        let start = self.digits.get(..LARGEST.len()).unwrap_or_default();
        if whole > most || (whole == most && start > LARGEST) {
            *self = Self { digits: LARGEST.into(), exponent: 0 };
        }
    }

    /// Returns the digits before the decimal point.
    fn before_point(&self) -> &[u8] {
        let places = usize::try_from(-self.exponent).unwrap_or_default();
        self.digits.get(..self.digits.len().saturating_sub(places)).unwrap_or_default()
    }

    fn number(digits: &[u8]) -> Option<u64> {
        if digits.is_empty() { Some(0) } else { std::str::from_utf8(digits).ok()?.parse().ok() }
    }

    fn is_below(&self, bound: u64) -> bool {
        Self::number(self.before_point()).is_some_and(|number| number < bound)
    }

    /// Returns the number if it is an integer.
    fn whole(&self) -> Option<u64> {
        let before = self.before_point();
        let behind = self.digits.get(before.len()..).unwrap_or_default();
        if behind.iter().any(|digit| *digit != b'0') { None } else { Self::number(before) }
    }

    /// Formats the amount with the largest suffix that leaves an integer.
    fn written(mut self, form: Form) -> String {
        if self.digits.iter().all(|digit| *digit == b'0') {
            return "0".into();
        }
        if let (Form::Binary, Some(mut number)) = (form, self.whole()) {
            let mut power = 0;
            while number.is_multiple_of(1024) {
                (number, power) = (number / 1024, power + 10);
            }
            let suffix = BINARY.iter().find(|(_, known)| *known == power).map_or("", |(name, _)| name);
            return format!("{number}{suffix}");
        }
        while self.digits.last() == Some(&b'0') {
            self.digits.pop();
            self.exponent += 1;
        }
        while self.exponent % 3 != 0 {
            self.digits.push(b'0');
            self.exponent -= 1;
        }
        let digits = String::from_utf8_lossy(&self.digits);
        match (form, self.exponent) {
            (Form::Exponent, 0) => digits.into(),
            (Form::Exponent, power) => format!("{digits}e{power}"),
            // Without a matching suffix the power is dropped, as on the real server.
            (Form::Decimal | Form::Binary, power) => {
                let suffix = DECIMAL.iter().find(|(_, known)| *known == power).map_or("", |(name, _)| name);
                format!("{digits}{suffix}")
            }
        }
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
        ("+1", "+1"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("0100m", "0100m"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1.0", "1"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
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
        ("1000000000000000000000", "1"),
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
        ("1E-3", "1E-3"),
        ("1e30", "1e30"),
        ("1e-30", "1e-9"),
        ("12.000", "12"),
        (".5", "500m"),
        ("5.", "5."),
        ("-", "0"),
        ("+", "0"),
        (".", "0"),
        ("1u", "1u"),
        ("1000u", "1m"),
        ("1000000u", "1"),
        ("10000n", "10u"),
        ("1.10", "1100m"),
        ("0.001m", "1u"),
        ("1e99999999999", "10e1215752190"),
        ("1e-2147483649", "10e2147483646"),
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
        for text in ["1.2.3", "", "zz", " 1", "0x1", "1 ", "1mm2x", "é"] {
            assert_eq!(canonical(text), Err(InvalidQuantity::Format), "{text}");
        }
        for text in ["1K", "1e", "1Mim", "1m3", "1mm", "1eKi", "1ki"] {
            assert_eq!(canonical(text), Err(InvalidQuantity::Suffix), "{text}");
        }
    }
}
