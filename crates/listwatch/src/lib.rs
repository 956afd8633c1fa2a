//! LIST and WATCH over kube-client: requests, frames, decoding and error classes, with no retries and no memory.
