"""day0: from a model checkpoint to a proven operator graph, and a running model.

Importing this package is cheap on purpose: it pulls in neither torch, triton nor transformers.
"""

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from day0.runtime.api import Loaded

__version__ = "0.1.0"

# torch says this where numpy is not installed; nothing here needs numpy.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")


def load(
    model: str = "demo", quant: str = "bf16", backend: str = "auto", **options: Any
) -> "Loaded":
    """Load a model to generate with, or to take logits, hidden rows and scores from.

    `options` are those of `day0.runtime.api.load`: dummy, seed, layers, facts, plugin, device,
    max_context, max_batch, cache_dir. torch is imported here, when it is needed.
    """
    from day0.runtime.api import load

    return load(model, quant, backend, **options)
