//! Parses expressions, and formats the errors of expressions like cel-go.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::parser::{ParseErrors, Parser};

/// The maximum length of an expression in characters. The limit of Kubernetes is 100,000, but this parser
/// would need a minute for some of these expressions.
const MAX_LENGTH: usize = 20_000;

/// The maximum depth of an expression, as in Kubernetes. Bounds the stack of the evaluation. The time of
/// the parser grows with the square of the depth.
const MAX_DEPTH: usize = 250;

/// The stack for the parser, which recurses once per operator of a chain such as `a.b.c`.
const STACK_BYTES: usize = 1 << 26;

/// An error at a node of an expression.
pub(super) type NodeError = (u64, String);

/// Parses and checks an expression on a separate stack. `check` returns the errors of the parsed
/// expression, and its own result.
///
/// # Errors
/// Returns the errors in the format of cel-go.
pub(super) fn parse<T: Send>(
    source: &str,
    check: impl FnOnce(IdedExpr) -> Result<T, Vec<NodeError>> + Send,
) -> Result<T, String> {
    check_size(source).map_err(|text| format_error(source, 1, 1, &text))?;
    let work = || {
        let tree = parser().parse(source).map_err(|errors| syntax_errors(source, &errors))?;
        if depth(&tree) > MAX_DEPTH {
            return Err(format_error(source, 1, 1, &too_deep()));
        }
        check(tree).map_err(|errors| located(source, &errors))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let result = thread.map_err(|error| error.to_string()).and_then(|thread| {
            thread.join().map_err(|_| "the parser failed unexpectedly; report the expression as a bug".into())
        });
        result.unwrap_or_else(|error| Err(format!("ERROR: <input>:1:1: {error}")))
    })
}

fn too_deep() -> String {
    format!("expression recursion limit exceeded: {MAX_DEPTH}")
}

/// Rejects expressions that would need too much time in the parser.
fn check_size(source: &str) -> Result<(), String> {
    if source.chars().count() > MAX_LENGTH {
        return Err(format!("kube-testserver supports only expressions of up to {MAX_LENGTH} characters"));
    }
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let conditions = source.bytes().filter(|byte| *byte == b'?').count();
    if deepest > MAX_DEPTH || conditions > MAX_DEPTH { Err(too_deep()) } else { Ok(()) }
}

fn parser() -> Parser {
    Parser::new().enable_optional_syntax(true).max_recursion_depth(500)
}

fn depth(tree: &IdedExpr) -> usize {
    let deepest = |parts: &[&IdedExpr]| parts.iter().map(|part| depth(part)).max().unwrap_or(0);
    1 + match &tree.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 0,
        Expr::Call(call) => deepest(&call.args.iter().chain(call.target.as_deref()).collect::<Vec<_>>()),
        Expr::Comprehension(all) => {
            deepest(&[&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result])
        }
        Expr::List(list) => deepest(&list.elements.iter().collect::<Vec<_>>()),
        Expr::Select(select) => depth(&select.operand),
        Expr::Map(map) => map.entries.iter().map(|entry| entry_depth(&entry.expr)).max().unwrap_or(0),
        Expr::Struct(all) => all.entries.iter().map(|entry| entry_depth(&entry.expr)).max().unwrap_or(0),
    }
}

fn entry_depth(entry: &EntryExpr) -> usize {
    match entry {
        EntryExpr::StructField(field) => depth(&field.value),
        EntryExpr::MapEntry(entry) => depth(&entry.key).max(depth(&entry.value)),
    }
}

fn syntax_errors(source: &str, errors: &ParseErrors) -> String {
    let lines = errors.errors.iter().map(|error| {
        let (line, column) = error.pos;
        let text = if error.source.is_some() || error.msg.starts_with("Syntax error") {
            error.msg.clone()
        } else {
            format!("Syntax error: {}", error.msg)
        };
        format_error(source, usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1), &text)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Formats errors with their positions. The parser returns positions only with a syntax error, so this
/// function adds one behind the expression. The numbers of the nodes before it do not change.
fn located(source: &str, errors: &[NodeError]) -> String {
    let broken = format!("{source}\n)");
    let positions =
        parser().parse(&broken).err().and_then(|errors| errors.errors.into_iter().next()?.source_info);
    let mut lines: Vec<(usize, usize, &str)> = errors
        .iter()
        .map(|(id, text)| {
            let start = positions
                .as_ref()
                .and_then(|positions| positions.offset_for(*id))
                .map_or(0, |(start, _)| start);
            let before: Vec<char> = source.chars().take(start as usize).collect();
            let line = before.iter().filter(|c| **c == '\n').count() + 1;
            let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
            (line, column, text.as_str())
        })
        .collect();
    lines.sort_unstable();
    let lines = lines.into_iter().map(|(line, column, text)| format_error(source, line, column, text));
    lines.collect::<Vec<_>>().join("\n")
}

fn format_error(source: &str, line: usize, column: usize, text: &str) -> String {
    let snippet = source.lines().nth(line.saturating_sub(1)).unwrap_or("").replace('\t', " ");
    format!(
        "ERROR: <input>:{line}:{column}: {text}\n | {snippet}\n | {}^",
        ".".repeat(column.saturating_sub(1))
    )
}
