//! The HTML file.

use serde_json::json;

use crate::program::{Cluster, server};

/// A valid name of a ClusterRole. Kubernetes forbids only `/` and `%`.
const HOSTILE: &str = "<script>alert(1)<script>";

/// Elements of HTML without an end tag.
const VOID: [&str; 2] = ["meta", "br"];

/// Returns the names of the elements. Fails if an element is not closed.
fn elements(page: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    for part in page.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("no end of the tag {part:?}"));
        let name = tag.trim_start_matches('/').split_whitespace().next().unwrap().to_ascii_lowercase();
        if tag.starts_with('!') || VOID.contains(&&*name) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            seen.push(name.clone());
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    seen
}

#[tokio::test]
async fn page_is_one_file_and_escapes_names() {
    let server = server().build();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": HOSTILE, "annotations": {"a": "x".repeat(5000)}},
        "rules": [],
    });
    server.apply(&role, HOSTILE).unwrap();
    let cluster = Cluster::serve(server).await;
    let file = cluster.file("report.html");
    let arguments = ["clusterroles", "--html", file.to_str().unwrap(), "--duration", "200ms"];
    let output = cluster.cost(&arguments).await;
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(&file).unwrap();
    let elements = elements(&page);
    assert!(elements.iter().any(|name| name == "svg"));
    for forbidden in ["script", "link", "img", "iframe", "object"] {
        assert!(!elements.iter().any(|name| name == forbidden), "{forbidden}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;script&gt;"), "{page}");
    let without_namespace = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(!without_namespace.contains("http://") && !without_namespace.contains("https://"));
    assert!(page.len() < 150_000, "{}", page.len());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn unwritable_page_is_one_line_after_the_report() {
    let cluster = Cluster::serve(server().build()).await;
    let output = cluster.cost(&["configmaps", "--html", "/dev/full"]).await;
    assert!(String::from_utf8(output.stdout).unwrap().contains("A restart"), "the report is lost");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && text.lines().count() == 1 && text.contains("failed to write /dev/full: "),
        "{text}"
    );
}
