//! Reads a checkpoint.

use kube_object::{Digest, ObjectKey, ResourceVersion, Uid};

use super::{
    Decoded, FORMAT_VERSION, Finished, Header, Identity, Known, MAGIC, MAX_BLOCK, Unusable,
    encode::{DIGEST, FINISHED, NUMBER, UNFINISHED, UUID},
    tag,
};
use crate::files::{HeaderStart, Reader, hash, read_footer, read_header_start, read_key, take_frame};

/// Reads a file.
///
/// # Errors
/// Returns an error if the file differs from the output of [`encode`](super::encode) and
/// [`encode_told`](super::encode_told). The reader ignores a partial last frame of the journal.
pub(crate) fn decode(file: &[u8]) -> Result<Decoded, Unusable> {
    let mut rest = file;
    check_start(&mut rest)?;
    let (tag::HEADER, payload) = take_frame(&mut rest)? else {
        return Err(Unusable::Damaged("the header is missing"));
    };
    let header = read_header(Reader(payload))?;
    let (mut entries, mut blocks) = (Vec::new(), 0);
    loop {
        let before = file.len() - rest.len();
        match take_frame(&mut rest)? {
            (tag::BLOCK, payload) if payload.len() <= MAX_BLOCK => read_block(Reader(payload), &mut entries)?,
            (tag::FOOTER, payload) => {
                let saved = read_footer(Reader(payload), blocks, hash(&file[..before]))?;
                if saved != entries.len() as u64 {
                    return Err(Unusable::OTHER_COUNTS);
                }
                break;
            }
            _ => return Err(Unusable::Damaged("a frame has an unexpected tag")),
        }
        blocks += 1;
    }
    let mut told = Vec::new();
    loop {
        match take_frame(&mut rest) {
            Ok((tag::TOLD, payload)) => read_told(Reader(payload), &mut told)?,
            Ok(_) => return Err(Unusable::Damaged("a frame has an unexpected tag")),
            Err(Unusable::Truncated) => break,
            Err(damaged) => return Err(damaged),
        }
    }
    Ok(Decoded { header, entries, told, valid_len: (file.len() - rest.len()) as u64 })
}

fn check_start(rest: &mut &[u8]) -> Result<(), Unusable> {
    let mut reader = Reader(rest);
    let magic = reader.array().map_err(|_| Unusable::Truncated)?;
    if magic != MAGIC {
        return Err(Unusable::Magic("checkpoint"));
    }
    let version = u32::from_le_bytes(reader.array().map_err(|_| Unusable::Truncated)?);
    if version != FORMAT_VERSION {
        return Err(Unusable::FormatVersion { found: version, supported: FORMAT_VERSION });
    }
    *rest = reader.0;
    Ok(())
}

fn read_header(mut reader: Reader<'_>) -> Result<Header, Unusable> {
    let HeaderStart { texts, seed, version } = read_header_start(&mut reader)?;
    let identity = Identity::from_texts(texts).ok_or(Unusable::Damaged("the identity is incomplete"))?;
    reader.finish()?;
    Ok(Header { identity, seed, version })
}

pub(super) fn read_block(
    mut reader: Reader<'_>,
    entries: &mut Vec<(ObjectKey, Known)>,
) -> Result<(), Unusable> {
    let first = entries.len();
    while !reader.is_empty() {
        let before = entries.last().map(|(key, _)| key);
        let shared = before.filter(|_| entries.len() > first);
        let (key, known) = read_entry(&mut reader, shared)?;
        if before.is_some_and(|before| *before >= key) {
            return Err(Unusable::Damaged("the keys have another order"));
        }
        entries.push((key, known));
    }
    Ok(())
}

fn read_told(mut reader: Reader<'_>, told: &mut Vec<(ObjectKey, Uid)>) -> Result<(), Unusable> {
    while !reader.is_empty() {
        let (key, known) = read_entry(&mut reader, None)?;
        told.push((key, known.uid));
    }
    Ok(())
}

fn read_entry(reader: &mut Reader<'_>, before: Option<&ObjectKey>) -> Result<(ObjectKey, Known), Unusable> {
    let key = read_key(reader, before)?;
    let flags = reader.byte()?;
    let is_set = |flag| flags & flag != 0;
    let uid = if is_set(UUID) { Uid::from(reader.array::<16>()?) } else { Uid::new(reader.text()?) };
    if !is_set(FINISHED) {
        return Ok((key, Known::told(uid)));
    }
    let version = match is_set(NUMBER) {
        true => ResourceVersion::from(reader.number()?),
        false => ResourceVersion::new(reader.text()?),
    };
    let digest = if is_set(DIGEST) { Some(Digest::new(reader.u64()?)) } else { None };
    let finished = Some(Finished { version, digest });
    Ok((key, Known { uid, finished, is_unfinished: is_set(UNFINISHED), is_in_journal: false }))
}
