"""Records the workloads of a list, asks each recording what linemate would change, and ranks the answers over all workloads (evidence/findings.md).

    survey.py [OPTION…] OUT          all steps, each from where it was interrupted
    survey.py [OPTION…] OUT STEP…    record, ask, design, try, rank

What is there is done: outputs are named by digests of what they depend on, and get their names when they are whole.
"""

import argparse
import copy
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ranking  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["target/workloads", "workloads/subsystems", "workloads"]
STEPS = ["record", "ask", "design", "try", "rank"]

# A type is asked about in a workload if it has at least this share of the workload's cycles there: less is lost in the interval of the whole.
SHARE_MIN = 0.001


def fail(text):
    raise SystemExit(f"survey: error: {text}")


def say(text):
    print(f"survey: {text}", file=sys.stderr, flush=True)


def digest(of):
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:16]


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()


def write_whole(path, text):
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.write_text(text)
    new.replace(path)


def find(name):
    """A file of the workloads, by its path from the checkout, or a program of the search path."""
    if "/" in name:
        return name if (ROOT / name).is_file() else None
    for folder in FOLDERS:
        if (ROOT / folder / name).is_file():
            return f"{folder}/{name}"
    return shutil.which(name)


# --- The list -----------------------------------------------------------------------------------------------------------


def read_list(text):
    """The workloads of a list, in its order."""
    workloads = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|", 4)]
        if len(parts) != 5 or not parts[0] or not parts[4]:
            fail(f"line {number} of the list is not `name | set-up | files | memory | command`")
        name, setup, files, memory, command = parts
        if any(name == other["name"] for other in workloads):
            fail(f"line {number} of the list: there is a workload {name} already")
        workloads.append({"name": name, "setup": setup, "files": files.split(), "memory": memory, "command": shlex.split(command)})
    return workloads


def found(name, workload):
    path = find(name)
    if path is None:
        fail(f"workload {workload['name']}: there is no {name} in {', '.join(FOLDERS)} nor on the search path")
    return path


def read_edit(path):
    """The candidate of a file of `--edit`. One that names no type would be tried nowhere, and nobody told."""
    try:
        candidate = ranking.given(path.stem, path.read_text())
    except (OSError, UnicodeDecodeError) as err:
        fail(f"--edit {path}: {err.strerror if isinstance(err, OSError) else 'is not text'}")
    if not candidate["types"]:
        fail(f"--edit {path}: no line of it is `type T`, so there is no workload to try it in; each statement has a line of its own (docs/reference/edits.md)")
    return candidate


def replayed_on(place):
    """The words that replay on `MACHINE` or on `MACHINE:CPUS`."""
    machine, colon, cpus = place.partition(":")
    return ["--machine", machine, *(["--cpus", cpus] if colon else [])]


def modules_folder(out, kernel, names):
    """The folder with these modules of the kernel, made if it is not there."""
    folder = out / "modules" / digest([kernel, names])
    if not folder.is_dir():
        new = folder.with_name(folder.name + ".new")
        shutil.rmtree(new, ignore_errors=True)
        new.parent.mkdir(parents=True, exist_ok=True)
        run = subprocess.run([ROOT / "scripts/kernel-modules.sh", kernel, new, *names], cwd=ROOT)
        if run.returncode != 0:
            fail(f"there are no modules {', '.join(names)} of {kernel}")
        new.rename(folder)
    return folder


def prepare(options, workload):
    """The words of `linemate record` for the workload, and the key of what it makes."""
    words = ["--smp", str(options.smp), "--memory", workload["memory"]]
    if workload["setup"]:
        words += ["--setup", found(workload["setup"], workload)]
    for entry in workload["files"]:
        if entry.startswith("modules:"):
            folder = modules_folder(options.out, options.image, entry.removeprefix("modules:").split(","))
            words += ["--file", f"{folder}:/modules"]
            continue
        host, _, guest = entry.partition(":")
        path = found(host, workload)
        words += ["--file", f"{path}:{guest}" if guest else path]
    command = list(workload["command"])
    # A shell is the guest's own; the words of what it runs that are programs of the workloads are brought by their names.
    if command[0] != "sh":
        command[0] = found(command[0], workload)
    words += ["--", *command]
    run = subprocess.run([options.linemate, "record", f"--key={options.image_digest}", *words], cwd=ROOT, capture_output=True, text=True)
    if run.returncode != 0:
        fail(f"workload {workload['name']}: {run.stderr.strip()}")
    return words, run.stdout.strip()


# --- The steps ----------------------------------------------------------------------------------------------------------


