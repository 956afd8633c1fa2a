//! Reads numbers: integers of up to 128 bits, and correctly rounded floats.

use std::str::FromStr;

use serde::de::Visitor;

use super::{deserializer::Deserializer, error::Fault};

/// The number of decimal digits that always fit into 64 bits.
const SAFE_DIGITS: usize = 19;

/// A number in the first variant that can hold it.
pub(super) enum Number {
    Unsigned(u64),
    /// A negative integer.
    Signed(i64),
    /// A number with a fraction or an exponent, too large for the other variants, or minus zero.
    Float(f64),
}

impl Number {
    #[inline]
    pub(super) fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Number::Unsigned(number) => visitor.visit_u64(number),
            Number::Signed(number) => visitor.visit_i64(number),
            Number::Float(number) => visitor.visit_f64(number),
        }
    }
}

impl Deserializer<'_> {
    /// Consumes a number. The next byte is its sign or first digit.
    pub(super) fn number(&mut self) -> Result<Number, Fault> {
        let start = self.at;
        let negative = self.sign();
        let magnitude = self.integer()?;
        if self.fraction_and_exponent()? {
            return self.float_since(start).map(Number::Float);
        }
        match (magnitude, negative) {
            (Some(magnitude), false) => return Ok(Number::Unsigned(magnitude)),
            (Some(magnitude @ 1..), true) => {
                if let Some(number) = 0_i64.checked_sub_unsigned(magnitude) {
                    return Ok(Number::Signed(number));
                }
            }
            _ => {}
        }
        self.float_since(start).map(Number::Float)
    }

    /// Consumes a number as `f32`. The number is rounded only once.
    pub(super) fn single_precision_number(&mut self) -> Result<Number, Fault> {
        let start = self.at;
        match self.number()? {
            Number::Float(_) => {
                let single: f32 = self.parse_since(start)?;
                if single.is_finite() { Ok(Number::Float(single.into())) } else { Err(Fault::Syntax) }
            }
            integer => Ok(integer),
        }
    }

    /// Consumes an integer of up to 128 bits.
    pub(super) fn wide_integer<T: FromStr>(&mut self) -> Result<T, Fault> {
        let start = self.at;
        self.sign();
        self.integer().map_err(|_| Fault::Syntax)?;
        self.parse_since(start)
    }

    /// Consumes a number without decoding it.
    pub(super) fn skip_number(&mut self) -> Result<(), Fault> {
        self.sign();
        let taken = self.integer().and_then(|_| self.fraction_and_exponent());
        taken.map(drop).map_err(|_| Fault::Syntax)
    }

    fn sign(&mut self) -> bool {
        let negative = self.byte() == Some(b'-');
        self.at += usize::from(negative);
        negative
    }

    /// Consumes the digits before a fraction. Returns `None` if their value exceeds 64 bits.
    fn integer(&mut self) -> Result<Option<u64>, Fault> {
        let start = self.at;
        let mut value = 0_u64;
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let digits = self.text.get(start..self.at).unwrap_or_default();
        match digits.len() {
            0 => Err(self.not_a_digit()),
            1 => Ok(Some(value)),
            _ if digits.starts_with('0') => Err(Fault::Syntax),
            2..=SAFE_DIGITS => Ok(Some(value)),
            _ => Ok(digits.parse().ok()),
        }
    }

    /// Consumes an optional fraction and an optional exponent. Returns false if both are missing.
    #[inline]
    fn fraction_and_exponent(&mut self) -> Result<bool, Fault> {
        if !matches!(self.byte(), Some(b'.' | b'e' | b'E')) {
            return Ok(false);
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(true)
    }

    /// Consumes at least one digit.
    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        if self.at == start { Err(self.not_a_digit()) } else { Ok(()) }
    }

    fn not_a_digit(&self) -> Fault {
        self.byte().map_or(Fault::Truncated, |_| Fault::Syntax)
    }

    fn float_since(&self, start: usize) -> Result<f64, Fault> {
        let number: f64 = self.parse_since(start)?;
        if number.is_finite() { Ok(number) } else { Err(Fault::Syntax) }
    }

    /// Parses the text since `start` as another type.
    fn parse_since<T: FromStr>(&self, start: usize) -> Result<T, Fault> {
        self.text.get(start..self.at).and_then(|number| number.parse().ok()).ok_or(Fault::Syntax)
    }
}
