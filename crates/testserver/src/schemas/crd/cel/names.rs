//! Escaped names: how a rule writes the name of a field that is not an identifier of CEL.

const RESERVED: &str = "true false null in as break const continue else for function if import let loop package \
                        namespace return var void while";

/// Returns the escaped name. Returns `None` if rules cannot use a field with this name.
pub(super) fn escape(name: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_allowed) {
        return None;
    }
    if let Some(escaped) = escape_reserved(name) {
        return Some(escaped);
    }
    let escaped = name.replace("__", "__underscores__").replace('.', "__dot__");
    Some(escaped.replace('-', "__dash__").replace('/', "__slash__"))
}

/// Returns the escaped name of a field whose name is a reserved word. A rule may select such a field with
/// both names.
pub(super) fn escape_reserved(name: &str) -> Option<String> {
    RESERVED.split(' ').any(|word| word == name).then(|| format!("__{name}__"))
}
