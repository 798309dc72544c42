//! How the model is run.
