"""Launch of the rotary embedding; the same figures for every chip."""


def block_heads(*, num_tokens: int, num_heads: int, head_dim: int) -> int:
    """Heads of a program, a power of two: about 4,096 channels, fewer while there are few tokens.

    More heads share a token's sines; fewer keep more multiprocessors busy.
    """
    channels = 4096 if num_tokens >= 1024 else 1024
    most = 1 << max(channels // head_dim, 1).bit_length() - 1
    return min(most, 1 << (num_heads - 1).bit_length())


def num_warps(*, channels: int) -> int:
    """Warps for a program of `channels` channels: 16 per thread."""
    return min(max(channels // 512, 1), 8)
