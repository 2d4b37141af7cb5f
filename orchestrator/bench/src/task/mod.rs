//! Tasks: read, checked, and made into an environment.
