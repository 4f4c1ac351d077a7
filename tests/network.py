"""The network guard: a test may talk to this machine's loopback interface and to nothing else."""

import ipaddress
import socket
from typing import Any

import pytest


class NetworkBlocked(RuntimeError):
    """A test tried to leave the machine. No OSError: a client would take that for being offline."""


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address, is this machine's loopback interface."""
    if host in {"", "localhost", "ip6-localhost"}:
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


def install(patch: pytest.MonkeyPatch) -> None:
    """Refuse to connect to, or to look up, anything but loopback."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    getaddrinfo = socket.getaddrinfo

    def refuse(host: object) -> None:
        if not is_loopback(str(host)):
            raise NetworkBlocked(f"tests may only connect to loopback, not to {host}")

    def check(sock: socket.socket, address: Any) -> None:
        if sock.family in {socket.AF_INET, socket.AF_INET6}:
            refuse(address[0])

    def guarded_connect(sock: socket.socket, address: Any) -> None:
        check(sock, address)
        connect(sock, address)

    def guarded_connect_ex(sock: socket.socket, address: Any) -> int:
        check(sock, address)
        return connect_ex(sock, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in {None, socket.gethostname()}:
            refuse(name)
        return getaddrinfo(host, *args, **kwargs)

    patch.setattr(socket.socket, "connect", guarded_connect)
    patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
