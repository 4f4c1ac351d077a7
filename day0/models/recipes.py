"""--quant: a built-in recipe by name."""

from day0.errors import Day0Error
from day0.ir.recipe import RECIPES, Recipe


def recipe_called(name: str) -> Recipe:
    """A built-in recipe; Day0Error with the names otherwise."""
    if name not in RECIPES:
        raise Day0Error(
            f"--quant is {name!r}; it must be one of {', '.join(RECIPES)}",
            hint="day0 run MODEL --quant fp8",
        )
    return RECIPES[name]
