//! A deduplicating work queue with delays, per-item backoff and graceful shutdown; knows nothing of Kubernetes.
