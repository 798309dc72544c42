//! Laws of the log, over random histories.
