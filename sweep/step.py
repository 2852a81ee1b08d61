"""Carries out a step of steps.json in the current folder (sweep/Snakefile). Standard library only.

    step.py NAME

A step is an object with `title`, `command`, `folder` (where it runs), and what a scheduler needs: `uses`, `threads`, `mem_mb`, `runtime` (minutes). It may have

    output   the file that appears when the step has succeeded, as a whole; if it exists, the step is done
    takes    what becomes the output: `made` (the file `made`, which the command writes), `stdout`, `image` (the file that the last line of stdout names) or
             `said` (that line, as JSON); without it the command sees to its output
    lock     a file: steps with the same one run one at a time, also those of other runs
    spent    a file for the seconds and the memory that the step took

A step that fails leaves NAME.failed, with its reason, and NAME.log.
"""

import contextlib
import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# How often a lock is tried, in seconds.
LOOK = 0.1


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("linemate: ") if lines else None


def text_of(path):
    return path.read_text(errors="replace")


@contextlib.contextmanager
def alone(path, stopped):
    """Holds a file's lock; not if a stop ends the wait for it. The kernel takes it from a process that dies."""
    with open(path, "wb") as file:
        while not stopped:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(LOOK)
        yield


class Step:
    """A step; `stopped` is empty until the run is stopped."""

    def __init__(self, name, stopped):
        self.stopped = stopped
        self.of = json.loads(Path("steps.json").read_text())[name]
        self.stdout, self.log, self.failed = (Path(f"{name}.{ending}") for ending in ("stdout", "log", "failed"))
        self.output = Path(self.of["output"]) if "output" in self.of else None
        self.made = Path(self.of.get("made", f"{name}.made"))

    def is_done(self):
        return self.output is not None and self.output.is_file()

    def carry_out(self):
        with alone(self.of["lock"], self.stopped) if "lock" in self.of else contextlib.nullcontext():
            # The stop did not reach a command that starts only now.
            if self.stopped:
                return "stopped"
            # The run that held the lock may have made the same.
            if self.is_done():
                return None
            with open(self.stdout, "wb") as stdout, open(self.log, "wb") as log:
                run = subprocess.run(self.of["command"], cwd=self.of["folder"], stdin=subprocess.DEVNULL, stdout=stdout, stderr=log)
            if run.returncode == 0:
                return self.publish()
        if self.of.get("takes") == "said":
            # The kernel's complaints come before those of `linemate record`.
            self.log.write_text(text_of(self.stdout) + text_of(self.log))
        if run.returncode < 0:
            # Its last line, if any, is about something else.
            return f"ended by signal {-run.returncode}"
        return last_line(text_of(self.log)) or f"exit code {run.returncode}"

    def publish(self):
        """Gives the output its name; the reason if there is none."""
        takes = self.of.get("takes")
        if takes is None:
            return None
        said = last_line(text_of(self.stdout)) if takes in ("image", "said") else None
        if takes == "stdout":
            self.made = self.stdout
        elif takes == "image":
            try:
                shutil.copyfile(said or "", self.made)
            except OSError as error:
                return f"the build reports {said} as its image: {error.strerror}"
        elif takes == "said":
            self.made.write_text(json.dumps({"said": said or "no output"}, separators=(",", ":"), ensure_ascii=False))
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.made.replace(self.output)
        return None


def spent(path, started):
    """Keeps what a step took, of all processes that it waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "wall_seconds": round(time.monotonic() - started, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_mib": used.ru_maxrss // 1024,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(figures))
    partial.replace(path)


def main(name):
    # A stop must reach the command, too, which has a guest or a compiler to end: this process waits
    # for it.
    stopped = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.append(True))
    started = time.monotonic()
    step = Step(name, stopped)
    if step.is_done():
        return
    # Slurm's profile tries twice.
    step.failed.unlink(missing_ok=True)
    title = step.of["title"]
    print(f"{title}: started", flush=True)
    try:
        reason = step.carry_out()
    except OSError as error:
        # A program that does not start, a full disk.
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        with open(step.log, "a") as log:
            print(reason, file=log)
    if reason is not None:
        if not stopped:
            step.failed.write_text(reason)
        raise SystemExit(1)
    if "spent" in step.of:
        spent(Path(step.of["spent"]), started)
    print(f"{title}: {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
