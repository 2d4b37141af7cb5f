//! Jobs summed up: by hand where it can be counted, and at every edge.

mod comparisons;
mod figures;
mod fixtures;
mod properties;
mod rounds;
