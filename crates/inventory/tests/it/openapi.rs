//! The OpenAPI document against the service that serves it.

use std::collections::BTreeSet;

use inventory::http::ProblemType;
use reqwest::Method;
use serde_json::Value;

use crate::stage::{Answer, Instance, Stage};

/// The OpenAPI document of an instance.
#[derive(Debug)]
pub(crate) struct Document(Value);

impl Document {
    pub(crate) async fn of(instance: &Instance) -> Self {
        let answer = instance.get("/openapi.json").await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"), "{answer:?}");
        Self(answer.json())
    }

    /// The row of this request; `None` where there is no such route or method.
    fn row(&self, method: &str, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap_or(path);
        // Methods are case-sensitive. `HEAD` has the row of `GET`.
        let method = match method {
            "GET" | "HEAD" => "get",
            "PUT" => "put",
            "POST" => "post",
            "DELETE" => "delete",
            _ => return None,
        };
        let paths = self.0["paths"].as_object().unwrap();
        paths.iter().find(|(template, _)| fits(template, path)).and_then(|(_, item)| item.get(method))
    }

    /// Fails unless the document names this answer in the row of the request. A request without a row may be answered
    /// with 404, 405, or, if its path is no URL, 400.
    pub(crate) fn assert_names(&self, method: &str, path: &str, status: u16, problem: &str) {
        let Some(row) = self.row(method, path) else {
            assert!([400, 404, 405].contains(&status), "{method} {path}: {status} {problem} has no row");
            return;
        };
        let named = &row["responses"][status.to_string()]["content"]["application/problem+json"]["examples"][problem];
        assert!(named.is_object(), "{method} {path}: the document does not know {status} {problem}");
    }
}

/// Whether a path fits the template. Parameters are whole segments, and not empty.
fn fits(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template.zip(path).all(|(part, given)| part == given || part.starts_with('{') && !given.is_empty())
}

#[tokio::test]
async fn the_document_has_a_row_for_every_method_and_every_problem_type_and_for_no_other() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LAB", "on")]).await;
    let document = Document::of(&instance).await;
    assert_eq!(document.0["openapi"], "3.1.0");

    for status in ["200", "201"] {
        let headers = &document.0["paths"]["/stock/{sku}"]["put"]["responses"][status]["headers"];
        assert!(headers["Content-Location"].is_object(), "{status}: {headers}");
    }
    let mut named = BTreeSet::new();
    for (template, item) in document.0["paths"].as_object().unwrap() {
        let path = template.replace("{sku}", "A").replace("{scheme}", "no-lock");
        for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::PATCH] {
            let answer = Answer::to(instance.request(method.clone(), &path)).await;
            let row = item.get(method.as_str().to_ascii_lowercase());
            assert_eq!(answer.status != 405, row.is_some(), "{method} {path}: {answer:?}");
        }
        for response in
            item.as_object().unwrap().values().flat_map(|row| row["responses"].as_object().unwrap().values())
        {
            let examples = response["content"]["application/problem+json"]["examples"].as_object();
            named.extend(examples.into_iter().flat_map(|examples| examples.keys().cloned()));
        }
    }
    // Answers of the operators' port: a wrong token, a cache that was not voided, a fence that was not raised, a second
    // attack. A wrong method has no row that could name its answer.
    let elsewhere = [
        ProblemType::Unauthorized,
        ProblemType::CacheStoreUnavailable,
        ProblemType::FenceNotRaised,
        ProblemType::AttackRunning,
        ProblemType::MethodNotAllowed,
    ];
    for one in ProblemType::ALL {
        assert_eq!(named.contains(one.name()), !elsewhere.contains(one), "{} in the rows", one.name());
        assert!(document.0["components"]["examples"][one.name()]["value"].is_object(), "{}", one.name());
    }
}
