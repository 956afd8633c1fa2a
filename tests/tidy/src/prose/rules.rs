//! The constructions to avoid. They are data: see `avoid.txt`.

use regex::{Regex, RegexBuilder};

/// Holds all constructions to avoid.
#[derive(Debug)]
pub struct Rules(Vec<Rule>);

/// Describes one construction to avoid.
#[derive(Debug)]
pub struct Rule {
    avoid: Regex,
    except: Option<Regex>,
    /// The reason why a reader stumbles over the construction.
    pub why: String,
    /// The words to use instead.
    pub write: String,
}

/// Reports one use of a construction.
#[derive(Debug)]
pub struct Match<'a> {
    /// The construction.
    pub rule: &'a Rule,
    /// The words that matched.
    pub words: String,
}

impl Rules {
    /// Returns the rules of this project.
    ///
    /// # Panics
    /// If `avoid.txt` is malformed. A test parses it.
    pub fn of_this_project() -> Self {
        Self::parse(include_str!("avoid.txt")).unwrap_or_else(|error| panic!("avoid.txt: {error}"))
    }

    /// Reads rules from paragraphs of `avoid:`, `except:`, `why:` and `write:` lines. A `#` starts a
    /// comment line.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
        let paragraphs = lines.split(|line| line.trim().is_empty()).filter(|paragraph| !paragraph.is_empty());
        Ok(Self(paragraphs.map(Rule::parse).collect::<anyhow::Result<_>>()?))
    }

    /// Finds the constructions that a sentence contains, each at most once.
    pub fn check(&self, sentence: &str) -> Vec<Match<'_>> {
        let sentence = sentence.trim_end_matches(['.', '!', ':', ';', ',', ' ']);
        self.0.iter().filter_map(|rule| rule.check(sentence)).collect()
    }
}

impl Rule {
    fn parse(lines: &[&str]) -> anyhow::Result<Self> {
        let field = |name: &str| {
            let value = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_owned())
        };
        let needed =
            |name: &str| field(name).ok_or_else(|| anyhow::anyhow!("{lines:?} has no `{name}:` line"));
        let regex = |pattern: String| RegexBuilder::new(&pattern).case_insensitive(true).build();
        Ok(Self {
            avoid: regex(needed("avoid")?)?,
            except: field("except").map(regex).transpose()?,
            why: needed("why")?,
            write: needed("write")?,
        })
    }

    fn check(&self, sentence: &str) -> Option<Match<'_>> {
        let rest = match &self.except {
            Some(except) => except.replace_all(sentence, "~"),
            None => sentence.into(),
        };
        self.avoid.find(&rest).map(|found| Match { rule: self, words: found.as_str().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# a comment\navoid:  \\bwhat\\b\nexcept: \\bwhat to do\\b\nwhy:    a clause\nwrite:  a noun\n\n\
                         avoid: ^of\\b\nwhy: first\nwrite: last\n";

    #[test]
    fn construction_is_found_and_its_exception_is_not() {
        let rules = Rules::parse(RULES).unwrap();
        let found = |sentence| rules.check(sentence).into_iter().map(|found| found.words).collect::<Vec<_>>();
        assert_eq!(found("Of a WHAT."), ["WHAT", "Of"]);
        assert_eq!(found("An error states what to do."), [""; 0]);
    }

    #[test]
    fn rule_without_a_replacement_is_an_error() {
        let error = Rules::parse("avoid: x\nwhy: y\n").unwrap_err().to_string();
        assert!(error.contains("has no `write:` line"), "{error}");
    }

    #[test]
    fn rules_of_this_project_are_well_formed() {
        assert!(Rules::of_this_project().0.len() > 30);
    }
}
