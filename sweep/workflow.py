"""Starts the workflow (sweep/Snakefile) for sweeps, surveys and cases. Standard library only.

    workflow.py STEPS.json FOLDER PROFILE [SNAKEMAKE OPTION…]     carry out the steps of a case, as `linemate case run` lists them

FOLDER is one run's; PROFILE a name of sweep/profiles, or a folder with a config.yaml. The exit code is 0 if all steps are done. A failed step leaves
FOLDER/NAME.failed and FOLDER/NAME.log.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def recording(memory):
    """What a recording needs, of a guest with that memory: one virtual CPU runs at a time, and the recorder encodes beside it; QEMU, and two memory images."""
    guest = int(memory[:-1]) * 1024 if memory.endswith("G") else int(memory.removesuffix("M"))
    return {"threads": 2, "mem_mb": 1000 + 2 * guest, "runtime": 60}


ANALYSIS = {"threads": 1, "mem_mb": 1500, "runtime": 30}


def build():
    """What a kernel's build needs: every core, and a compiler's memory on each."""
    cores = os.cpu_count() or 1
    return {"threads": cores, "mem_mb": 2000 + 500 * cores, "runtime": 240}


def missing(steps):
    """The steps whose output does not exist, each after those of them that it uses."""
    absent = {name: of for name, of in steps.items() if not Path(of["output"]).is_file()}
    return {name: {**of, "uses": [used for used in of["uses"] if used in absent]} for name, of in absent.items()}


def snakemake(folder, profile):
    """The command that carries out FOLDER/steps.json."""
    # A package of the distribution has its own Python.
    program = [sys.executable, "-m", "snakemake"] if importlib.util.find_spec("snakemake") else ["snakemake"]
    settings = profile if "/" in profile else HERE / "profiles" / profile
    command = [*program, "--snakefile", HERE / "Snakefile", "--profile", settings, "--directory", folder, "--nolock"]
    if profile == "local":
        command += ["--resources", f"mem_mb={os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 2**20}"]
    return [str(word) for word in command]


def carry_out(steps, folder, profile, options=(), leads=False):
    """Carries out the steps whose output is missing; `leads`: everything in this process's group is the workflow's. Gives the last lines of the logs of those that failed, by name; None if Snakemake itself failed."""
    steps = missing(steps)
    if not steps:
        return {}
    # What is in it is one run's: which steps are done, their outputs say.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "steps.json").write_text(json.dumps(steps))
    with Stop(leads) as stop, subprocess.Popen([*snakemake(folder, profile), *options], stdout=sys.stderr) as run:
        stop.watch(run)
        run.wait()
    failed = {name: (folder / f"{name}.log").read_text(errors="replace") for name in steps if (folder / f"{name}.failed").is_file()}
    return failed if run.returncode == 0 or failed else None


class Stop:
    """While it is entered, a stop ends the workflow. A stop from the keyboard reaches Snakemake by itself, which waits for its steps; SIGTERM is passed on as
    that. Snakemake takes SIGTERM for a wish to finish what runs, which on a cluster may take hours, and its handler takes a lock that the interrupted code may
    hold: then it waits for itself."""

    def __init__(self, leads):
        self.run = None
        self.stopped = False
        self.leads = leads

    def __enter__(self):
        # Before Snakemake starts, which would inherit an ignored SIGINT from a shell's background job.
        handlers = {signal.SIGINT: lambda *_: None, signal.SIGTERM: lambda *_: self.stop()}
        self.before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def watch(self, run):
        """From now on `run` is what is stopped."""
        self.run = run
        if self.stopped:
            self.stop()

    def stop(self):
        self.stopped = True
        if self.run and self.leads:
            os.killpg(0, signal.SIGINT)
        elif self.run:
            self.run.send_signal(signal.SIGINT)

    def __exit__(self, *_):
        if self.stopped and self.leads:
            # What a shell starts in the background ignores SIGINT.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
        for number, handler in self.before.items():
            signal.signal(number, handler)


def of_case(step):
    """A step with what it needs, of which a case names the kind."""
    kind = step.pop("needs")
    needs = {"analysis": lambda: ANALYSIS, "build": build}.get(kind) or (lambda: recording(kind))
    return {**step, **needs()}


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    listed = json.loads(Path(sys.argv[1]).read_text())
    outcome = carry_out({name: of_case(of) for name, of in listed.items()}, Path(sys.argv[2]), sys.argv[3], sys.argv[4:], leads=True)
    raise SystemExit(0 if outcome == {} else 1)
