//! Who a Kubernetes object is, which version, how its bytes become a value; and the data the layers pass.
