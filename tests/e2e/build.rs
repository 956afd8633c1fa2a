//! Converts the Rust code of the pages to tests: see `tests/pages/main.rs`.
//!
//! Each block that starts with ```` ```rust ```` is compiled. Lines that start with `# ` are hidden
//! from readers, as in rustdoc.
//! - A block with `fn main` is a program. It runs against an embedded server, or with `no_run` is only
//!   compiled.
//! - A block that starts with `run(` or `run_on_server(` after hidden `# ` lines is the body of a test.
//! - Any other block contains items. With the word `more`, it sees the items of the preceding block of
//!   items.

use std::{env, fmt::Write as _, fs, path::Path};

/// The pages, and tests that see the items of a page's first block of items.
const PAGES: [(&str, &str, Option<&str>); 14] = [
    ("readme", "README.md", None),
    ("guide", "docs/guide.md", None),
    ("operator", "docs/operator.md", Some("operator_permissions.rs")),
    ("from_client_go", "docs/from-client-go.md", None),
    ("from_controller_runtime", "docs/from-controller-runtime.md", None),
    ("from_kube_runtime", "docs/from-kube-runtime.md", None),
    ("testserver", "docs/testserver.md", None),
    ("faults", "docs/faults.md", None),
    ("chaos", "docs/chaos.md", None),
    ("replay", "docs/replay.md", None),
    ("warm_restarts", "docs/warm-restarts.md", None),
    ("shards", "docs/shards.md", None),
    ("webhooks", "docs/webhooks.md", Some("webhooks_manifests.rs")),
    ("clusters", "docs/clusters.md", None),
];

fn main() {
    let package = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&package).join("../..");
    let mut code = String::new();
    for (module, path, tests) in PAGES {
        let page = root.join(path);
        println!("cargo:rerun-if-changed={}", page.display());
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
        let tests = tests.map(|tests| Path::new(&package).join("tests/pages").join(tests));
        writeln!(code, "/// The code of {path}.\nmod {module} {{").expect("a String can be written");
        code.push_str(&page_code(module, &blocks(&text), tests.as_deref()));
        code.push_str("}\n");
    }
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("pages.rs"), code).expect("OUT_DIR can be written");
}

/// A block of Rust code.
struct Block {
    /// The line of the page on which the block starts.
    line: usize,
    /// The words after ```` ```rust ````, for example `no_run`.
    words: String,
    code: String,
}

impl Block {
    fn is_program(&self) -> bool {
        self.code.contains("fn main()")
    }

    fn is_test_body(&self) -> bool {
        self.code.lines().any(|line| line.starts_with("kube_informer_e2e::pages::run"))
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match &mut open {
            Some(_) if line == "```" => found.extend(open.take()),
            Some(block) => {
                let shown = if line == "#" { "" } else { line.strip_prefix("# ").unwrap_or(line) };
                block.code.push_str(shown);
                block.code.push('\n');
            }
            None => {
                open = line.strip_prefix("```rust").map(|words| Block {
                    line: index + 1,
                    words: words.to_owned(),
                    code: String::new(),
                });
            }
        }
    }
    found
}

fn page_code(module: &str, blocks: &[Block], tests: Option<&Path>) -> String {
    let mut code = String::new();
    let mut is_open = false;
    for block in blocks {
        let (text, is_more) = (&block.code, block.words.contains("more"));
        if is_open && !is_more {
            code.push_str("}\n");
            is_open = false;
        }
        let name = format!("line_{}", block.line);
        if block.is_test_body() {
            write!(code, "#[test]\nfn {name}() {{\n{text}}}\n")
        } else if is_more {
            write!(code, "mod {name} {{\nuse super::*;\n{text}}}\n")
        } else if block.is_program() {
            let run = format!("kube_informer_e2e::pages::run_program(\"{module}::{name}\", {name}::main);");
            let test = if block.words.contains("no_run") {
                String::new()
            } else {
                format!("#[test]\nfn {name}() {{\n{run}\n}}\n")
            };
            write!(
                code,
                "mod {name} {{\n{}}}\n{test}",
                text.replace("\nfn main(", "\npub(super) fn main(")
                    .replace("\nasync fn main(", "\npub(super) async fn main(")
            )
        } else {
            is_open = true;
            let tests = tests.map(|tests| format!("#[path = {tests:?}]\nmod tests;\n")).unwrap_or_default();
            write!(code, "mod {name} {{\n{text}{tests}")
        }
        .expect("a String can be written");
    }
    if is_open {
        code.push_str("}\n");
    }
    code
}
