"""The tests. A package, so that `from tests.tiny import ...` means this folder and no other."""
