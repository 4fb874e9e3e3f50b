"""A connection that knows just enough of the Redis protocol, and the script on it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Union

Arg = Union[bytes, str, int]


class ServerError(Exception):
    """An error reply, or one item of a reply."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerError) and self.args == other.args

    __hash__ = Exception.__hash__


class Connection:
    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.input = self.socket.makefile("rb")

    def close(self) -> None:
        self.input.close()
        self.socket.close()

    def __call__(self, *args: Arg) -> object:
        parts = [b"*%d\r\n" % len(args)]
        for arg in args:
            data = arg if isinstance(arg, bytes) else str(arg).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.socket.sendall(b"".join(parts))
        reply = self._read()
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def _read(self) -> object:
        line = self.input.readline()
        assert line.endswith(b"\r\n"), "the server closed the connection"
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return ServerError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.input.read(int(rest) + 2)[:-2]
        assert kind == b"*", line
        return [self._read() for _ in range(int(rest))]


class Script:
    """Calls by EVALSHA, checking that the first item of the reply is the time that was given."""

    def __init__(self, connection: Connection, text: bytes) -> None:
        self.connection = connection
        self.digest = connection("SCRIPT", "LOAD", text)
        assert isinstance(self.digest, (str, bytes))

    def __call__(self, now: int | None, keys: Sequence[Arg], *args: Arg) -> list[object]:
        stamp: Arg = "" if now is None else now
        reply = self.connection("EVALSHA", self.digest, len(keys), *keys, stamp, *args)
        assert isinstance(reply, list)
        if now is not None:
            assert reply[0] == now
        return reply[1:]
