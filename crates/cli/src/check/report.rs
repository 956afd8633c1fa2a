//! `Report`: the results of all checks.

use kube_operator::RbacRoles;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::{
    output::{Align, Table, printable},
    terminal::{Terminal, Tone},
};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// The informers work.
    Green,
    /// The informers work, but they need more time, memory or requests.
    Amber,
    /// The informers do not work.
    Red,
}

/// A check and its result.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// The facts that the server reported.
    detail: String,
    /// The instructions for the user. Empty for a green result.
    remedy: String,
}

impl Finding {
    /// Creates a result. `remedy` is empty only for a green result.
    pub(super) fn new(
        check: &'static str,
        verdict: Verdict,
        detail: String,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check, verdict, detail, remedy: remedy.into() }
    }

    /// Creates a green result.
    pub(super) fn green(check: &'static str, detail: String) -> Self {
        Self::new(check, Verdict::Green, detail, String::new())
    }

    /// Returns the verdict.
    #[cfg(test)]
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// The results of all checks.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    cluster: String,
    /// The account of the permissions, if it is not the current user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) account: Option<String>,
    verdict: Verdict,
    findings: Vec<Finding>,
    /// The objects that grant the missing permissions.
    #[serde(serialize_with = "roles_as_list")]
    pub(super) roles: Option<RbacRoles>,
}

/// Serializes roles as a `List`, which `kubectl apply` accepts.
fn roles_as_list<S: Serializer>(roles: &Option<RbacRoles>, serializer: S) -> Result<S::Ok, S::Error> {
    let list =
        roles.as_ref().map(|roles| json!({"apiVersion": "v1", "kind": "List", "items": roles.objects()}));
    list.serialize(serializer)
}

impl Report {
    /// Creates a report without results.
    pub(super) fn new(cluster: &str) -> Self {
        let cluster = cluster.to_owned();
        Self { cluster, account: None, verdict: Verdict::Green, findings: Vec::new(), roles: None }
    }

    /// Adds a result.
    pub(super) fn add(&mut self, finding: Finding) {
        self.verdict = self.verdict.max(finding.verdict);
        self.findings.push(finding);
    }

    /// Adds several results.
    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.add(finding));
    }

    /// Returns the worst result.
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Returns the report for people.
    pub(super) fn text(&self, terminal: Terminal) -> String {
        let mut table =
            Table::new([("RESULT", Align::Left), ("CHECK", Align::Left), ("DETAIL", Align::Left)]);
        for finding in &self.findings {
            table.row([name(finding.verdict), finding.check, &finding.detail]);
        }
        let mut lines = table.lines().into_iter();
        let mut text = String::new();
        if let Some(account) = &self.account {
            text.push_str(&format!(
                "The rows `permissions` apply to {}. The other rows apply to the current user.\n\n",
                printable(account)
            ));
        }
        text.push_str(&terminal.paint(Tone::Heading, &lines.next().unwrap_or_default()));
        text.push('\n');
        for (line, finding) in lines.zip(&self.findings) {
            let name = name(finding.verdict);
            let painted = terminal.paint(tone(finding.verdict), name);
            text.push_str(&line.replacen(name, &painted, 1));
            text.push('\n');
        }
        let mut printed = Vec::new();
        for finding in self.findings.iter().filter(|finding| !finding.remedy.is_empty()) {
            // Several resources can have the same problem.
            let remedy = format!("\n{}: {}\n", finding.check, finding.remedy);
            if !printed.contains(&remedy) {
                text.push_str(&remedy);
                printed.push(remedy);
            }
        }
        if let Some(roles) = &self.roles {
            text.push_str(
                "\n# The missing permissions. For only these objects, use -o jsonpath='{.roles}'\n",
            );
            text.push_str(&roles.to_string());
        }
        text
    }
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Green => "green",
        Verdict::Amber => "amber",
        Verdict::Red => "red",
    }
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Green => Tone::Good,
        Verdict::Amber => Tone::Warning,
        Verdict::Red => Tone::Bad,
    }
}
