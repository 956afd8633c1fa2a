//! Lists, then watches from the returned resourceVersion, and relists when it must: a pure state machine and its driver.
