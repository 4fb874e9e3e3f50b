"""Throw-away certificates by the openssl command."""

from __future__ import annotations

import os
import subprocess


class Certificates:
    """Files: `ca`; `certificate` and `key` of a server at localhost and 127.0.0.1, or of a client;
    `other_ca`, who signed nothing."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self.ca = self._authority("ca")
        self.other_ca = self._authority("other-ca")
        self.certificate = self._path("server.crt")
        self.key = self._path("server.key")
        request = self._path("server.csr")
        _openssl(
            "req", "-new", *_NEW_KEY, "-subj", "/CN=server", "-keyout", self.key, "-out", request
        )
        names = self._path("names")
        with open(names, "w") as file:
            file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        signer = ["-CA", self.ca, "-CAkey", self._path("ca.key"), "-CAcreateserial"]
        made = ["-days", "2", "-extfile", names, "-out", self.certificate]
        _openssl("x509", "-req", "-in", request, *signer, *made)

    def _authority(self, name: str) -> str:
        path = self._path(f"{name}.crt")
        subject = ["-days", "2", "-subj", f"/CN={name}", "-keyout", self._path(f"{name}.key")]
        _openssl("req", "-x509", *_NEW_KEY, *subject, "-out", path)
        return path

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


_NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
