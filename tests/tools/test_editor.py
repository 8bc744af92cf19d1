"""What an editor shows of a decorated function, asked as editors ask: in the language server protocol."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.full

FILE = '''\
from typing import Annotated
import numpy as np
import nnmagic
from nnmagic import Array, Tensor, f32

@nnmagic.function
def affine(x: Annotated[Array, Tensor[("n", 3), f32]], w: Tensor, scale: f32 = 1.0) -> float:
    """Scale a product."""
    return (x @ w * scale).sum()

@nnmagic.function(opt_level=2)
def double(x: Array):
    return x * 2

affine(np.ones((5, 3)), np.ones((3, 4)), out=np.ones((5, 4)))
affine(np.ones((5, 3)), wrong=1)
double(
affine(
'''


class Server:
    """A language server that is asked over its standard input."""

    def __init__(self, folder: Path) -> None:
        program = Path(sys.executable).with_name("basedpyright-langserver")
        self._process = subprocess.Popen(
            [program, "--stdio"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._number = 0
        self.diagnostics: list[dict[str, Any]] = []
        root = {"uri": folder.as_uri(), "name": "root"}
        self.ask("initialize", processId=None, rootUri=root["uri"], workspaceFolders=[root], capabilities={})
        self.tell("initialized")

    def tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while (message := self._receive()).get("id") != self._number or "method" in message:
            self._answer(message)
        assert "error" not in message, message
        return message["result"]

    def wait_for_diagnostics(self) -> None:
        while not self.diagnostics:
            self._answer(self._receive())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self, message: dict[str, Any]) -> None:
        """Answer a question of the server with nothing, and keep what it has found."""
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics = message["params"]["diagnostics"]
        elif "id" in message:
            result = [{} for _ in message["params"].get("items", [])] or None
            self._send({"id": message["id"], "result": result})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout
        length = 0
        while (line := self._process.stdout.readline().strip()) or not length:
            if line.lower().startswith(b"content-length"):
                length = int(line.split(b":")[1])
        return json.loads(self._process.stdout.read(length))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """A server with the file opened, and the file's address."""
    pytest.importorskip("basedpyright", reason="`make test-tools` installs basedpyright")
    folder = tmp_path_factory.mktemp("editor")
    settings = {"venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    address = (folder / "use.py").as_uri()
    started = Server(folder)
    document = {"uri": address, "languageId": "python", "version": 1, "text": FILE}
    started.tell("textDocument/didOpen", textDocument=document)
    yield started, address
    started.close()


@pytest.mark.parametrize(
    ("line", "parameters"),
    [
        ("affine(", "(x: Array, w: Tensor, scale: f32 = 1) -> float"),
        ("double(", "(x: Array) -> Array"),
    ],
)
def test_a_call_completes_its_parameters(server: tuple[Server, str], line: str, parameters: str) -> None:
    asked, address = server
    position = {"line": FILE.split("\n").index(line), "character": len(line)}
    shown = asked.ask("textDocument/signatureHelp", textDocument={"uri": address}, position=position)
    labels = [signature["label"] for signature in shown["signatures"]]
    assert labels[0].startswith(parameters), labels


def test_a_wrong_argument_is_underlined_and_out_is_not(server: tuple[Server, str]) -> None:
    asked, _ = server
    asked.wait_for_diagnostics()
    calls = [each for each in asked.diagnostics if each.get("code") == "reportCallIssue"]
    assert {each["range"]["start"]["line"] for each in calls} & {14, 15} == {15}
