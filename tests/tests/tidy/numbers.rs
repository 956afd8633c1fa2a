//! Tests say which of the twenty properties they guard: `/// Property 7` in front of a test. Each number has one.

use crate::workspace::{File, Violation};

/// How many properties there are; `tests/src/properties` lists them.
pub(crate) const PROPERTIES: u8 = 20;

/// The numbers that no test of these files names.
pub(crate) fn without_test<'a>(files: impl Iterator<Item = &'a File>) -> Vec<Violation> {
    let mut guarded = [false; PROPERTIES as usize + 1];
    let mut found = Vec::new();
    for file in files {
        for (line, number) in named(&file.text) {
            match guarded.get_mut(usize::from(number)).filter(|_| number > 0) {
                Some(guarded) => *guarded = true,
                None => found.push(file.violation(line, format!("there is no property {number}"))),
            }
        }
    }
    let list = File::new("tests/src/properties/mod.rs", "");
    let missing = (1..=PROPERTIES).filter(|number| !guarded[usize::from(*number)]);
    found.extend(missing.map(|number| {
        list.violation(
            1,
            format!("no test guards property {number}; write `/// Property {number}` above one"),
        )
    }));
    found
}

/// Line and number of each property that is named in the comment of a test.
fn named(text: &str) -> Vec<(usize, u8)> {
    let mut comment: Vec<(usize, u8)> = Vec::new();
    let mut found = Vec::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if let Some(words) = line.strip_prefix("///") {
            comment.extend(numbers(words).map(|number| (index + 1, number)));
        } else if line.starts_with("#[") && line.contains("test") {
            found.append(&mut comment);
        } else if !line.starts_with("#[") {
            comment.clear();
        }
    }
    found
}

/// The numbers after `Property`.
fn numbers(words: &str) -> impl Iterator<Item = u8> {
    words.split("Property ").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

#[test]
fn a_number_without_a_test_is_found_and_one_that_means_nothing_too() {
    let test = |number: u8| format!("/// Property {number}: x.\n#[test]\nfn f() {{}}\n");
    let all: String = (1..=PROPERTIES).map(test).collect();
    let missing = |text: &str| without_test([File::new("a.rs", text)].iter()).len();
    assert_eq!(missing(&all), 0);
    assert_eq!(missing(&all.replace("Property 7:", "As in 7")), 1);
    assert_eq!(missing(&format!("{all}{}", test(21))), 1);
    let no_test = "/// Property 1.\nfn f() {}\n#[test]\nfn g() {}\n";
    assert_eq!(named(no_test), []);
    assert_eq!(named("    /// Property 3, and Property 12.\n    #[tokio::test]\n"), [(1, 3), (1, 12)]);
}
