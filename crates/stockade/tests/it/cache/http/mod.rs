//! `Cached` as extractor and as answer.

mod answers;
mod forced;
mod service;
