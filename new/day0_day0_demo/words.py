"""The reader's word list: what the checkpoint says in words that day0 did not know."""

# Per operator and parameter: the tensor's name below its layer ("{e}": numbered from 0), its dims.
TENSORS: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {}

# Keys of config.json that no mechanism reads. One that changes the numbers is read by a mechanism,
# layer.cfg.get("day0_demo.fact", "key"); one that does not may stay here.
UNREAD: tuple[str, ...] = ()
