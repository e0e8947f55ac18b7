//! `Cached` as an extractor and as an answer.

mod answers;
mod principals;
mod service;
