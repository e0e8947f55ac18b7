//! Postgres.
