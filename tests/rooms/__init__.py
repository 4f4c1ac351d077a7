"""The rules of the rooms, as functions from source text to complaints, and the tests of both."""
