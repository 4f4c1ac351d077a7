"""One file per operator family; `day0.registry.index` lists them."""