def run_to(command, target):
    """The command's output, in the file when it is whole; what it says on its error output if it failed."""
    with open(f"{target}.new", "wb") as out:
        run = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=out, stderr=subprocess.PIPE)
    if run.returncode != 0:
        os.unlink(f"{target}.new")
        lines = run.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {run.returncode}"
    os.replace(f"{target}.new", target)
    return None


class Survey:
    def __init__(self, options):
        self.options = options
        self.out = options.out
        self.failures = []
        self.workloads = [w for w in read_list(Path(options.list).read_text()) if not options.only or w["name"] in options.only]
        for folder in ["recordings", "asked", "designed", "tried"]:
            (self.out / folder).mkdir(parents=True, exist_ok=True)

    def failed(self, what, why):
        say(f"{what}: {why}")
        self.failures.append((what, why.removeprefix("linemate: ").removeprefix("error: ")))

    def record(self):
        """All workloads' recordings, by name; those that fail are told, and are not in the result."""
        recordings = {}
        for workload in self.workloads:
            name = workload["name"]
            words, key = prepare(self.options, workload)
            target = self.out / "recordings" / f"{name}-{key}.data"
            told = target.with_suffix(".failed")
            if not target.is_file() and not told.is_file() and "record" in self.options.steps:
                say(f"recording {name}")
                command = [self.options.linemate, "record", "--kernel", self.options.image]
                command += ["--timeout", self.options.timeout, "-o", target.with_suffix(".part")]
                run = subprocess.run([str(w) for w in [*command, *words]], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True)
                if run.returncode == 0:
                    target.with_suffix(".part").replace(target)
                else:
                    target.with_suffix(".part").unlink(missing_ok=True)
                    # What the guest said comes before what record says of it; the recording itself is of no interest then.
                    lines = run.stderr.decode(errors="replace").strip().splitlines()
                    lines = [line for line in lines if " accesses, " not in line and not line.startswith("linemate: Next")]
                    write_whole(told, (" / ".join(lines[-3:]) or f"exit code {run.returncode}") + "\n")
            if target.is_file():
                recordings[name] = target
            elif told.is_file():
                self.failed(name, told.read_text().strip())
        return recordings

    def document(self, folder, name, command, make):
        """What the command answers, from the folder if it was asked before; None if it failed or is not to be asked."""
        words = [str(word) for word in command]
        target = self.out / folder / f"{name}-{digest([words, self.options.tool_digest])}.json"
        if not target.is_file():
            if not make:
                return None
            why = run_to([self.options.linemate, *words], target)
            if why is not None:
                self.failed(f"{name}: {words[0]}", why)
                return None
        return json.loads(target.read_text())

    def ask(self, recordings):
        """For each workload and machine what its types cost and which remedies other than an order there are."""
        make = "ask" in self.options.steps
        costs, asked = {}, {}
        places = [(name, machine) for machine in self.options.machine for name in recordings]
        # Costs are quick: with them alone types can be ranked, so remedies of all come after the costs of all.
        for name, machine in places:
            if make:
                say(f"what {name} costs on {machine}")
            costs[name, machine] = self.document("asked", name, ["report", "-i", recordings[name], *replayed_on(machine), "--json"], make)
        for name, machine in places:
            if costs[name, machine] is None:
                continue
            if make and not self.options.no_remedies:
                say(f"remedies of {name} on {machine}")
            words = ["advise", "-i", recordings[name], *replayed_on(machine), "--top", "0", "--trials", "0", "--json"]
            remedies = self.document("asked", name, words, make and not self.options.no_remedies)
            asked[name, machine] = ranking.survey_of(costs[name, machine], remedies)
        return asked

    def design(self, asked, recordings):
        """The candidates: remedies of the surveys, and for the types with most false sharing layouts that advise finds."""
        machine = self.options.machine[0]
        here = ranking.on_machine(asked, machine)
        candidates = list(self.options.given)
        candidates += ranking.remedy_candidates(here, self.options.remedies)
        for type_name, names in ranking.types_to_search(here, self.options.types):
            learn = names[: self.options.learn]
            words = ["advise", "--type", type_name, *replayed_on(machine), "--moves", self.options.moves, "--trials", "0", "--json"]
            for name in learn:
                words += ["-i", recordings[name]]
            make = "design" in self.options.steps
            if make:
                say(f"a layout of {type_name} from {', '.join(learn)}")
            advice = self.document("designed", type_name, words, make)
            layout = advice and advice.get("recommended")
            if layout:
                candidates.append({"kind": "layout", "subject": type_name, "types": [type_name], "edits": layout["edits"], "from": learn})
        return candidates

    def try_all(self, asked, recordings, candidates):
        """Each candidate in every workload in which its types cost something: the measures of whatif."""
        tried = {}
        for (name, machine), survey in asked.items():
            for number, candidate in enumerate(candidates):
                if ranking.share_of(survey, candidate["types"]) < SHARE_MIN:
                    continue
                edit = self.out / "tried" / f"{digest(candidate['edits'])}.edit"
                if not edit.is_file():
                    write_whole(edit, candidate["edits"])
                words = ["whatif", "-i", recordings[name], *replayed_on(machine), "--edit", edit, "--json"]
                make = "try" in self.options.steps
                if make:
                    say(f"{candidate['kind']} {candidate['subject']} in {name} on {machine}")
                answer = self.document("tried", name, words, make)
                if answer is not None:
                    tried[number, name, machine] = ranking.effect_of(answer)
        return tried


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=lambda path: Path(path).resolve(), metavar="OUT", help="folder of everything that is made")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; all if none is named")
    parser.add_argument("--kernel", default="debian:7.3", help="a kernel's name or image")
    parser.add_argument("--beside", help="another kernel, of which the costs alone are asked: columns beside this one's")
    parser.add_argument("--machine", action="append", metavar="MACHINE[:CPUS]", help="may be repeated; candidates come from the first [gnr-2s-480]")
    parser.add_argument("--list", default=ROOT / "workloads/subsystems/list", help="the workloads")
    parser.add_argument("--only", action="append", help="this workload alone; may be repeated")
    parser.add_argument("--smp", default="8", help="recorded CPUs")
    parser.add_argument("--timeout", default="600", help="seconds for a recording")
    parser.add_argument("--remedies", type=int, default=30, help="remedies that are tried, by what is at stake")
    parser.add_argument("--no-remedies", action="store_true", help="ask for no remedies that have not been asked for yet")
    parser.add_argument("--types", type=int, default=12, help="types whose layout is searched, by false sharing")
    parser.add_argument("--learn", type=int, default=1, help="recordings that a layout is searched on, those with most false sharing")
    parser.add_argument("--moves", default="4", help="the most moves of a layout")
    parser.add_argument("--edit", action="append", type=Path, default=[], help="a file with an edit that is tried, too; may be repeated")
    parser.add_argument("--linemate", default=ROOT / "target/release/linemate", help="the command")
    options = parser.parse_intermixed_args()
    unknown = [step for step in options.steps if step not in STEPS]
    if unknown:
        parser.error(f"there is no step {unknown[0]}: {', '.join(STEPS)}")
    options.steps = options.steps or STEPS
    options.machine = options.machine or ["gnr-2s-480"]
    return options


