# SPDX-License-Identifier: Apache-2.0
"""http.server with a thread for each connection: documents are posted, changed, searched and rendered.

Threads start and end with their clients; what one thread stores, another changes and drops.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import xml.etree.ElementTree as ElementTree
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

lock = threading.Lock()
documents: dict[str, dict[str, Any]] = {}
packed: dict[str, bytes] = {}
MAY_BE_KEPT = 150


def keep(name: str, document: dict[str, Any]) -> None:
    with lock:
        documents[name] = document
        packed[name] = zlib.compress(json.dumps(document).encode())
        while len(documents) > MAY_BE_KEPT:
            oldest = next(iter(documents))
            del documents[oldest], packed[oldest]


def render(document: dict[str, Any]) -> bytes:
    root = ElementTree.Element("document", version=str(len(document["rows"])))
    for row in document["rows"]:
        element = ElementTree.SubElement(root, "row", {key: str(value) for key, value in row.items()})
        element.text = row["text"].title()
    return ElementTree.tostring(ElementTree.fromstring(ElementTree.tostring(root)))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        if self.path == "/quit":
            self.answer(b"")
            threading.Thread(target=self.server.shutdown).start()
            return
        keep(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(b"{}")

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        with lock:
            document = documents.get(path)
            body = packed.get(path, b"")
        if query.startswith("find="):
            pattern = re.compile(query[5:] + r"\w*")
            self.answer(json.dumps([pattern.findall(row["text"]) for row in document["rows"]] if document else []).encode())
        elif query == "xml" and document:
            self.answer(render(document))
        else:
            self.answer(zlib.decompress(body) if body else b"{}")


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
