//! The lock as a Tower layer.
