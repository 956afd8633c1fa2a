//! `WriteSettings`: the parameters of all writes of a `CachedApi`.

use std::sync::Arc;

use http::{Request, Uri};
use kube_client::api::{DeleteParams, PatchParams, PostParams, ValidationDirective};

/// The parameters of all writes of a `CachedApi`. The parameters of a single write have precedence.
#[derive(Clone, Default)]
pub(super) struct WriteSettings {
    pub(super) field_manager: Option<Arc<str>>,
    pub(super) dry_run: bool,
    pub(super) field_validation: Option<ValidationDirective>,
}

impl WriteSettings {
    pub(super) fn post(&self, params: &PostParams) -> PostParams {
        PostParams {
            dry_run: params.dry_run || self.dry_run,
            field_manager: params.field_manager.clone().or_else(|| self.manager()),
        }
    }

    pub(super) fn patch(&self, params: &PatchParams) -> PatchParams {
        PatchParams {
            dry_run: params.dry_run || self.dry_run,
            field_manager: params.field_manager.clone().or_else(|| self.manager()),
            field_validation: params.field_validation.clone().or_else(|| self.field_validation.clone()),
            ..params.clone()
        }
    }

    pub(super) fn delete(&self, params: &DeleteParams) -> DeleteParams {
        DeleteParams { dry_run: params.dry_run || self.dry_run, ..params.clone() }
    }

    /// Adds the field validation to the URL of a create or a replace. kube's `PostParams` cannot contain
    /// it.
    pub(super) fn add_field_validation(&self, request: &mut Request<Vec<u8>>) {
        let Some(directive) = &self.field_validation else { return };
        let url = request.uri().to_string();
        let separator = if url.contains('?') { '&' } else { '?' };
        // A valid URL stays valid with this suffix.
        if let Ok(url) = format!("{url}{separator}fieldValidation={}", directive.as_str()).parse::<Uri>() {
            *request.uri_mut() = url;
        }
    }

    fn manager(&self) -> Option<String> {
        self.field_manager.as_deref().map(str::to_owned)
    }
}
