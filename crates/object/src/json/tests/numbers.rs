//! Tests the numbers at the limits of their types.

use proptest::prelude::*;

use super::{check_same, check_same_value, difference, nearly_equal};
use crate::json::from_str;

fn check_each_type(text: &str) {
    check_same::<u8>(text);
    check_same::<i8>(text);
    check_same::<u16>(text);
    check_same::<i16>(text);
    check_same::<u32>(text);
    check_same::<i32>(text);
    check_same::<u64>(text);
    check_same::<i64>(text);
    check_same::<u128>(text);
    check_same::<i128>(text);
    check_same_value(text);
    difference::<f64>(text, |expected, actual| nearly_equal(*expected, *actual)).unwrap();
    // This crate rejects a number that is too large for `f32`. serde_json returns infinity,
    // depending on its features.
    if from_str::<f64>(text).is_ok_and(|number| number.abs() > f32::MAX.into()) {
        return assert!(from_str::<f32>(text).is_err(), "{text}");
    }
    difference::<f32>(text, |expected, actual| {
        (expected - actual).abs() <= actual.abs() * 1e-6 || expected == actual
    })
    .unwrap();
}

#[test]
fn integer_limits_match_serde_json() {
    let limits = [
        i128::from(i8::MIN),
        i128::from(u8::MAX),
        i128::from(i16::MIN),
        i128::from(u16::MAX),
        i128::from(i32::MIN),
        i128::from(i32::MAX),
        i128::from(u32::MAX),
        i128::from(i64::MIN),
        i128::from(i64::MAX),
        i128::from(u64::MAX),
        i128::MAX - 1,
        i128::MIN + 1,
        0,
    ];
    for number in limits.into_iter().flat_map(|limit| [limit - 1, limit, limit + 1]) {
        check_each_type(&number.to_string());
        check_each_type(&format!(" {number} "));
    }
    check_each_type(&u128::MAX.to_string());
    check_each_type("340282366920938463463374607431768211456");
    check_each_type("-170141183460469231731687303715884105729");
}

#[test]
fn invalid_numbers_are_rejected_like_serde_json() {
    for text in [
        "",
        "-",
        "+1",
        "01",
        "-01",
        "00",
        "1.",
        "1.e5",
        ".5",
        "1e",
        "1e+",
        "1E-",
        "1e5.",
        "- 1",
        "1 2",
        "0x1",
        "1_0",
        "NaN",
        "-Infinity",
        "1e999",
        "-1e999",
        "1e99999999999999999999",
        "0e99999999999999999999",
        "1e-99999999999999999999",
        "0.0",
        "-0",
        "-0.0",
        "-0e1",
        "1.5",
        "1.5e3",
        "1e3",
        "1E+3",
        "10e-1",
        "123456789012345678901234567890",
        "-123456789012345678901234567890",
        "1.",
        "\"1\"",
        "null",
        "true",
        "[1]",
        "{\"1\":1}",
    ] {
        check_each_type(text);
    }
}

#[test]
fn skipped_numbers_are_validated() {
    for text in ["1", "-1.5e-7", "1e999", "01", "1.", "-", "1e", "+1", "00", "-a", "1.5e+"] {
        check_same::<serde::de::IgnoredAny>(text);
        check_same::<Vec<serde::de::IgnoredAny>>(&format!("[{text},1]"));
    }
}

#[test]
fn floats_are_rounded_once_to_nearest() {
    // In `f64`, this number is the middle between two `f32` numbers. Exactly, it is above the
    // middle.
    let text = "16777217.0000000001";
    assert_eq!(from_str::<f32>(text).unwrap(), 16777218.0);
    assert_eq!(from_str::<f64>("9007199254740993.0000000000001").unwrap(), 9007199254740994.0);
    assert_eq!(from_str::<f64>("2.2250738585072011e-308").unwrap(), 2.225073858507201e-308);
    assert!(from_str::<f64>("-0").unwrap().is_sign_negative());
    assert!(from_str::<f32>("1e39").is_err());
}

proptest! {
    #[test]
    fn any_float_round_trips(bits in any::<u64>(), single in any::<u32>()) {
        let (double, single) = (f64::from_bits(bits), f32::from_bits(single));
        prop_assume!(double.is_finite() && single.is_finite());
        for text in [format!("{double:?}"), format!("{double}"), format!("{double:e}")] {
            prop_assert_eq!(from_str::<f64>(&text).unwrap(), double);
        }
        prop_assert_eq!(from_str::<f32>(&format!("{single:?}")).unwrap(), single);
    }

    #[test]
    fn any_number_matches_serde_json(text in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?") {
        check_each_type(&text);
    }

    #[test]
    fn malformed_numbers_match_serde_json(text in "[-+0-9.eE]{0,12}") {
        check_each_type(&text);
    }
}
