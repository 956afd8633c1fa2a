//! A frame: a payload with its length and its hash.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::Unusable;

/// The number of bytes before the payload: tag, length, and the check of both.
const HEAD: usize = 1 + 4 + 4;
const HASH: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Tag {
    Header = 1,
    Block = 2,
    Footer = 3,
    Told = 4,
}

/// Returns a hash that is the same in all processes and versions. The hash detects damage. It
/// does not detect an attack.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Appends a frame.
pub(super) fn put_frame(out: &mut Vec<u8>, tag: Tag, payload: &[u8]) {
    let start = out.len();
    out.push(tag as u8);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let check = hash(&out[start..]) as u32;
    out.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(payload);
    let hash = hash(&out[start..]);
    out.extend_from_slice(&hash.to_le_bytes());
}

/// Splits the first frame from `bytes`. Returns its tag and its payload. Returns [`Unusable::Truncated`] if
/// the bytes are a correct beginning of a frame. Does not change `bytes` in case of an error.
pub(super) fn take_frame<'a>(bytes: &mut &'a [u8]) -> Result<(Tag, &'a [u8]), Unusable> {
    let head = bytes.first_chunk::<HEAD>().ok_or(Unusable::Truncated)?;
    let [tag, a, b, c, d, check @ ..] = *head;
    if hash(&head[..HEAD - 4]) as u32 != u32::from_le_bytes(check) {
        return Err(Unusable::Damaged("the head of a frame has another checksum"));
    }
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let (hashed, rest) = bytes.split_at_checked(HEAD.saturating_add(len)).ok_or(Unusable::Truncated)?;
    let (stored, rest) = rest.split_first_chunk::<HASH>().ok_or(Unusable::Truncated)?;
    if hash(hashed) != u64::from_le_bytes(*stored) {
        return Err(Unusable::Damaged("a frame has another checksum"));
    }
    let tag = [Tag::Header, Tag::Block, Tag::Footer, Tag::Told].into_iter().find(|known| *known as u8 == tag);
    let tag = tag.ok_or(Unusable::Damaged("a frame has an unknown tag"))?;
    *bytes = rest;
    Ok((tag, &hashed[HEAD..]))
}
