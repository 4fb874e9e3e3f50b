"""A proxy in front of a server that hands on everything later than it came.

Only the time of what passes is changed: requests that are on their way together stay together.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress

_Later = queue.Queue[tuple[float, bytes]]


class SlowProxy:
    def __init__(self, port: int, delay: float) -> None:
        """port: of the server; delay: seconds, of what comes back from it."""
        self._target = port
        self._delay = delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def __enter__(self) -> SlowProxy:
        return self

    def __exit__(self, *_exc: object) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                for pair, delay in (((client, server), 0.0), ((server, client), self._delay)):
                    later: _Later = queue.Queue()
                    for work in (self._read, self._write):
                        arguments = (*pair, later, delay)
                        threading.Thread(target=work, args=arguments, daemon=True).start()

    @staticmethod
    def _read(
        source: socket.socket,
        _sink: socket.socket,
        later: queue.Queue[tuple[float, bytes]],
        delay: float,
    ) -> None:
        data = b"first"
        while data:
            try:
                data = source.recv(65_536)
            except OSError:
                data = b""
            later.put((time.monotonic() + delay, data))

    @staticmethod
    def _write(
        _source: socket.socket,
        sink: socket.socket,
        later: queue.Queue[tuple[float, bytes]],
        _delay: float,
    ) -> None:
        with suppress(OSError):
            while True:
                when, data = later.get()
                time.sleep(max(0.0, when - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
