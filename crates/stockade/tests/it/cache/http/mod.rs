//! `Cached` as extractor and as answer.

mod answers;
mod forced;
mod principals;
mod service;
