"""day0: from a model checkpoint to a proven operator graph, and a running model.

Importing this package is cheap on purpose: it pulls in neither torch, triton nor transformers.
"""

__version__ = "0.1.0"
