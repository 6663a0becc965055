"""Who may make operators' calls (delete, kill switch, override of the sampler).

With FRAMEGATE_OPERATOR_KEY set, whoever sends it as a bearer token, from anywhere. Without it, only
a direct call from the machine itself. A proxy on the same machine also connects from loopback, and
a web page can make a browser on it call; so a call that shows traces of either is refused.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from fastapi import Request
from pydantic import SecretStr

from app.errors import OperatorKeyError

FORWARDING_HEADERS = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)


@dataclass(frozen=True, slots=True)
class OperatorGate:
    """A FastAPI dependency: `Depends(gate)` lets operators pass and raises OperatorKeyError."""

    key: SecretStr | None

    def __call__(self, request: Request) -> None:
        if self.key is not None:
            _check_key(request, self.key)
        else:
            _check_is_local(request)

    def is_operator(self, request: Request) -> bool:
        try:
            self(request)
        except OperatorKeyError:
            return False
        return True


def _check_key(request: Request, key: SecretStr) -> None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # Bytes, because compare_digest refuses text outside ASCII.
    expected = key.get_secret_value().encode()
    is_right = secrets.compare_digest(given.strip().encode(), expected)
    if scheme.lower() != "bearer" or not is_right:
        raise OperatorKeyError("The operator's key is missing or wrong.")


def _check_is_local(request: Request) -> None:
    if request.client is None or not _is_loopback(request.client.host):
        raise OperatorKeyError("No operator's key is set, and the call comes from elsewhere.")
    for header in FORWARDING_HEADERS:
        if header in request.headers:
            raise OperatorKeyError(
                f"No operator's key is set, and `{header}` shows that a proxy passed the call on."
            )
    if not _is_loopback(_host_of(f"//{request.headers.get('host', '')}")):
        raise OperatorKeyError("No operator's key is set, and `Host` is not this machine's name.")
    origin = request.headers.get("origin")
    if origin is not None and not _is_loopback(_host_of(origin)):
        raise OperatorKeyError("No operator's key is set, and a foreign web page makes the call.")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
