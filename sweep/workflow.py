"""What sweeps and surveys have in common: where workloads are, names of outputs, and the start of the workflow (sweep/Snakefile). Standard library only."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["target/workloads", "workloads/subsystems", "workloads"]

# Changes when outputs that were kept under equal keys would be made in another way.
KEYS = "linemate.sweep/3"


def digest(value):
    """Half of a SHA-256 of a value as JSON: it tells cells apart and makes a name of 32 digits."""
    text = json.dumps([KEYS, value], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(path, text):
    """Writes a file as a whole: whoever finds it finds all of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def find(name):
    """A file of the workloads, by its path from the checkout, because recordings tell their commands; else a program on PATH, or None."""
    if "/" in name:
        return name if (ROOT / name).is_file() else None
    for folder in FOLDERS:
        if (ROOT / folder / name).is_file():
            return f"{folder}/{name}"
    return shutil.which(name)


def last_line(text):
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1].removeprefix("linemate: ") if lines else "it gives no reason"


def kernel_image(name):
    """The image that `debian:6.12` stands for; or None and why there is none."""
    run = subprocess.run([ROOT / "scripts/kernel-image.sh", name], capture_output=True, text=True)
    if run.returncode != 0:
        return None, last_line(run.stderr).removeprefix("kernel-image: ")
    return run.stdout.strip(), None


def recording(memory):
    """What a recording needs, of a guest with that memory: one virtual CPU runs at a time, and the recorder encodes beside it; QEMU, and two memory images."""
    guest = int(memory[:-1]) * 1024 if memory.endswith("G") else int(memory.removesuffix("M"))
    return {"threads": 2, "mem_mb": 1000 + 2 * guest, "runtime": 60}


ANALYSIS = {"threads": 1, "mem_mb": 1500, "runtime": 30}


def step(title, command, needs, uses=(), **more):
    """A step, as sweep/step.py describes it."""
    return {"title": title, "command": [str(word) for word in command], "folder": str(ROOT), "uses": list(uses), **needs, **more}


def missing(steps):
    """The steps whose output does not exist, each after those of them that it uses."""
    absent = {name: of for name, of in steps.items() if not Path(of["output"]).is_file()}
    return {name: {**of, "uses": [used for used in of["uses"] if used in absent]} for name, of in absent.items()}


def carry_out(steps, folder, profile, options=()):
    """Carries out the steps whose output is missing. Gives the last lines of the logs of those that failed, by name; None if Snakemake itself failed."""
    steps = missing(steps)
    if not steps:
        return {}
    # What is in it is one run's: which steps are done, their outputs say.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "steps.json").write_text(json.dumps(steps))
    command = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "sweep/Snakefile", "--profile", ROOT / "sweep/profiles" / profile]
    command += ["--directory", folder, "--nolock"]
    if profile == "local":
        command += ["--resources", f"mem_mb={os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 2**20}"]
    # A stop from the keyboard is Snakemake's, which waits for its steps.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    run = subprocess.run([str(word) for word in [*command, *options]], stdout=sys.stderr)
    signal.signal(signal.SIGINT, before)
    failed = {name: (folder / f"{name}.log").read_text(errors="replace") for name in steps if (folder / f"{name}.failed").is_file()}
    return failed if run.returncode == 0 or failed else None
