//! Skips values. A skipped value is validated at any depth, and not decoded.

use super::{deserializer::Deserializer, error::Fault, scan};

impl<'de> Deserializer<'de> {
    /// Consumes the next value and returns its text.
    pub(super) fn raw(&mut self) -> Result<&'de str, Fault> {
        self.token();
        let start = self.at;
        self.skip()?;
        self.text.get(start..self.at).ok_or(Fault::Syntax)
    }

    /// Consumes the next value.
    pub(super) fn skip(&mut self) -> Result<(), Fault> {
        // The closing bracket of each open bracket.
        let mut open = Vec::new();
        loop {
            match self.value()? {
                b'"' => self.skip_string()?,
                b'{' => {
                    self.at += 1;
                    if self.token() != Some(b'}') {
                        open.push(b'}');
                        self.skip_name()?;
                        continue;
                    }
                    self.at += 1;
                }
                b'[' => {
                    self.counts.skip(self.at);
                    self.at += 1;
                    if self.token() != Some(b']') {
                        open.push(b']');
                        continue;
                    }
                    self.at += 1;
                }
                b'-' | b'0'..=b'9' => self.skip_number()?,
                b'n' => self.literal("null")?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                _ => return Err(Fault::Syntax),
            }
            if self.skip_ends(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Consumes closing brackets and a comma after a value. Returns true if no bracket is open.
    fn skip_ends(&mut self, open: &mut Vec<u8>) -> Result<bool, Fault> {
        while let Some(&close) = open.last() {
            let token = self.value()?;
            self.at += 1;
            match token {
                b',' if close == b'}' => return self.skip_name().map(|()| false),
                b',' => return Ok(false),
                _ if token == close => {
                    open.pop();
                }
                _ => return Err(Fault::Syntax),
            }
        }
        Ok(true)
    }

    /// Consumes the name of a field and its colon.
    fn skip_name(&mut self) -> Result<(), Fault> {
        match self.value()? {
            b'"' => self.skip_string()?,
            _ => return Err(Fault::Syntax),
        }
        self.expect(b':')
    }

    /// Consumes a string. The next byte is its opening quotation mark. Does not check for lone
    /// surrogates.
    fn skip_string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            self.at = scan::special(self.bytes(), self.at);
            match self.byte().ok_or(Fault::Truncated)? {
                b'"' => break,
                b'\\' => {
                    self.at += 1;
                    if self.simple_escape()?.is_none() {
                        self.four_digits()?;
                    }
                }
                _ => return Err(Fault::Syntax),
            }
        }
        self.at += 1;
        Ok(())
    }
}
