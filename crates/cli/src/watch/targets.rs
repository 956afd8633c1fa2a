//! The targets of a command line: resources and names of objects.

use crate::{
    error::CliError,
    feed::Target,
    flags::SelectionFlags,
    resources::{Catalog, ServerResource},
};

/// Returns the targets for arguments such as `pods,deploy`, `pods web-0 web-1`, or `deploy/web svc/web`.
///
/// # Errors
///
/// Fails if the server has no such resource, cannot watch it, or if the arguments contradict each other.
pub(crate) fn targets(
    catalog: &Catalog,
    arguments: &[String],
    selection: &SelectionFlags,
    current: &str,
) -> Result<Vec<Target>, CliError> {
    let namespace = selection.namespace(current);
    let mut targets: Vec<Target> = Vec::new();
    for (resources, name) in objects(arguments)? {
        if name == Some("") {
            return Err(CliError::Usage(
                "the name of an object is empty; use for example pods/web-0".to_owned(),
            ));
        }
        for resource in catalog.select(&[resources.to_owned()])? {
            check_watchable(resource)?;
            let mut target = Target::new(resource, namespace.as_deref());
            target.labels.clone_from(&selection.selector);
            target.fields = fields(selection.field_selector.as_deref(), name);
            // `pods/a po/a` selects one object.
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    if targets.is_empty() {
        return Err(CliError::no_resource());
    }
    if selection.all_namespaces && arguments.iter().any(|argument| argument.contains('/')) {
        let problem =
            "TYPE/NAME selects an object of one namespace; use --namespace instead of --all-namespaces";
        return Err(CliError::Usage(problem.to_owned()));
    }
    Ok(targets)
}

/// Splits the arguments into resources and names.
fn objects(arguments: &[String]) -> Result<Vec<(&str, Option<&str>)>, CliError> {
    let pairs: Vec<_> = arguments.iter().filter_map(|argument| argument.split_once('/')).collect();
    if pairs.len() == arguments.len() {
        return Ok(pairs.into_iter().map(|(resource, name)| (resource, Some(name))).collect());
    }
    if !pairs.is_empty() {
        let problem =
            "the arguments mix TYPE/NAME with other forms; use TYPE/NAME for all objects, or RESOURCE NAME";
        return Err(CliError::Usage(problem.to_owned()));
    }
    Ok(match arguments {
        [] => Vec::new(),
        [resources] => vec![(resources, None)],
        [resources, names @ ..] => {
            names.iter().map(|name| (resources.as_str(), Some(name.as_str()))).collect()
        }
    })
}

fn fields(selector: Option<&str>, name: Option<&str>) -> Option<String> {
    let name = name.map(|name| format!("metadata.name={name}"));
    match (selector, name) {
        (Some(selector), Some(name)) => Some(format!("{selector},{name}")),
        (selector, name) => selector.map(str::to_owned).or(name),
    }
}

fn check_watchable(resource: &ServerResource) -> Result<(), CliError> {
    if resource.is_watchable() {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "{} cannot be watched; `kubectl api-resources --verbs=list,watch` lists the other resources",
        resource.name()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_name_is_rejected() {
        for arguments in [&["pods/"][..], &["pods", ""]] {
            let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            let error =
                targets(&Catalog::default(), &arguments, &SelectionFlags::default(), "a").unwrap_err();
            assert!(error.to_string().contains("name of an object is empty"), "{error}");
        }
    }

    fn parsed(arguments: &[&str]) -> Option<Vec<(String, Option<String>)>> {
        let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let objects = objects(&arguments).ok()?;
        let owned = |(resource, name): (&str, Option<&str>)| (resource.to_owned(), name.map(str::to_owned));
        Some(objects.into_iter().map(owned).collect())
    }

    #[test]
    fn names_follow_resources_or_slashes() {
        let pair = |resource: &str, name: Option<&str>| (resource.to_owned(), name.map(str::to_owned));
        assert_eq!(parsed(&["pods,deploy"]), Some(vec![pair("pods,deploy", None)]));
        assert_eq!(parsed(&["po", "a", "b"]), Some(vec![pair("po", Some("a")), pair("po", Some("b"))]));
        assert_eq!(parsed(&["po/a", "svc/b"]), Some(vec![pair("po", Some("a")), pair("svc", Some("b"))]));
        assert_eq!(parsed(&["po", "svc/b"]), None);
    }

    #[test]
    fn name_is_added_to_field_selector() {
        assert_eq!(fields(Some("a=b"), Some("x")).as_deref(), Some("a=b,metadata.name=x"));
        assert_eq!(fields(None, Some("x")).as_deref(), Some("metadata.name=x"));
        assert_eq!(fields(None, None), None);
    }
}
