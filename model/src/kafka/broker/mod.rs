//! A broker process: request handling, replica fetchers, metadata, life cycle.
