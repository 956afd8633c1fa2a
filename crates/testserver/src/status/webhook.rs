//! The statuses that webhooks return.

use serde::Deserialize;
use serde_json::Value;

use crate::status::{Details, Status};

impl Status {
    /// Creates the rejection of a webhook. The code, the reason and the details are those of its status.
    pub(crate) fn of_webhook(status: &Value, message: String) -> Self {
        let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let reason = status.get("reason").and_then(Value::as_str).unwrap_or_default();
        let mut created = Self::new(code.unwrap_or_default().max(400), reason, message);
        created.0.details = status.get("details").and_then(|details| Details::deserialize(details).ok());
        created
    }
}
