//! Costs that can be counted, without timing anything.

#[cfg(test)]
mod bounds;
