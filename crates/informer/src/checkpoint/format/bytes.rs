//! Writes and reads numbers and texts.

use super::Unusable;

/// The maximum number of bytes of a number of 64 bits, with 7 bits in each byte.
const MAX_NUMBER_BYTES: u32 = 10;

/// Appends a number with 7 bits in each byte. The highest bit is set in each byte before the final byte.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads a payload whose hash is correct. An error therefore means that another program wrote it.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Unusable> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Unusable::Damaged("a value is incomplete"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unusable> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Unusable> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u64(&mut self) -> Result<u64, Unusable> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn number(&mut self) -> Result<u64, Unusable> {
        let mut number = 0;
        for at in 0..MAX_NUMBER_BYTES {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << (7 * at) >> (7 * at) != bits {
                break;
            }
            number |= bits << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Unusable::Damaged("a number is too large"))
    }

    /// Reads a length and that number of bytes.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Unusable> {
        let len = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        self.take(len)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Unusable> {
        as_text(self.bytes()?)
    }

    pub(super) fn finish(&self) -> Result<(), Unusable> {
        if self.is_empty() { Ok(()) } else { Err(Unusable::Damaged("a frame is too long")) }
    }
}

pub(super) fn as_text(bytes: &[u8]) -> Result<&str, Unusable> {
    std::str::from_utf8(bytes).map_err(|_| Unusable::Damaged("a text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn number_round_trips(number: u64, shift in 0..64_u32) {
            let number = number >> shift;
            let mut out = Vec::new();
            put_number(&mut out, number);
            prop_assert_eq!(Reader(&out).number(), Ok(number));
        }

        #[test]
        fn any_bytes_never_panic(bytes: Vec<u8>) {
            let _number = Reader(&bytes).number();
            let _text = Reader(&bytes).text();
        }
    }

    #[test]
    fn number_above_64_bits_is_an_error() {
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert!(Reader(&bytes).number().is_err());
        bytes[9] = 1;
        assert_eq!(Reader(&bytes).number(), Ok(u64::MAX));
        assert!(Reader(&[0x80; 11]).number().is_err());
    }
}
