//! What can be said of costs without timing anything.

#[cfg(test)]
mod bounds;
