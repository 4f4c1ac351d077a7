"""The header of a safetensors file on a hub, by HTTP range requests."""

import re
import time
from collections.abc import Mapping
from typing import Any

from huggingface_hub import constants, get_session
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import hf_raise_for_status

from day0.checkpoint.safetensors_header import LENGTH_BYTES, RawHeader, header_length

# A header of about 400 tensors fits; longer ones take a second request for exactly the rest.
PREFIX_BYTES = 65_536
ATTEMPTS = 4
FIRST_PAUSE = 0.5  # seconds; doubles with every attempt
LONGEST_PAUSE = 30.0  # seconds, also for a Retry-After that asks for more
# A server that drips bytes never runs into the timeout of a single read.
SLOWEST_ANSWER = 12  # in units of the library's download timeout
RETRIED = (408, 429, 500, 502, 503, 504)

# The hub's own error derives from the base error of whichever HTTP library huggingface_hub stands
# on (httpx in 1.x, httpx2 in 2.x) and from OSError: a broken connection raises one of these.
TRANSPORT_ERRORS: tuple[type[BaseException], ...] = HfHubHTTPError.__bases__

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class CutOff(OSError):
    """The answer ended before the bytes that were asked for."""


def fetch_header(url: str, headers: Mapping[str, str], where: str) -> RawHeader:
    """Fetch the header of the safetensors file at `url`, n = 8 + header length bytes in all.

    `headers` carry the authorisation. A server that ignores Range is read up to the header's end
    and no further. Broken connections, timeouts and passing server errors are tried ATTEMPTS
    times. Raises Day0Error when the bytes are no header, else what the last attempt raised: one
    of TRANSPORT_ERRORS.
    """
    pause = FIRST_PAUSE
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _fetch_once(url, headers, where)
        except TRANSPORT_ERRORS as error:
            if attempt == ATTEMPTS or not passing(error):
                raise
            time.sleep(min(retry_after(error) or pause, LONGEST_PAUSE))
            pause *= 2
    raise AssertionError("the last attempt returns or raises")


def passing(error: BaseException) -> bool:
    """Whether the same request may work a moment later."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in RETRIED
    # HF_HUB_OFFLINE is a ConnectionError that stays.
    return not constants.is_offline_mode()


def retry_after(error: BaseException) -> float:
    """Seconds the server asks to wait, 0 when it does not say."""
    if isinstance(error, HfHubHTTPError):
        value = error.response.headers.get("Retry-After", "")
        return float(value) if value.isdigit() and len(value) < 6 else 0.0
    return 0.0


def _fetch_once(url: str, headers: Mapping[str, str], where: str) -> RawHeader:
    with _open(url, headers, 0, PREFIX_BYTES) as response:
        hf_raise_for_status(response)
        total, _ = _extent(response, 0)
        reader = _Reader(response)
        prefix = reader.take(PREFIX_BYTES if total is None else min(1024, total), short=True)
        needed = LENGTH_BYTES + header_length(prefix, total, where)
        if response.status_code != 206:
            # The whole file is on its way: read on to the end of the header, then hang up.
            data = reader.take(needed)
        else:
            available = min(PREFIX_BYTES, needed if total is None else total)
            data = reader.take(available)
    if len(data) < needed:
        with _open(url, headers, len(data), needed) as response:
            hf_raise_for_status(response)
            _, start = _extent(response, len(data))
            rest = _Reader(response).take(needed - start)
            data += rest[len(data) - start :]
    return RawHeader(data[LENGTH_BYTES:needed], total)


def _open(url: str, headers: Mapping[str, str], start: int, stop: int) -> Any:
    # HTTP counts the last byte in. "identity": a compressed answer has other offsets.
    asked = {**headers, "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    return get_session().stream("GET", url, headers=asked, timeout=timeout)


def _extent(response: Any, start: int) -> tuple[int | None, int]:
    """(size of the whole file or None, offset of the answer's first byte)."""
    if response.status_code == 206:
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != start:
            raise CutOff(f"asked for byte {start}, got {response.headers.get('Content-Range')!r}")
        return (None if match[3] == "*" else int(match[3])), start
    length = response.headers.get("Content-Length", "")
    encoded = response.headers.get("Content-Encoding", "identity") != "identity"
    return (int(length) if length.isdigit() and not encoded else None), 0


class _Reader:
    """Takes bytes from a streamed answer; everything taken so far stays in `data`."""

    def __init__(self, response: Any) -> None:
        # As they arrive: with a chunk size, the client would wait for a whole chunk.
        self.chunks = response.iter_bytes()
        self.data = bytearray()
        self.deadline = time.monotonic() + SLOWEST_ANSWER * constants.HF_HUB_DOWNLOAD_TIMEOUT

    def take(self, count: int, *, short: bool = False) -> bytes:
        """The first `count` bytes of the answer; CutOff when it has fewer, unless `short`."""
        while len(self.data) < count:
            if time.monotonic() > self.deadline:
                raise CutOff(f"{len(self.data):,} of {count:,} bytes came in the time allowed")
            chunk = next(self.chunks, None)
            if chunk is None:
                if short:
                    break
                raise CutOff(f"the answer ended after {len(self.data):,} of {count:,} bytes")
            self.data += chunk
        return bytes(self.data[:count])
