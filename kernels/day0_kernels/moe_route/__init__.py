"""Expert routing: scores, selection, weights, and the order of rows by expert. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["moe_route", "moe_route_sort", "moe_sort"]

__getattr__ = exports(
    __name__, {"moe_route": "route", "moe_route_sort": "route_sort", "moe_sort": "sort"}
)
