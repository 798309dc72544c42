//! What is exempt, with its reason. Exempt counts as not run, never as passed; at most 1 % of a family.

/// (family, vector id, reason).
pub const EXEMPT: &[(&str, &str, &str)] = &[];
