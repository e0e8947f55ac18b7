//! Integration tests: one binary, one module per topic.

#[cfg(test)]
mod conservation;
#[cfg(test)]
mod dashboards;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod seed;
#[cfg(test)]
mod stock_db;
