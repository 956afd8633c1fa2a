//! Tests an informer that requests lists with gzip, while bytes of the lists are lost or changed.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, api::PostParams, client::Body};
use kube_informer::{Informer, InformerFactory};
use kube_testserver::Server;
use tower::ServiceExt;

const OBJECTS: usize = 4;

/// A fault of a compressed response.
type Damage = fn(Vec<u8>) -> Vec<u8>;

/// Returns a server whose lists are larger than the threshold of the compression.
async fn server() -> Server {
    let server = Server::new();
    let api = Api::<ConfigMap>::namespaced(Client::new(server.service(), "default"), "default");
    for number in 0..OBJECTS {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(format!("map-{number}"));
        object.data = Some([("key".to_owned(), "a value".repeat(10_000))].into());
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    server
}

/// Returns a client that damages the first compressed responses, and counts all of them.
fn client(server: &Server, damages: Vec<Damage>) -> (Client, Arc<AtomicUsize>) {
    let (service, compressed) = (server.service(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&compressed);
    let damaging = tower::service_fn(move |request: Request<Body>| {
        let (service, count, damages) = (service.clone(), Arc::clone(&count), damages.clone());
        async move {
            let (head, body) = service.oneshot(request).await?.into_parts();
            if head.headers.get(header::CONTENT_ENCODING).is_none() {
                let body = body.map_err(tower::BoxError::from).boxed_unsync();
                return Ok::<_, tower::BoxError>(Response::from_parts(head, body));
            }
            let number = count.fetch_add(1, Ordering::SeqCst);
            let bytes = body.collect().await?.to_bytes().to_vec();
            let bytes = damages.get(number).map_or_else(|| bytes.clone(), |damage| damage(bytes.clone()));
            let body = Full::new(Bytes::from(bytes)).map_err(tower::BoxError::from).boxed_unsync();
            Ok(Response::from_parts(head, body))
        }
    });
    (Client::new(damaging, "default"), compressed)
}

/// Truncated lists are requested again with gzip, because the connection may have been lost. Corrupt lists
/// are requested again without gzip, because a proxy may change each list.
#[tokio::test(start_paused = true)]
async fn damaged_lists_are_reported_and_repeated() {
    let server = server().await;
    let flipped: Damage = |mut bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        bytes
    };
    let cases: [(Damage, &str, usize); 4] = [
        (|bytes| bytes[..bytes.len() / 2].to_vec(), "the gzip data is truncated", 2),
        (|_| Vec::new(), "the list is incomplete", 2),
        (flipped, "the gzip data is corrupt", 1),
        (|_| b"{\"kind\":\"ConfigMapList\"}".to_vec(), "the gzip data is corrupt", 1),
    ];
    for (damage, message, compressed_lists) in cases {
        let (client, compressed) = client(&server, vec![damage]);
        let errors = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&errors);
        let informer = Informer::<ConfigMap>::builder(Api::all(client))
            .gzip_lists()
            .on_error(move |error| seen.lock().unwrap().push(error.with_causes().to_string()))
            .build();
        informer.start();
        informer.wait_for_sync(Duration::from_secs(300)).await.unwrap();
        assert_eq!(informer.lister().len(), OBJECTS);
        let errors = errors.lock().unwrap().clone();
        assert!(errors.len() == 1 && errors[0].contains(message), "{errors:?}");
        assert_eq!(compressed.load(Ordering::SeqCst), compressed_lists, "{message}");
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn factory_requests_lists_with_gzip_only_if_configured() {
    let server = server().await;
    for gzip in [false, true] {
        let (client, compressed) = client(&server, Vec::new());
        let factory = InformerFactory::new(client);
        let factory = if gzip { factory.gzip_lists() } else { factory };
        let informer = factory.informer::<ConfigMap>().unwrap();
        factory.start();
        factory.wait_for_sync(Duration::from_secs(60)).await.unwrap();
        assert_eq!(informer.lister().len(), OBJECTS);
        assert_eq!(compressed.load(Ordering::SeqCst), usize::from(gzip));
        factory.shutdown().await;
    }
}
