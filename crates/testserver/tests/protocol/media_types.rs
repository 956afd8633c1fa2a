//! Media types other than plain JSON, and compression.

use crate::client::{CONFIGMAPS, configmaps, get, open, send, server};
use http_body_util::BodyExt;
use serde_json::json;

#[tokio::test]
async fn objects_are_created_and_returned_in_yaml() {
    let server = server();
    configmaps(&server, &[]);
    let headers = [("content-type", "application/yaml"), ("accept", "application/yaml")];
    let created =
        send(&server, "POST", CONFIGMAPS, &headers, "metadata:\n  name: a\ndata: {k: 'yes'}\n").await;
    assert_eq!((created.code, &created.headers["content-type"]), (201, &"application/yaml".parse().unwrap()));
    assert!(
        created.text.starts_with("apiVersion: v1\ndata:\n  k: \"yes\"\nkind: ConfigMap\nmetadata:\n"),
        "{}",
        created.text
    );
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/a")).await.json()["data"], json!({"k": "yes"}));
    let list = send(&server, "GET", CONFIGMAPS, &headers[1..], "").await;
    assert!(list.text.starts_with("apiVersion: v1\nitems:\n- data:\n    k: \"yes\"\n"), "{}", list.text);
    let absent = send(&server, "GET", &format!("{CONFIGMAPS}/b"), &headers[1..], "").await;
    let text = "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: b\nkind: Status\n";
    assert!(absent.text.starts_with(text), "{}", absent.text);
    let watch = send(&server, "GET", &format!("{CONFIGMAPS}?watch=true"), &headers[1..], "").await;
    assert_eq!(watch.code, 406);
    assert!(watch.text.contains("application/json;stream=watch"), "{}", watch.text);
    let broken = send(&server, "POST", CONFIGMAPS, &headers[..1], "metadata: [\n").await;
    assert!(broken.message().contains("(must be of type ConfigMap): yaml: "), "{}", broken.message());
}

#[tokio::test]
async fn large_responses_are_compressed_but_watches_are_not() {
    let server = server();
    configmaps(&server, &["small"]);
    let data = json!({"k": "x".repeat(200_000)});
    let big = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big", "namespace": "r"}, "data": data});
    server.create(&big).unwrap();
    let gzip = [("accept-encoding", "gzip")];
    let watch = format!("{CONFIGMAPS}?watch=true&timeoutSeconds=1");
    for (path, compressed) in [
        (CONFIGMAPS.to_owned(), true),
        (format!("{CONFIGMAPS}/big"), true),
        (format!("{CONFIGMAPS}/small"), false),
        (watch, false),
    ] {
        let response = open(&server, "GET", &path, &gzip, "").await;
        assert_eq!(response.headers().contains_key("content-encoding"), compressed, "{path}");
        if compressed {
            assert!(response.into_body().collect().await.unwrap().to_bytes().len() < 10_000);
            let plain = get(&server, &path).await;
            assert!(plain.text.len() > 200_000 && !plain.headers.contains_key("content-encoding"));
        }
    }
}
