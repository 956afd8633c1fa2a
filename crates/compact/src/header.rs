//! The numbers before the bytes of a stored object.

use kube_object::PersistError;

/// Appends three numbers.
pub(crate) fn put_header(out: &mut Vec<u8>, numbers: [u32; 3]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Splits three numbers from the bytes.
pub(crate) fn take_header(mut bytes: &[u8]) -> Result<([u32; 3], &[u8]), PersistError> {
    let mut numbers = [0; 3];
    for number in &mut numbers {
        let (taken, rest) = bytes.split_first_chunk().ok_or(PersistError::Malformed)?;
        *number = u32::from_le_bytes(*taken);
        bytes = rest;
    }
    Ok((numbers, bytes))
}
