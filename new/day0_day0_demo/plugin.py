"""What this package adds to day0."""

from importlib import import_module

from day0.models.plugin import Registry

from day0_day0_demo import MECHANISMS, OPS


def register(registry: Registry) -> None:
    """Called by day0, once a process."""
    for name in OPS:
        import_module(f"day0_day0_demo.ops.{name}.family").register(registry)
    for name in MECHANISMS:
        import_module(f"day0_day0_demo.mechanisms.{name}").register(registry)
