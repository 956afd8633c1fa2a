//! The flags that several commands share. Flags of kubectl have their names and meanings of kubectl.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};

use crate::{output::Format, selectors};

/// Selects the cluster and the user.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionFlags {
    /// Start a server with example data in this process, and use it instead of a cluster.
    #[arg(long, global = true, conflicts_with_all = ["kubeconfig", "context", "cluster", "user"])]
    pub(crate) demo: bool,
    /// Read this kubeconfig. The default is $KUBECONFIG, or ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) context: Option<String>,
    /// Use this cluster of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) cluster: Option<String>,
    /// Use this user of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) user: Option<String>,
    /// Impersonate this user, for example system:serviceaccount:shop:operator.
    // An API server ignores an empty name, so the requests would have the rights of the caller.
    #[arg(long = "as", global = true, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) as_user: Option<String>,
    /// Impersonate this group. The flag can be repeated.
    #[arg(long = "as-group", global = true, value_name = "GROUP", requires = "as_user",
          value_parser = NonEmptyStringValueParser::new())]
    pub(crate) as_groups: Vec<String>,
    /// Select when the output has colours.
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
}

impl ConnectionFlags {
    /// Returns the first flag that selects a server or a user.
    pub(crate) fn server_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--demo", self.demo),
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--context", self.context.is_some()),
            ("--cluster", self.cluster.is_some()),
            ("--user", self.user.is_some()),
            ("--as", self.as_user.is_some()),
        ];
        flags.into_iter().find_map(|(name, is_used)| is_used.then_some(name))
    }
}

/// Selects whether the output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// Colours on a terminal, if NO_COLOR is not set.
    #[default]
    Auto,
    /// Colours also in files and pipes.
    Always,
    /// No colours.
    Never,
}

/// Selects objects.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct SelectionFlags {
    /// Only objects of this namespace. The default is the namespace of the context.
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    #[arg(value_parser = selectors::namespace)]
    pub(crate) namespace: Option<String>,
    /// Objects of all namespaces.
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels, for example app=web,tier!=cache.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selectors::labels)]
    pub(crate) selector: Option<String>,
    /// Only objects with these fields, for example spec.nodeName=node-1.
    #[arg(long, value_name = "SELECTOR", value_parser = selectors::fields)]
    pub(crate) field_selector: Option<String>,
}

impl SelectionFlags {
    /// Returns the namespace to read. `None` selects all namespaces. `current` is the namespace of the
    /// context.
    pub(crate) fn namespace(&self, current: &str) -> Option<String> {
        if self.all_namespaces {
            return None;
        }
        Some(self.namespace.clone().unwrap_or_else(|| current.to_owned()))
    }
}

/// Selects the form of the output.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputFlags {
    /// Print a table (table), a table with more columns (wide), or one document (json, yaml,
    /// jsonpath=TEMPLATE).
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// Parses a duration, for `#[arg(value_parser = duration)]`: a number with the unit ms, s, m or h, for
/// example 90s.
///
/// # Errors
///
/// Fails if `text` is not a number with a unit, or the duration is longer than 10,000 hours.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let problem = || "use a number with a unit, for example 500ms, 30s, 5m or 1h".to_owned();
    let start = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(problem)?;
    let (number, unit) = text.split_at(start);
    let number: f64 = number.parse().map_err(|_| problem())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(problem()),
    };
    if !(0.0..=MAX_DURATION_SECONDS).contains(&seconds) {
        return Err("use a duration between 0s and 10000h".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

const MAX_DURATION_SECONDS: f64 = 10_000.0 * 3600.0;

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Selection {
        #[command(flatten)]
        flags: SelectionFlags,
    }

    #[test]
    fn empty_namespace_is_rejected() {
        let parsed = |namespace: &str| Selection::try_parse_from(["x", "-n", namespace]);
        assert!(parsed("").is_err());
        assert_eq!(
            parsed("shop").ok().and_then(|selection| selection.flags.namespace("a")).as_deref(),
            Some("shop")
        );
    }

    #[test]
    fn duration_needs_number_and_unit() {
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for invalid in ["", "5", "s", "-1s", "1d", "1e999s", "NaNs", "20000h"] {
            assert!(duration(invalid).is_err(), "{invalid}");
        }
    }
}
