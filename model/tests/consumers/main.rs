//! Laws of both consumers against brokers that keep logs and fetch sessions of their own.

mod cluster;
mod laws;
mod skew;