def of_kernel(options, kernel):
    """The options for a survey of that kernel: its image and the image's digest."""
    options = copy.copy(options)
    options.image = kernel
    if kernel.startswith("debian:"):
        run = subprocess.run([ROOT / "scripts/kernel-image.sh", kernel], stdout=subprocess.PIPE, text=True)
        if run.returncode != 0:
            fail(f"there is no kernel {kernel}")
        options.image = run.stdout.strip()
    options.image_digest = file_digest(options.image)
    return options


def kernel_name(image):
    """What a kernel is called in tables: its image's name as distributions have it, without what says that it is one."""
    return Path(image).name.removeprefix("vmlinuz-")


def costs_beside(options, failures):
    """The name of the kernel of `--beside`, and what the same workloads cost there on the first machine."""
    options = of_kernel(options, options.beside)
    options.machine, options.no_remedies = options.machine[:1], True
    survey = Survey(options)
    costs = survey.ask(survey.record())
    failures += survey.failures
    return kernel_name(options.image), costs


def main():
    options = arguments()
    options.linemate = Path(options.linemate).resolve()
    if not options.linemate.is_file():
        fail(f"there is no {options.linemate}: run `make build`")
    options.tool_digest = file_digest(options.linemate)
    # Read first, so that a wrong file is told before hours of recordings.
    options.given = [read_edit(path) for path in options.edit]
    survey = Survey(of_kernel(options, options.kernel))
    recordings = survey.record()
    asked = survey.ask(recordings)
    candidates = survey.design(asked, recordings)
    tried = survey.try_all(asked, recordings, candidates)
    beside = costs_beside(options, survey.failures) if options.beside else None
    if "rank" in options.steps:
        text = ranking.tables(kernel_name(survey.options.image), asked, candidates, tried, survey.failures, beside)
        write_whole(survey.out / "ranking.md", text)
        say(f"wrote {survey.out / 'ranking.md'}")


if __name__ == "__main__":
    main()
