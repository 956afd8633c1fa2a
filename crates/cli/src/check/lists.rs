//! Checks of lists: selectors, pages and compression.

use futures_util::{StreamExt as _, stream};
use http::{StatusCode, header::CONTENT_ENCODING};
use kube_client::Client;

use super::{
    report::{Finding, Verdict},
    requests::{Accept, Page, ProbeError, open, page},
    target::Target,
};
use crate::output::{bytes, counted};

/// The number of lists at the same time.
const CONCURRENT_LISTS: usize = 8;
/// kube-apiserver compresses only larger responses.
const GZIP_THRESHOLD_BYTES: usize = 128 << 10;
/// The maximum number of failed lists with the same remedy that are reported separately.
const MAX_FAILED_LISTS: usize = 5;
/// The page size of informers.
const PAGE_SIZE: &str = "500";

/// A target whose objects can be listed, and a page with at most one object.
#[derive(Debug)]
pub(super) struct Listed<'a> {
    pub(super) target: &'a Target<'a>,
    pub(super) page: Page,
}

/// Lists one object of each target. Returns the targets that can be listed, and a finding for each other
/// target.
pub(super) async fn list_all<'a>(
    client: &Client,
    targets: &'a [Target<'a>],
) -> (Vec<Listed<'a>>, Vec<Finding>) {
    let lists = stream::iter(targets)
        .map(|target| async move { (target, page(client, &target.uri(&[("limit", "1")])).await) });
    let mut lists = lists.buffered(CONCURRENT_LISTS);
    let (mut listed, mut failed) = (Vec::new(), Vec::new());
    while let Some((target, result)) = lists.next().await {
        match result {
            Ok(page) => listed.push(Listed { target, page }),
            Err(error) => failed.push((target, error)),
        }
    }
    let mut findings = failed_lists(&failed);
    if !listed.is_empty() {
        let detail = format!(
            "the current user can list {} of {} with these selectors",
            listed.len(),
            counted(targets.len(), "resource")
        );
        findings.insert(0, Finding::green("lists", detail));
    }
    (listed, findings)
}

/// Returns a finding for each failed list. If many lists failed with the same remedy, returns one finding for
/// them.
fn failed_lists(failed: &[(&Target<'_>, ProbeError)]) -> Vec<Finding> {
    let mut groups: Vec<((Verdict, &str), Vec<String>)> = Vec::new();
    for (target, error) in failed {
        let judged = judge(error);
        let detail = format!("cannot list {}{}: {error}", target.name(), target.place());
        match groups.iter_mut().find(|(other, _)| *other == judged) {
            Some((_, details)) => details.push(detail),
            None => groups.push((judged, vec![detail])),
        }
    }
    let finding = |((verdict, remedy), details): ((Verdict, &str), Vec<String>)| {
        let (count, first) = (details.len(), details[0].clone());
        let details = if count <= MAX_FAILED_LISTS {
            details
        } else {
            vec![format!("{} failed in the same way, the first: {first}", counted(count, "list"))]
        };
        let remedy = remedy.to_owned();
        details.into_iter().map(move |detail| Finding::new("lists", verdict, detail, remedy.clone()))
    };
    groups.into_iter().flat_map(finding).collect()
}

/// Returns the verdict and the remedy of a failed list.
fn judge(error: &ProbeError) -> (Verdict, &'static str) {
    match error {
        ProbeError::Rejected { code, .. } => match *code {
            StatusCode::BAD_REQUEST => (
                Verdict::Red,
                "use selectors that the resource supports; custom resources list theirs in spec.versions[].selectableFields",
            ),
            StatusCode::FORBIDDEN => {
                (Verdict::Amber, "the current user cannot measure this resource; see the permissions")
            }
            StatusCode::NOT_FOUND => (Verdict::Red, "install the CRD, or check the APIService of the group"),
            StatusCode::TOO_MANY_REQUESTS => {
                (Verdict::Amber, "repeat the check later; the server limits the requests")
            }
            _ => (Verdict::Red, "check the API server and the aggregated API servers"),
        },
        ProbeError::Failed(_) => (Verdict::Red, "check the network and the API server"),
    }
}

/// Reads the second page of a list.
pub(super) async fn paging(client: &Client, listed: &[Listed<'_>]) -> Finding {
    const CHECK: &str = "pages";
    if let Some(Listed { target, page }) = listed.iter().find(|listed| listed.page.objects() > 1) {
        let detail = format!("the server returned {} {} for limit=1", page.objects(), target.name());
        let remedy = "a list of many objects needs one large response; check proxies that drop parameters";
        return Finding::new(CHECK, Verdict::Amber, detail, remedy);
    }
    let has_next = |listed: &&Listed<'_>| !listed.page.metadata.continue_token.is_empty();
    let Some(Listed { target, page: first }) = listed.iter().find(has_next) else {
        let detail = "not measured, because no resource has two objects".to_owned();
        return Finding::new(CHECK, Verdict::Amber, detail, "choose a resource with at least two objects");
    };
    let uri = target.uri(&[("limit", "1"), ("continue", &first.metadata.continue_token)]);
    let remaining = first.metadata.remaining_item_count;
    match page(client, &uri).await {
        Ok(_) => {
            let count = remaining.map_or_else(String::new, |count| format!(" of {}", count + 1));
            Finding::green(
                CHECK,
                format!("a list of {} continues after the first object{count}", target.name()),
            )
        }
        Err(error) => Finding::new(
            CHECK,
            if error.has_code(StatusCode::GONE) { Verdict::Amber } else { Verdict::Red },
            format!("the second page of {} failed: {error}", target.name()),
            "informers repeat the list without pages; if it happens again, check the compaction interval of etcd",
        ),
    }
}

/// Requests a page of complete objects, and checks whether it is compressed.
pub(super) async fn compression(client: &Client, listed: &Listed<'_>) -> Finding {
    const CHECK: &str = "gzip";
    let name = listed.target.name();
    let result = async {
        let uri = listed.target.uri(&[("limit", PAGE_SIZE)]);
        let opened = open(client, &uri, Accept::Gzip).await?;
        let is_compressed = opened.headers.get(CONTENT_ENCODING).is_some_and(|value| value == "gzip");
        let count = if is_compressed { 0 } else { opened.count_bytes(GZIP_THRESHOLD_BYTES).await? };
        Ok::<_, ProbeError>((is_compressed, count))
    };
    match result.await {
        Ok((true, _)) => Finding::green(CHECK, format!("the server compresses lists of {name}")),
        Ok((false, count)) if count <= GZIP_THRESHOLD_BYTES => Finding::green(
            CHECK,
            format!(
                "not needed: a page of {name} has {}, and servers compress from {}",
                bytes(count as u64),
                bytes(GZIP_THRESHOLD_BYTES as u64)
            ),
        ),
        Ok((false, _)) => Finding::new(
            CHECK,
            Verdict::Amber,
            format!("the server does not compress a list of {name}"),
            "lists need more bandwidth; check proxies that remove the header Accept-Encoding, and the feature gate APIResponseCompression",
        ),
        Err(error) => Finding::new(
            CHECK,
            Verdict::Amber,
            format!("not measured: a list of {name} failed: {error}"),
            "repeat the check",
        ),
    }
}
