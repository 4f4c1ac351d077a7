"""Assembles decoders out of mechanisms: checkpoint -> ModelSpec -> Model."""

from day0.mechanisms.spec import LayerSpec, ModelSpec

__all__ = ["LayerSpec", "ModelSpec"]
