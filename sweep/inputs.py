"""What sweeps and surveys use: where workloads and kernels are, and names of outputs. Standard library only."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import step as step_program

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["target/workloads", "workloads/subsystems", "workloads"]

# Changes when outputs that were kept under equal keys would be made in another way.
KEYS = "linemate.sweep/3"


def digest(value):
    """Half of a SHA-256 of a value as JSON: distinguishes cells, as a name of 32 digits."""
    text = json.dumps([KEYS, value], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(path, text):
    """Writes a file as a whole: a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def find(name):
    """A file of the workloads, by its path from the checkout, because recordings name their commands; else a program on PATH, or None."""
    if "/" in name:
        return name if (ROOT / name).is_file() else None
    for folder in FOLDERS:
        if (ROOT / folder / name).is_file():
            return f"{folder}/{name}"
    return shutil.which(name)


def last_line(text):
    """The reason that a command gives."""
    return step_program.last_line(text) or "it gives no reason"


def kernel_image(name):
    """The image of a name such as `debian:6.12`; or None and the reason."""
    run = subprocess.run([ROOT / "scripts/kernel-image.sh", name], capture_output=True, text=True)
    if run.returncode != 0:
        return None, last_line(run.stderr).removeprefix("kernel-image: ")
    return run.stdout.strip(), None


def step(title, command, needs, uses=(), **more):
    """A step, as sweep/step.py describes it."""
    return {"title": title, "command": [str(word) for word in command], "folder": str(ROOT), "uses": list(uses), **needs, **more}
