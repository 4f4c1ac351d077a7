"""Kernels of day0 and their definitions: torch and triton only, nothing of day0 itself.

Each name in `OPS` is a folder of this package with the same files; see any README.md there.
Importing the package, its references and its cases needs neither triton nor a GPU.
"""

OPS = ("kda",)
