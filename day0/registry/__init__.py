"""The operators that exist: families, their implementations, and the judge."""
