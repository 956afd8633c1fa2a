//! A frame: a payload with its length and its hash.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::Unusable;

/// The number of bytes before the payload: tag, length, and the check of both.
pub(crate) const HEAD_BYTES: usize = 1 + 4 + 4;
/// The number of bytes after the payload.
pub(crate) const HASH_BYTES: usize = 8;

/// Returns a hash that is the same in all processes and versions. The hash detects damage. It
/// does not detect an attack.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Appends a frame.
pub(crate) fn put_frame(out: &mut Vec<u8>, tag: u8, payload: &[u8]) {
    let start = out.len();
    out.push(tag);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let check = hash(&out[start..]) as u32;
    out.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(payload);
    let hash = hash(&out[start..]);
    out.extend_from_slice(&hash.to_le_bytes());
}

/// Returns the tag and the length of the payload of a frame.
pub(crate) fn parse_head(head: &[u8; HEAD_BYTES]) -> Result<(u8, usize), Unusable> {
    let [tag, a, b, c, d, check @ ..] = *head;
    if hash(&head[..HEAD_BYTES - 4]) as u32 != u32::from_le_bytes(check) {
        return Err(Unusable::Damaged("the head of a frame has another checksum"));
    }
    Ok((tag, u32::from_le_bytes([a, b, c, d]) as usize))
}

/// Splits the first frame from `bytes`. Returns its tag and its payload. Returns [`Unusable::Truncated`] if
/// the bytes are a correct beginning of a frame. Does not change `bytes` in case of an error.
pub(crate) fn take_frame<'a>(bytes: &mut &'a [u8]) -> Result<(u8, &'a [u8]), Unusable> {
    let (tag, len) = parse_head(bytes.first_chunk().ok_or(Unusable::Truncated)?)?;
    let (hashed, rest) = bytes.split_at_checked(HEAD_BYTES.saturating_add(len)).ok_or(Unusable::Truncated)?;
    let (stored, rest) = rest.split_first_chunk::<HASH_BYTES>().ok_or(Unusable::Truncated)?;
    if hash(hashed) != u64::from_le_bytes(*stored) {
        return Err(Unusable::Damaged("a frame has another checksum"));
    }
    *bytes = rest;
    Ok((tag, &hashed[HEAD_BYTES..]))
}
