//! The queue between reflector and store: deltas in arrival order, bounded, in batches with distinct keys.
