//! The beginning of a header and the footer, which are equal in all files.

use kube_object::{DigestSeed, ResourceVersion};

use super::{Reader, Unusable, put_number, put_text};

/// The maximum number of texts of an identity. An empty text has one byte in a file, and much more in memory.
const MAX_TEXTS: u64 = 16;

/// The beginning of the header of a file.
pub(crate) struct HeaderStart {
    /// The texts of the identity.
    pub(crate) texts: Vec<String>,
    /// The number of the seed of the digests. `None` if the file has no seed, or if another version or
    /// platform computes other digests.
    pub(crate) seed: Option<u64>,
    pub(crate) version: ResourceVersion,
}

/// Returns the beginning of a header: the texts of an identity, the seed of the digests and its fingerprint,
/// and a resourceVersion.
pub(crate) fn header_start(
    texts: &[(&'static str, &str)],
    seed: Option<u64>,
    version: &ResourceVersion,
) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, texts.len() as u64);
    for (_, text) in texts {
        put_text(&mut out, text);
    }
    out.push(u8::from(seed.is_some()));
    if let Some(seed) = seed {
        out.extend_from_slice(&seed.to_le_bytes());
        out.extend_from_slice(&DigestSeed::new(seed).fingerprint().to_le_bytes());
    }
    put_text(&mut out, &version.as_str());
    out
}

pub(crate) fn read_header_start(reader: &mut Reader<'_>) -> Result<HeaderStart, Unusable> {
    let count = reader.number()?;
    if count > MAX_TEXTS {
        return Err(Unusable::Damaged("the identity has too many parts"));
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(reader.text()?.to_owned());
    }
    let seed = match reader.byte()? {
        0 => None,
        _ => {
            let (seed, fingerprint) = (reader.u64()?, reader.u64()?);
            Some(seed).filter(|seed| DigestSeed::new(*seed).fingerprint() == fingerprint)
        }
    };
    Ok(HeaderStart { texts, seed, version: ResourceVersion::new(reader.text()?) })
}

/// Returns a footer: the number of blocks and entries, and a hash of the file.
pub(crate) fn footer(blocks: u64, entries: u64, hash: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, blocks);
    put_number(&mut out, entries);
    out.extend_from_slice(&hash.to_le_bytes());
    out
}

/// Reads a footer, and returns its number of entries.
///
/// # Errors
/// Returns an error if the footer has another number of blocks or another hash.
pub(crate) fn read_footer(mut reader: Reader<'_>, blocks: u64, hash: u64) -> Result<u64, Unusable> {
    let (saved_blocks, entries) = (reader.number()?, reader.number()?);
    if saved_blocks != blocks {
        return Err(Unusable::OTHER_COUNTS);
    }
    if reader.u64()? != hash {
        return Err(Unusable::Damaged("the file has another checksum"));
    }
    reader.finish()?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_texts_is_limited() {
        let start = |count: usize| header_start(&vec![("text", ""); count], None, &7.into());
        assert_eq!(read_header_start(&mut Reader(&start(16))).unwrap().texts.len(), 16);
        let refused = read_header_start(&mut Reader(&start(17))).err();
        assert_eq!(refused, Some(Unusable::Damaged("the identity has too many parts")));
    }
}
