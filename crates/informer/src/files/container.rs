//! The container of recordings and other files: the first bytes, a version, and frames with checksums.

use std::io::{self, Write};

use super::{Reader, Unusable, put_frame, take_frame};

/// Describes a kind of file: the first bytes of each file of this kind, and the version of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFormat {
    /// The name of the kind in errors, for example `recording`. An error contains "it is not a recording".
    pub name: &'static str,
    /// The first bytes of each file of this kind.
    pub magic: [u8; 8],
    /// The version of the contents. A [`FrameReader`] accepts only files with the same version.
    pub version: u32,
}

/// Writes a file that consists of frames. A frame has a tag, a length, a payload and checksums. Checkpoints
/// and snapshots consist of the same frames.
///
/// The file is complete only if the program writes all frames. [`FrameReader`] does not detect a missing last
/// frame, so write a frame that marks the end.
///
/// ```
/// use kube_informer::{FrameError, FrameFormat, FrameReader, FrameWriter};
///
/// const NOTES: FrameFormat = FrameFormat { name: "notebook", magic: *b"NOTEBOOK", version: 1 };
///
/// let mut writer = FrameWriter::new(Vec::new(), NOTES).unwrap();
/// writer.write(7, b"an event").unwrap();
/// let file = writer.into_inner();
/// let frames: Vec<_> = FrameReader::new(&file, NOTES).unwrap().collect();
/// assert_eq!(frames, [Ok((7, &b"an event"[..]))]);
/// let error = FrameReader::new(&file, FrameFormat { version: 2, ..NOTES }).err();
/// assert_eq!(error, Some(FrameError::FormatVersion { found: 1, supported: 2 }));
/// let error = FrameReader::new(b"other text", NOTES).err();
/// assert_eq!(error, Some(FrameError::Magic("notebook")));
/// ```
#[derive(Debug)]
pub struct FrameWriter<W> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> FrameWriter<W> {
    /// Writes the first bytes and the version of the format.
    ///
    /// # Errors
    /// Returns the error of the write.
    pub fn new(mut out: W, format: FrameFormat) -> io::Result<Self> {
        out.write_all(&format.magic)?;
        out.write_all(&format.version.to_le_bytes())?;
        Ok(Self { out, buffer: Vec::new() })
    }

    /// Writes a frame, and returns the number of written bytes. `tag` identifies the kind of the payload. The
    /// program selects the values of its tags. The payload must be smaller than 4 GiB.
    ///
    /// # Errors
    /// Returns the error of the write, or [`io::ErrorKind::InvalidInput`] if the payload is too large.
    pub fn write(&mut self, tag: u8, payload: &[u8]) -> io::Result<usize> {
        if u32::try_from(payload.len()).is_err() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "cannot write a frame with 4 GiB or more",
            ));
        }
        self.buffer.clear();
        put_frame(&mut self.buffer, tag, payload);
        self.out.write_all(&self.buffer)?;
        Ok(self.buffer.len())
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Returns the error of the flush.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns the output, without a flush.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Reads the tags and payloads of the frames of a file. After an error, the iterator returns no further
/// frames.
///
/// A program that is killed can leave a partial last frame, which is an error of the kind
/// [`FrameError::Truncated`](crate::FrameError::Truncated).
#[derive(Debug, Clone)]
pub struct FrameReader<'a>(&'a [u8]);

impl<'a> FrameReader<'a> {
    /// Checks the start of a file.
    ///
    /// # Errors
    /// Returns [`FrameError::Magic`](crate::FrameError::Magic) if the file is of another kind, and
    /// [`FrameError::FormatVersion`](crate::FrameError::FormatVersion) if it has another version.
    pub fn new(file: &'a [u8], format: FrameFormat) -> Result<Self, Unusable> {
        let mut reader = Reader(file);
        if reader.array() != Ok(format.magic) {
            return Err(Unusable::Magic(format.name));
        }
        match u32::from_le_bytes(reader.array().map_err(|_| Unusable::Truncated)?) {
            found if found == format.version => Ok(Self(reader.0)),
            found => Err(Unusable::FormatVersion { found, supported: format.version }),
        }
    }
}

impl<'a> Iterator for FrameReader<'a> {
    type Item = Result<(u8, &'a [u8]), Unusable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let frame = take_frame(&mut self.0);
        if frame.is_err() {
            self.0 = &[];
        }
        Some(frame)
    }
}
