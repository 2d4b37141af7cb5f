//! The statistics against scipy and statsmodels, by counting, by simulation and by properties.

mod edges;
mod properties;
mod reference;
mod simulation;
