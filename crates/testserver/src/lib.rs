//! A Kubernetes API server in memory: in-process and on TCP, for tests, examples and programs without a cluster.
