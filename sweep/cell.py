"""What a sweep's cells consist of, and the commands of the workflow's steps.

A cell is one kernel, workload and seed; its recording is replayed on each machine. Outputs are named by a digest of all that they depend on (a recording's
is what `linemate record --key` says), so that to go on is to look which are there. Standard library only: the steps run wherever linemate does.

    cell.py run SWEEP.yaml OUT PROFILE [SNAKEMAKE OPTION…]
                               find the kernels, write OUT/matrix.json, do what is missing, and remove runs whose place in the tables a run of the matrix has taken
    cell.py record OUT KEY     a step: record a cell, write OUT/recordings/KEY.json: whether and why not
    cell.py export OUT KEY     a step: add a run to the tables in OUT/lake, write OUT/exported/KEY: which run
"""

import itertools
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import inputs
import workflow
from inputs import ROOT, digest, file_digest, find, last_line, write

LINEMATE = os.environ.get("LINEMATE", str(ROOT / "target/release/linemate"))


# --- The matrix ---------------------------------------------------------------------------------------------------------


def resolve_kernel(name):
    """The image that a name or a path stands for, with its digest; or why there is none."""
    if not name.startswith("debian:"):
        path = ROOT / name
        if not path.is_file():
            return {"name": name, "reason": f"{name}: there is no such image"}
        return {"name": name, "image": str(path), "sha256": file_digest(path)}
    path, reason = inputs.kernel_image(name)
    if path is None:
        return {"name": name, "reason": reason}
    return {"name": name, "image": path, "sha256": file_digest(path)}


def resolve_workload(name, workload):
    """Its command, files and script, where they are."""
    command = list(workload["command"])
    files = []
    # A shell is the guest's own; other programs are not.
    if command[0] != "sh":
        command[0] = find(command[0])
        if command[0] is None:
            raise SystemExit(f"sweep: workload {name}: {workload['command'][0]} is neither a workload nor on PATH")
    for entry in workload.get("files", []):
        host, _, guest = entry.partition(":")
        path = find(host)
        if path is None:
            raise SystemExit(f"sweep: workload {name}: there is no file {host}")
        files.append(f"{path}:{guest}" if guest else path)
    setup = workload.get("setup")
    if setup is not None and find(setup) is None:
        raise SystemExit(f"sweep: workload {name}: there is no script {setup}")
    return {"name": name, "command": command, "files": files, "setup": setup and find(setup)}


def machine_text(name):
    run = subprocess.run([LINEMATE, "machines", "--json", name], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"sweep: machine {name}: {last_line(run.stderr)}")
    return json.loads(run.stdout)


def record_words(cell):
    """The words of `linemate record` for a cell, except its kernel and where the recording goes."""
    guest, workload = cell["guest"], cell["workload"]
    words = ["--seed", str(cell["seed"]), "--smp", str(guest["smp"]), "--memory", str(guest["memory"]), "--timeout", str(guest["timeout"])]
    if workload["setup"]:
        words += ["--setup", workload["setup"]]
    for file in workload["files"]:
        words += ["--file", file]
    return [*words, "--", *workload["command"]]


def recording_key(cell):
    kernel = cell["kernel"]
    if "reason" in kernel:
        return digest([kernel["name"], cell["workload"], cell["seed"], cell["guest"]])
    run = subprocess.run([LINEMATE, "record", f"--key={kernel['sha256']}", *record_words(cell)], capture_output=True, text=True, cwd=ROOT)
    if run.returncode != 0:
        raise SystemExit(f"sweep: workload {cell['workload']['name']}: {last_line(run.stderr)}")
    return run.stdout.strip()


def matrix(config):
    """All cells with their keys."""
    tool = file_digest(LINEMATE)
    kernels = [resolve_kernel(name) for name in config["kernels"]]
    workloads = [resolve_workload(name, of) for name, of in config["workloads"].items()]
    machines = {name: digest(machine_text(name)) for name in config["machines"]}
    cells = [
        {"kernel": kernel, "workload": workload, "seed": seed, "guest": config["guest"]}
        for kernel, workload, seed in itertools.product(kernels, workloads, config["seeds"])
    ]
    # A key takes a tenth of a second, most of it for other programs.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        recordings = dict(zip(pool.map(recording_key, cells), cells))
    runs = {}
    for key in recordings:
        for machine in [None, *machines]:
            run = digest([key, machine and machines[machine], tool])
            runs[run] = {"recording": key, "machine": machine}
    return {"recordings": recordings, "runs": runs}


# --- The steps ----------------------------------------------------------------------------------------------------------


def record(out, key):
    """Records a cell. A recording gets its name when it is whole, so one that is there is done. A failure is noted, and the rest continues."""
    cell = json.loads((out / "matrix.json").read_text())["recordings"][key]
    target, told = out / "recordings" / f"{key}.data", out / "recordings" / f"{key}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    reason = cell["kernel"].get("reason")
    if reason is None and not target.is_file():
        reason = run_record(cell, target)
    write(told, json.dumps({"reason": reason}))


