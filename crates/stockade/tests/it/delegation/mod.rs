//! Read delegation on a real Redis: what a read sends, and what recalls or ends a delegation.

mod asked_together;
mod counts;
mod entering;
mod lost;
mod processes;
mod readers;
mod recalled;
mod support;
mod wanted;
