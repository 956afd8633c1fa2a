//! The examples of the documentation equal the output of the demo, except for numbers.

use std::path::Path;

use super::*;

/// The maximum number of runs of one example. The last reconcile depends on the times of the retries.
const MAX_RUNS: usize = 20;

/// Returns the words of a text. Numbers, durations and addresses become placeholders.
fn words(text: &str) -> Vec<&str> {
    let is_number =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'/'));
    let word = |word| match word {
        "ms" | "s" => "UNIT",
        word if word.starts_with("http://127.0.0.1:") => "URL",
        word if is_number(word) => "NUMBER",
        word => word,
    };
    text.split_whitespace().map(word).collect()
}

#[tokio::test]
async fn examples_equal_the_output_of_the_demo() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubectl-informer-check.md");
    let page = std::fs::read_to_string(path)?;
    let blocks = page.split("```").filter_map(|block| block.strip_prefix("text\n$ kubectl informer "));
    let mut count = 0;
    for block in blocks {
        let (command, expected) = block.split_once('\n').context("the example has no output")?;
        let arguments: Vec<_> = command.split(' ').collect();
        let mut output = run(None, &arguments).await?;
        for _ in 1..MAX_RUNS {
            if words(&output.out) == words(expected) {
                break;
            }
            output = run(None, &arguments).await?;
        }
        assert_eq!(words(&output.out), words(expected), "{command}: {}", output.out);
        count += 1;
    }
    assert_eq!(count, 3);
    Ok(())
}
