//! Read delegation on a real Redis: what a read sends, who wants the resource back, and what ends it.

mod asked_together;
mod counts;
mod entering;
mod lost;
mod processes;
mod readers;
mod recalled;
mod support;
mod wanted;
