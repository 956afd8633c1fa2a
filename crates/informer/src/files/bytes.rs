//! Writes and reads numbers, texts and keys.

use kube_object::{ObjectKey, ResourceVersion};

use super::Unusable;

/// The maximum number of bytes of a number of 64 bits, with 7 bits in each byte.
const MAX_NUMBER_BYTES: u32 = 10;

/// Appends a number with 7 bits in each byte. The highest bit is set in each byte before the final byte.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a key. The key contains only the bytes that differ from the key before.
pub(crate) fn put_key(out: &mut Vec<u8>, key: &ObjectKey, before: Option<&ObjectKey>) {
    let (text, before) = (key.as_str().as_bytes(), before.map_or("", ObjectKey::as_str).as_bytes());
    let shared = text.iter().zip(before).take_while(|(a, b)| a == b).count();
    put_number(out, key.namespace().map_or(0, str::len) as u64);
    put_number(out, shared as u64);
    put_number(out, (text.len() - shared) as u64);
    out.extend_from_slice(&text[shared..]);
}

/// Reads a key after this key.
pub(crate) fn read_key(reader: &mut Reader<'_>, before: Option<&ObjectKey>) -> Result<ObjectKey, Unusable> {
    let malformed = Unusable::Damaged("a key is malformed");
    let before = before.map_or("", ObjectKey::as_str);
    let (namespace, shared) = (reader.number()?, reader.number()?);
    let shared = usize::try_from(shared).ok().and_then(|shared| before.as_bytes().get(..shared));
    let text = [shared.ok_or(malformed.clone())?, reader.bytes()?].concat();
    let text = as_text(&text)?;
    if namespace == 0 {
        return Ok(ObjectKey::new(None, text));
    }
    let (namespace, name) = usize::try_from(namespace)
        .ok()
        .and_then(|len| text.split_at_checked(len))
        .and_then(|(namespace, rest)| Some((namespace, rest.strip_prefix('/')?)))
        .ok_or(malformed)?;
    Ok(ObjectKey::new(Some(namespace), name))
}

/// Returns the number whose version is exactly this version.
pub(crate) fn as_number(version: &ResourceVersion) -> Option<u64> {
    let number: u64 = version.as_str().parse().ok()?;
    (ResourceVersion::from(number) == *version).then_some(number)
}

/// Reads a payload whose hash is correct. An error therefore means that another program wrote it.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Unusable> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Unusable::Damaged("a value is incomplete"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unusable> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Unusable> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Unusable> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn number(&mut self) -> Result<u64, Unusable> {
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
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Unusable> {
        let len = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Unusable> {
        as_text(self.bytes()?)
    }

    pub(crate) fn finish(&self) -> Result<(), Unusable> {
        if self.is_empty() { Ok(()) } else { Err(Unusable::Damaged("a frame is too long")) }
    }
}

fn as_text(bytes: &[u8]) -> Result<&str, Unusable> {
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
