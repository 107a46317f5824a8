"""Addresses that only this machine reaches."""

from __future__ import annotations

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host, a name or a number, are loopback; False for an unknown name."""
    written = ip_address(host)
    if written is not None:
        return written.is_loopback
    try:
        found = socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    addresses = [ip_address(str(place[0])) for *_, place in found]
    return all(address is not None and address.is_loopback for address in addresses)


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text writes, an IPv4 address in IPv6 form as IPv4; None for a name."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
