//! Checks that each of the twenty properties has a test. A comment of a test contains the numbers: `///
//! Property 7`, or `/// Properties 7, 8 and 9`.

use crate::workspace::{File, TESTS, Violation};

/// The number of properties.
const PROPERTIES: u8 = 20;
/// The folder of the checkers. The tests of the checkers contain each number, but they do not test the
/// library.
const CHECKERS: &str = "tests/verification/properties/";

/// Reports the numbers without a test in these files.
pub(crate) fn without_test<'a>(files: impl Iterator<Item = &'a File>) -> Vec<Violation> {
    let mut guarded = [false; PROPERTIES as usize + 1];
    let mut found = Vec::new();
    for file in files.filter(|file| !file.path.starts_with(CHECKERS)) {
        for (line, number) in named(&file.text) {
            match guarded.get_mut(usize::from(number)).filter(|_| number > 0) {
                Some(guarded) => *guarded = true,
                None => found.push(file.violation(line, format!("property {number} does not exist"))),
            }
        }
    }
    let list = File::new(format!("{CHECKERS}mod.rs"), "");
    let missing = (1..=PROPERTIES).filter(|number| !guarded[usize::from(*number)]);
    found.extend(missing.map(|number| {
        list.violation(
            1,
            format!("property {number} has no test; write `/// Property {number}` above its test"),
        )
    }));
    found
}

/// Returns line and number of each property in the comment of a test.
fn named(text: &str) -> Vec<(usize, u8)> {
    let mut comment: Vec<(usize, u8)> = Vec::new();
    let mut found = Vec::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if let Some(words) = line.strip_prefix("///") {
            comment.extend(numbers(words).into_iter().map(|number| (index + 1, number)));
        } else if TESTS.iter().any(|attribute| line.starts_with(attribute)) {
            found.append(&mut comment);
        } else if !line.starts_with("#[") {
            comment.clear();
        }
    }
    found
}

/// Returns the numbers after each `Property` and `Properties`, also in lower case.
fn numbers(words: &str) -> Vec<u8> {
    let words = words.to_lowercase();
    let after = words.split("propert").skip(1);
    after
        .flat_map(|rest| match (rest.strip_prefix("y "), rest.strip_prefix("ies ")) {
            (Some(one), _) => number(one).map(|(number, _)| number).into_iter().collect(),
            (_, Some(several)) => enumerated(several),
            _ => Vec::new(),
        })
        .collect()
}

/// Returns the numbers of `3, 4 and 7`.
fn enumerated(mut words: &str) -> Vec<u8> {
    let mut found = Vec::new();
    while let Some((number, rest)) = number(words) {
        found.push(number);
        words = rest.strip_prefix(", ").or_else(|| rest.strip_prefix(" and ")).unwrap_or_default();
    }
    found
}

/// Returns the number at the start of `words`, and the remaining text.
fn number(words: &str) -> Option<(u8, &str)> {
    let end = words.find(|c: char| !c.is_ascii_digit()).unwrap_or(words.len());
    Some((words[..end].parse().ok()?, &words[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        without_test([File::new(path, text)].iter()).len()
    }

    #[test]
    fn missing_and_unknown_numbers_are_reported() {
        let test = |number: u8| format!("/// Property {number}: x.\n#[test]\nfn f() {{}}\n");
        let all: String = (1..=PROPERTIES).map(test).collect();
        assert_eq!(problems("a.rs", &all), 0);
        assert_eq!(problems("a.rs", &all.replace("Property 7:", "As in 7")), 1);
        assert_eq!(problems("a.rs", &format!("{all}{}", test(21))), 1);
        let of_checkers = problems("tests/verification/properties/src/tests.rs", &all);
        assert_eq!(of_checkers, usize::from(PROPERTIES), "the tests of a checker do not count");
    }

    #[test]
    fn only_comments_of_tests_count() {
        for line in ["fn f() {}\n#[test]", "#[cfg(test)]", "#[derive(Debug)]\nstruct Test;"] {
            assert_eq!(named(&format!("/// Property 1.\n{line}\n")), [], "{line}");
        }
        assert_eq!(named("//! Property 1.\n#[test]\nfn f() {}\n"), []);
        assert_eq!(named("/// Property 1.\n#[cfg(unix)]\n#[test]\nfn f() {}\n"), [(1, 1)]);
    }

    #[test]
    fn comment_may_contain_several_numbers() {
        for (words, numbers) in [
            ("Property 3, and Property 12.", vec![3, 12]),
            ("Property 19: 1 of 3.", vec![19]),
            ("Tests properties 2 and 13.", vec![2, 13]),
            ("As the Properties 3, 4, 7 and 18, for 5 keys.", vec![3, 4, 7, 18]),
            ("Properties 5, as of 1996", vec![5]),
            ("Properties of 5, a Property of 6.", vec![]),
        ] {
            let expected: Vec<_> = numbers.into_iter().map(|number| (1, number)).collect();
            assert_eq!(named(&format!("    /// {words}\n    #[tokio::test]\n")), expected, "{words}");
        }
    }
}
