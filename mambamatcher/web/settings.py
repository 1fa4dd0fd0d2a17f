"""What one server allows its clients."""

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Limits of a server; the defaults suit one machine of 4 GB and some twenty clients."""

    token: str | None = None  # asked for when given
    host_names: tuple[str, ...] = ()  # names the server is reached by, besides localhost and plain addresses
    picture_bytes: int = 20 * MIB
    picture_pixels: int = 40_000_000
    points: int = 500
    targets: int = 200  # pictures of one client, and of one propagation
    request_bytes: int = 100 * MIB
    receiving_bytes: int = 400 * MIB  # of all requests that are being received or answered
    requests: int = 64  # received or answered at a time; more are told to come back
    stored_bytes: int = 512 * MIB  # pictures of all clients
    keep_seconds: float = 30 * 60.0  # since a client was last heard of
