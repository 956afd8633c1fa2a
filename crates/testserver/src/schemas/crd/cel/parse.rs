//! Parses expressions.

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

/// Parses and checks an expression on a separate stack. `check` returns the errors of the parsed
/// expression, and its own result.
pub(super) fn parse<T: Send>(
    source: &str,
    check: impl FnOnce(IdedExpr) -> Result<T, Vec<String>> + Send,
) -> Result<T, String> {
    check_size(source)?;
    let work = || {
        let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(500);
        let tree = parser.parse(source).map_err(|errors| syntax_errors(&errors))?;
        if depth(&tree) > MAX_DEPTH {
            return Err(too_deep());
        }
        check(tree).map_err(|errors| errors.join("; "))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let result = thread.map_err(|error| error.to_string()).and_then(|thread| {
            thread.join().map_err(|_| "the parser failed unexpectedly; report the expression as a bug".into())
        });
        result.unwrap_or_else(Err)
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

fn syntax_errors(errors: &ParseErrors) -> String {
    let texts = errors.errors.iter().map(|error| {
        let ((line, column), text) = (error.pos, error.msg.trim_start_matches("Syntax error: "));
        format!("syntax error at {line}:{column}: {text}")
    });
    texts.collect::<Vec<_>>().join("; ")
}
