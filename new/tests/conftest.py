"""Where there is no GPU, Triton's interpreter runs the kernels."""

import os

import torch

if not torch.cuda.is_available():
    # before the first import of triton, which reads it once
    os.environ["TRITON_INTERPRET"] = "1"
