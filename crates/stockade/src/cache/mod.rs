//! Cache-aside.
