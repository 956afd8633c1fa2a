//! Tests of the rate limiters: the numbers of each, and what forgetting does.

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn delays<T>(limiter: &impl RateLimiter<T>, key: &T, now: Instant, count: usize) -> Vec<Duration> {
    (0..count).map(|_| limiter.when(key, now)).collect()
}

#[test]
fn each_failure_of_a_key_doubles_its_delay_up_to_the_maximum() {
    let (limiter, now) = (ExponentialFailure::new(ms(1), ms(10)), Instant::now());
    assert_eq!(delays(&limiter, &"one", now, 6), [1, 2, 4, 8, 10, 10].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 6);
    assert_eq!(delays(&limiter, &"two", now, 2), [1, 2].map(ms), "keys do not share failures");
}

#[test]
fn a_forgotten_key_starts_at_the_shortest_delay() {
    let (limiter, now) = (ExponentialFailure::new(ms(1), ms(10)), Instant::now());
    delays(&limiter, &"one", now, 3);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one", now), ms(1));
}

#[test]
fn any_number_of_failures_stays_at_the_maximum() {
    let now = Instant::now();
    for (base, max) in [(ms(1), Duration::MAX), (Duration::from_secs(1 << 40), Duration::from_secs(u64::MAX))]
    {
        let limiter = ExponentialFailure::new(base, max);
        assert_eq!(delays(&limiter, &"one", now, 100).last(), Some(&max));
    }
    let zero = ExponentialFailure::new(Duration::ZERO, ms(10));
    assert_eq!(zero.when(&"one", now), Duration::ZERO);
}

#[test]
fn a_key_is_tried_fast_so_many_times_and_then_slowly_until_it_is_forgotten() {
    let (limiter, now) = (FastSlow::new(ms(5), ms(100), 2), Instant::now());
    assert_eq!(delays(&limiter, &"one", now, 4), [5, 5, 100, 100].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 4);
    limiter.forget(&"one");
    assert_eq!(limiter.when(&"one", now), ms(5));
}

#[test]
fn a_bucket_gives_its_burst_at_once_and_then_one_token_each_interval() {
    let (bucket, now) = (TokenBucket::new(ms(100), 3), Instant::now());
    assert_eq!(delays(&bucket, &"any", now, 6), [0, 0, 0, 100, 200, 300].map(ms));
    assert_eq!(RateLimiter::<&str>::num_requeues(&bucket, &"any"), 0);
}

#[test]
fn a_bucket_fills_with_time_and_never_beyond_its_burst() {
    let (bucket, now) = (TokenBucket::new(ms(100), 2), Instant::now());
    delays(&bucket, &"any", now, 2);
    assert_eq!(delays(&bucket, &"any", now + ms(150), 2), [0, 50].map(ms), "1.5 tokens came back");
    assert_eq!(delays(&bucket, &"any", now + ms(60_000), 3), [0, 0, 100].map(ms));
}

#[test]
fn an_empty_or_endless_bucket_neither_panics_nor_overflows() {
    let now = Instant::now();
    assert_eq!(delays(&TokenBucket::new(ms(100), 0), &"any", now, 2), [100, 200].map(ms));
    let endless = TokenBucket::new(Duration::MAX, u32::MAX);
    assert_eq!(endless.when(&"any", now), Duration::ZERO);
}

#[test]
fn the_longest_of_several_delays_counts_and_each_limiter_counts_the_failure() {
    let now = Instant::now();
    let limiter = MaxOf::new([
        Box::new(FastSlow::new(ms(5), ms(30), 2)) as Box<dyn RateLimiter<&str>>,
        Box::new(ExponentialFailure::new(ms(1), ms(1000))),
    ]);
    assert_eq!(delays(&limiter, &"one", now, 7), [5, 5, 30, 30, 30, 32, 64].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 7);
    limiter.forget(&"one");
    assert_eq!((limiter.num_requeues(&"one"), limiter.when(&"one", now)), (0, ms(5)));
}

#[test]
fn no_limiter_at_all_asks_for_no_delay() {
    let limiter = MaxOf::<&str>::new([]);
    assert_eq!(limiter.when(&"one", Instant::now()), Duration::ZERO);
    assert_eq!(limiter.num_requeues(&"one"), 0);
}

#[test]
fn the_default_has_the_numbers_of_client_go() {
    let (limiter, now) = (default_rate_limiter::<u32>(), Instant::now());
    assert_eq!(delays(&limiter, &0, now, 4), [5, 10, 20, 40].map(ms));
    for key in 1..=96 {
        assert_eq!(limiter.when(&key, now), ms(5), "within the burst only the key's own delay counts");
    }
    assert_eq!(limiter.when(&97, now), ms(100));
    assert_eq!(limiter.when(&98, now), ms(200));
    let later = now + Duration::from_secs(3600);
    assert_eq!(delays(&limiter, &0, later, 20).last(), Some(&Duration::from_secs(1000)));
}
