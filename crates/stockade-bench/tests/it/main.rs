//! Costs that can be counted, without timing anything, and the names of what is measured.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod groups;
