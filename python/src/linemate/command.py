"""Documents from the command, or from files."""

import json
import os
import subprocess
from pathlib import Path
from typing import TypeVar

from .documents import DOCUMENTS

Document = TypeVar("Document")


class Refused(Exception):
    """What the command refuses, in its own words, or a document that is not the expected one."""


def ask(document: type[Document], *arguments: str | os.PathLike[str]) -> Document:
    """Runs the verb that writes this document, with `--json` and these arguments.

    The command is `linemate` on PATH, or what LINEMATE in the environment names. Raises `Refused`
    if it is not there, exits with 2 or answers with another document, which some verbs do without an option.
    """
    writer = DOCUMENTS[document][1].split()
    if "--json" not in writer:
        raise Refused(f"{document.__name__} is written to a file by `{' '.join(writer)}`: load it")
    command = os.environ.get("LINEMATE", "linemate")
    verb = writer[1:3] if writer[1] == "case" else writer[1:2]
    try:
        run = subprocess.run([command, *verb, "--json", *arguments], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
    except FileNotFoundError as fault:
        raise Refused(f"{command} is not on PATH: install it, or set LINEMATE") from fault
    if run.returncode not in (0, 1):
        raise Refused(run.stderr.strip() or f"{command} {' '.join(verb)} ended with exit code {run.returncode}")
    return _checked(document, run.stdout, f"{command} {' '.join(verb)}")


def load(document: type[Document], path: str | os.PathLike[str]) -> Document:
    """Reads a saved document. Raises `Refused` if the file holds another one."""
    return _checked(document, Path(path).read_text(encoding="utf-8"), os.fspath(path))


def _checked(document: type[Document], text: str, origin: str) -> Document:
    schema, writer = DOCUMENTS[document]
    try:
        read = json.loads(text)
    except json.JSONDecodeError as fault:
        raise Refused(f"{origin}: not JSON: {fault}") from fault
    found = read.get("schema") if isinstance(read, dict) else None
    if found != schema:
        raise Refused(f"{origin}: the schema is {found}, not {schema}, which `{writer}` writes")
    # What has this schema has these keys: the types are made from what writes it.
    answer: Document = read
    return answer
