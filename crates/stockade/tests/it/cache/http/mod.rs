//! `Cached` as an extractor and as an answer.

mod answers;
mod forced;
mod principals;
mod service;