def run_record(cell, target):
    command = [LINEMATE, "record", "--kernel", cell["kernel"]["image"], "-o", str(target.absolute()), *record_words(cell)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if run.returncode == 0:
        return None
    # A failed workload was recorded, but not the requested work.
    target.unlink(missing_ok=True)
    return last_line(run.stderr).replace(str(target.absolute()), "the recording")


def export(out, key):
    """Adds a run to the tables: of a recording that failed, and of a replay that fails, the reason."""
    cells = json.loads((out / "matrix.json").read_text())
    run = cells["runs"][key]
    cell = cells["recordings"][run["recording"]]
    told = json.loads((out / "recordings" / f"{run['recording']}.json").read_text())
    base = [LINEMATE, "export", "--parquet", str(out / "lake"), "--workload", cell["workload"]["name"]]
    if run["machine"]:
        base += ["--machine", run["machine"]]
    reason = told["reason"]
    if reason is None:
        recording = out / "recordings" / f"{run['recording']}.data"
        done = subprocess.run([*base, str(recording)], capture_output=True, text=True)
        if done.returncode != 0:
            reason = last_line(done.stderr).replace(str(recording), "the recording")
    if reason is not None:
        failed = ["--failed", reason, "--kernel-name", cell["kernel"]["name"], "--guest-seed", str(cell["seed"])]
        done = subprocess.run([*base, *failed], capture_output=True, text=True)
        # Not even that: the folder of the tables is at fault, and the rule has failed.
        if done.returncode != 0:
            raise SystemExit(f"sweep: {last_line(done.stderr)}")
    write(out / "exported" / key, json.dumps({"run": exported_run(done.stderr)}))


def exported_run(told):
    """The run that `linemate export` reports as written."""
    run = re.search(r"\brun ([0-9a-f]{32}):", told)
    if run is None:
        raise SystemExit(f"sweep: export does not say which run it wrote: {last_line(told)}")
    return run[1]


def tidy(out):
    """Removes the runs of earlier matrices whose place has a run of this one: a workload or a kernel was changed, and both would count in every mean.

    A place is what queries group by: kernel, workload, machine and seed. Runs at other places stay, so that a kernel or seed that is added adds its own; so do
    runs that somebody exported by hand, which have no file in OUT/exported.
    """
    lake = out / "lake"
    exported = {path.name: json.loads(path.read_text() or "{}").get("run") for path in (out / "exported").iterdir() if not path.name.startswith(".")}
    matrix = json.loads((out / "matrix.json").read_text())["runs"]
    now = {run for key, run in exported.items() if key in matrix}
    places = {path.stem: path.parent.relative_to(lake / "runs") for path in (lake / "runs").rglob("*.parquet")}
    taken = {places[run] for run in now if run in places}
    for key, run in sorted(exported.items()):
        if run in now or places.get(run) not in taken:
            continue
        # Its row in `runs` first: without it a run does not count, should this end here.
        tables = sorted(path for path in lake.iterdir() if path.is_dir())
        for table in [lake / "runs", *tables]:
            (table / places[run] / f"{run}.parquet").unlink(missing_ok=True)
        (out / "exported" / key).unlink()


def read_yaml(path):
    # YAML's reader is Snakemake's; a matrix is written as JSON, which is YAML, where there is none.
    try:
        import yaml

        return yaml.safe_load(path.read_text())
    except ImportError:
        return json.loads(path.read_text())


def read_matrix(path):
    """A matrix; what it does not say itself is that of the one beside it which it names as its `base`."""
    config = read_yaml(path)
    base = config.pop("base", None)
    if base is None:
        return config
    if not (path.parent / base).is_file():
        raise SystemExit(f"sweep: {path}: there is no {path.parent / base}, its base")
    based = read_yaml(path.parent / base)
    if "base" in based:
        raise SystemExit(f"sweep: {path}: its base {base} has a base, too: name that one")
    return {**based, **config}


def steps_of(out, cells):
    """The workflow's steps: a recording of each cell, an export of each run."""
    steps = {}
    for key, cell in cells["recordings"].items():
        title = f"sweep: record {cell['workload']['name']} on {cell['kernel']['name']}, seed {cell['seed']}"
        steps[f"record-{key}"] = of_cell(title, out, "record", key, workflow.recording(str(cell["guest"]["memory"])))
    for key, run in cells["runs"].items():
        title = f"sweep: export {run['recording']}{' on ' + run['machine'] if run['machine'] else ''}"
        steps[f"export-{key}"] = of_cell(title, out, "export", key, workflow.ANALYSIS, [f"record-{run['recording']}"])
    return steps


def of_cell(title, out, verb, key, needs, uses=()):
    told = out / {"record": f"recordings/{key}.json", "export": f"exported/{key}"}[verb]
    command = [sys.executable, Path(__file__).resolve(), verb, out, key]
    return inputs.step(title, command, needs, uses, output=str(told), spent=str(out / "spent" / f"{verb}-{key}.json"))


def run(config_path, out, profile, options):
    """A whole sweep, from where it was interrupted."""
    cells = matrix(read_matrix(config_path))
    write(out / "matrix.json", json.dumps(cells, indent=1, sort_keys=True))
    failed = workflow.carry_out(steps_of(out, cells), out / ".run", profile, ["--keep-going", *options])
    # What a recording or a replay lacks is a row of the tables; that there are no rows is an error.
    if failed is None:
        raise SystemExit("sweep: error: Snakemake failed: its messages are above")
    for name, log in failed.items():
        raise SystemExit(f"sweep: error: {name}: {last_line(log)}")
    tidy(out)


def main(arguments):
    match arguments:
        case ["run", config, out, profile, *options]:
            run(Path(config), Path(out), profile, options)
        case ["record", out, key]:
            record(Path(out), key)
        case ["export", out, key]:
            export(Path(out), key)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
