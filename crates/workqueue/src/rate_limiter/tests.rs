//! Tests of the rate limiters: the delays of each, and the effect of `forget`.

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn delays<T>(limiter: &impl RateLimiter<T>, key: &T, now: Instant, count: usize) -> Vec<Duration> {
    (0..count).map(|_| limiter.when(key, now)).collect()
}

#[test]
fn each_failure_doubles_delay_of_its_key_up_to_maximum() {
    let (limiter, now) = (ItemExponentialFailureRateLimiter::new(ms(1), ms(10)), Instant::now());
    assert_eq!(delays(&limiter, &"one", now, 6), [1, 2, 4, 8, 10, 10].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 6);
    assert_eq!(delays(&limiter, &"two", now, 2), [1, 2].map(ms), "keys do not share failures");
}

#[test]
fn forgotten_key_restarts_at_shortest_delay() {
    let (limiter, now) = (ItemExponentialFailureRateLimiter::new(ms(1), ms(10)), Instant::now());
    delays(&limiter, &"one", now, 3);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one", now), ms(1));
}

#[test]
fn many_failures_stay_at_maximum_delay() {
    let now = Instant::now();
    for (base, max) in [(ms(1), Duration::MAX), (Duration::from_secs(1 << 40), Duration::from_secs(u64::MAX))]
    {
        let limiter = ItemExponentialFailureRateLimiter::new(base, max);
        assert_eq!(delays(&limiter, &"one", now, 100).last(), Some(&max));
    }
    let zero = ItemExponentialFailureRateLimiter::new(Duration::ZERO, ms(10));
    assert_eq!(zero.when(&"one", now), Duration::ZERO);
}

#[test]
fn fast_slow_uses_slow_delay_after_fast_attempts() {
    let (limiter, now) = (ItemFastSlowRateLimiter::new(ms(5), ms(100), 2), Instant::now());
    assert_eq!(delays(&limiter, &"one", now, 4), [5, 5, 100, 100].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 4);
    limiter.forget(&"one");
    assert_eq!(limiter.when(&"one", now), ms(5));
}

#[test]
fn bucket_delays_by_interval_after_burst() {
    let (bucket, now) = (BucketRateLimiter::new(ms(100), 3), Instant::now());
    assert_eq!(delays(&bucket, &"any", now, 6), [0, 0, 0, 100, 200, 300].map(ms));
    assert_eq!(RateLimiter::<&str>::num_requeues(&bucket, &"any"), 0);
}

#[test]
fn bucket_refills_up_to_burst() {
    let (bucket, now) = (BucketRateLimiter::new(ms(100), 2), Instant::now());
    delays(&bucket, &"any", now, 2);
    assert_eq!(delays(&bucket, &"any", now + ms(150), 2), [0, 50].map(ms), "1.5 tokens were refilled");
    assert_eq!(delays(&bucket, &"any", now + ms(60_000), 3), [0, 0, 100].map(ms));
}

#[test]
fn empty_or_endless_bucket_does_not_overflow() {
    let now = Instant::now();
    assert_eq!(delays(&BucketRateLimiter::new(ms(100), 0), &"any", now, 2), [100, 200].map(ms));
    let endless = BucketRateLimiter::new(Duration::MAX, u32::MAX);
    assert_eq!(endless.when(&"any", now), Duration::ZERO);
}

#[test]
fn max_of_returns_longest_delay_and_counts_in_each_limiter() {
    let now = Instant::now();
    let limiter = MaxOfRateLimiter::new([
        Box::new(ItemFastSlowRateLimiter::new(ms(5), ms(30), 2)) as Box<dyn RateLimiter<&str>>,
        Box::new(ItemExponentialFailureRateLimiter::new(ms(1), ms(1000))),
    ]);
    assert_eq!(delays(&limiter, &"one", now, 7), [5, 5, 30, 30, 30, 32, 64].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 7);
    limiter.forget(&"one");
    assert_eq!((limiter.num_requeues(&"one"), limiter.when(&"one", now)), (0, ms(5)));
}

#[test]
fn max_of_no_limiters_returns_zero_delay() {
    let limiter = MaxOfRateLimiter::<&str>::new([]);
    assert_eq!(limiter.when(&"one", Instant::now()), Duration::ZERO);
    assert_eq!(limiter.num_requeues(&"one"), 0);
}

#[test]
fn default_rate_limiter_has_delays_of_client_go() {
    let (limiter, now) = (default_rate_limiter::<u32>(), Instant::now());
    assert_eq!(delays(&limiter, &0, now, 4), [5, 10, 20, 40].map(ms));
    for key in 1..=96 {
        assert_eq!(limiter.when(&key, now), ms(5), "within the burst, only the delay of the key applies");
    }
    assert_eq!(limiter.when(&97, now), ms(100));
    assert_eq!(limiter.when(&98, now), ms(200));
    let later = now + Duration::from_secs(3600);
    assert_eq!(delays(&limiter, &0, later, 20).last(), Some(&Duration::from_secs(1000)));
}
