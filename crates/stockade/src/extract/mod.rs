//! Extractors.
