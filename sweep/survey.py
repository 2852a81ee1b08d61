"""Records the workloads of a list, asks each recording what linemate would change, and ranks the answers over all workloads (evidence/findings.md).

    survey.py [OPTION…] OUT          all steps, each from where it was interrupted
    survey.py [OPTION…] OUT STEP…    record, ask, design, try, rank

What is there is done: outputs are named by digests of what they depend on, and get their names when they are whole. What is missing is carried out by the
workflow (sweep/Snakefile), in three rounds, because what to design and to try follows from the answers before.
"""

import argparse
import copy
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import inputs
import ranking
import workflow
from inputs import FOLDERS, ROOT, digest, file_digest, find, write

STEPS = ["record", "ask", "design", "try", "rank"]

# A type is examined in a workload if it has at least this share of the workload's cycles there:
# less is lost in the interval of the total.
SHARE_MIN = 0.001


def fail(text):
    raise SystemExit(f"survey: error: {text}")


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
    """The candidate of a file of `--edit`. One that names no type would be tried nowhere, without a word."""
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
    # A shell is the guest's own; the words of its command that are programs of the workloads are
    # copied by their names.
    if command[0] != "sh":
        command[0] = found(command[0], workload)
    words += ["--", *command]
    run = subprocess.run([options.linemate, "record", f"--key={options.image_digest}", *words], cwd=ROOT, capture_output=True, text=True)
    if run.returncode != 0:
        fail(f"workload {workload['name']}: {run.stderr.strip()}")
    return words, run.stdout.strip()


# --- The steps ----------------------------------------------------------------------------------------------------------


def complaint(log):
    """What a failed recording said: what the guest said comes before what record says of it; the recording itself is of no interest then."""
    lines = log.strip().splitlines()
    lines = [line for line in lines if " accesses, " not in line and not line.startswith("linemate: Next")]
    return (" / ".join(lines[-3:]) or "it gives no reason") + "\n"


class Survey:
    def __init__(self, options):
        self.options = options
        self.out = options.out
        self.failures = []
        self.workloads = [w for w in read_list(Path(options.list).read_text()) if not options.only or w["name"] in options.only]
        # The steps of the next round, and for the output of every step that failed the end of its log.
        self.wanted, self.logs = {}, {}

    def want(self, verb, step):
        """Adds a step to the next round, if its verb is one that is asked for. Gives its output."""
        if verb in self.options.steps:
            self.wanted[Path(step["output"]).name] = step
        return Path(step["output"])

    def carry_out(self):
        failed = workflow.carry_out(self.wanted, self.out / ".run", self.options.profile, ["--keep-going"])
        if failed is None:
            fail("Snakemake failed: its messages are above")
        self.logs.update(failed)
        self.wanted = {}

    def failed(self, what, why):
        self.failures.append((what, why.removeprefix("linemate: ").removeprefix("error: ")))

    def record(self):
        """Wants all workloads' recordings. Gives them by name, also those that will fail."""
        recordings = {}
        for workload in self.workloads:
            name = workload["name"]
            words, key = prepare(self.options, workload)
            target = self.out / "recordings" / f"{name}-{key}.data"
            recordings[name] = target
            if target.with_suffix(".failed").is_file():
                continue
            made = self.out / ".run" / f"{target.name}.made"
            command = [self.options.linemate, "record", "--kernel", self.options.image, "--timeout", self.options.timeout, "-o", made, *words]
            needs = workflow.recording(workload["memory"])
            self.want("record", inputs.step(f"survey: record {name}", command, needs, output=str(target), made=str(made), takes="made"))
        return recordings

    def recorded(self, recordings):
        """Those that were made; the others are reported."""
        made = {}
        for name, target in recordings.items():
            told = target.with_suffix(".failed")
            if target.name in self.logs:
                write(told, complaint(self.logs[target.name]))
            if target.is_file():
                made[name] = target
            elif told.is_file():
                self.failed(name, told.read_text().strip())
        return made

    def document(self, verb, folder, name, command, uses=()):
        """Wants what the command answers. Gives where it will be."""
        words = [str(word) for word in command]
        target = self.out / folder / f"{name}-{digest([words, self.options.tool_digest])}.json"
        title = f"survey: {words[0]} of {name}"
        return self.want(verb, inputs.step(title, [self.options.linemate, *words], workflow.ANALYSIS, uses, output=str(target), takes="stdout"))

    def answer(self, name, verb, target):
        """A document; None if it failed or was not asked for."""
        if target.is_file():
            return json.loads(target.read_text())
        if target.name in self.logs:
            self.failed(f"{name}: {verb}", inputs.last_line(self.logs[target.name]))
        return None

    def ask(self):
        """For each workload that can be recorded and each machine what its types cost and which remedies other than an order there are; and the recordings."""
        recordings = self.record()
        there = [name for name, target in recordings.items() if target.is_file() or target.name in self.wanted]
        places = [(name, machine) for machine in self.options.machine for name in there]
        costs, remedies = {}, {}
        for name, machine in places:
            of = ["-i", recordings[name], *replayed_on(machine)]
            uses = [recordings[name].name]
            costs[name, machine] = self.document("ask", "asked", name, ["report", *of, "--json"], uses)
            verb = "none" if self.options.no_remedies else "ask"
            words = ["advise", *of, "--top", "0", "--trials", "0", "--json"]
            # Costs are quick: with them alone types can be ranked, so remedies come after them.
            remedies[name, machine] = self.document(verb, "asked", name, words, [*uses, costs[name, machine].name])
        self.carry_out()
        made, asked = self.recorded(recordings), {}
        for name, machine in places:
            cost = self.answer(name, "report", costs[name, machine]) if name in made else None
            if cost is not None:
                asked[name, machine] = ranking.survey_of(cost, self.answer(name, "advise", remedies[name, machine]))
        return asked, made

    def design(self, asked, recordings):
        """The candidates: remedies of the surveys, and for the types with most false sharing layouts that advise finds."""
        machine = self.options.machine[0]
        here = ranking.on_machine(asked, machine)
        candidates = list(self.options.given)
        candidates += ranking.remedy_candidates(here, self.options.remedies)
        layouts = []
        for type_name, names in ranking.types_to_search(here, self.options.types):
            learn = names[: self.options.learn]
            words = ["advise", "--type", type_name, *replayed_on(machine), "--moves", self.options.moves, "--trials", "0", "--json"]
            for name in learn:
                words += ["-i", recordings[name]]
            layouts.append((type_name, learn, self.document("design", "designed", type_name, words)))
        self.carry_out()
        for type_name, learn, target in layouts:
            advice = self.answer(type_name, "advise", target)
            layout = advice and advice.get("recommended")
            if layout:
                candidates.append({"kind": "layout", "subject": type_name, "types": [type_name], "edits": layout["edits"], "from": learn})
        return candidates

    def try_all(self, asked, recordings, candidates):
        """Each candidate in every workload in which its types cost something: the measures of whatif."""
        trials = {}
        for (name, machine), survey in asked.items():
            for number, candidate in enumerate(candidates):
                if ranking.share_of(survey, candidate["types"]) < SHARE_MIN:
                    continue
                edit = self.out / "tried" / f"{digest(candidate['edits'])}.edit"
                if not edit.is_file():
                    write(edit, candidate["edits"])
                words = ["whatif", "-i", recordings[name], *replayed_on(machine), "--edit", edit, "--json"]
                trials[number, name, machine] = self.document("try", "tried", name, words)
        self.carry_out()
        answers = {place: self.answer(place[1], "whatif", target) for place, target in trials.items()}
        return {place: ranking.effect_of(answer) for place, answer in answers.items() if answer is not None}


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
    parser.add_argument("--profile", default=os.environ.get("SWEEP_PROFILE", "local"), help="of sweep/profiles: where the steps run")
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
        options.image, reason = inputs.kernel_image(kernel)
        if options.image is None:
            fail(f"there is no kernel {kernel}: {reason}")
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
    costs, _ = survey.ask()
    failures += survey.failures
    return kernel_name(options.image), costs


def main():
    options = arguments()
    options.linemate = Path(options.linemate).resolve()
    if not options.linemate.is_file():
        fail(f"there is no {options.linemate}: run `make build`")
    options.tool_digest = file_digest(options.linemate)
    # Read first, so that a wrong file is reported before hours of recordings.
    options.given = [read_edit(path) for path in options.edit]
    survey = Survey(of_kernel(options, options.kernel))
    asked, recordings = survey.ask()
    candidates = survey.design(asked, recordings)
    tried = survey.try_all(asked, recordings, candidates)
    beside = costs_beside(options, survey.failures) if options.beside else None
    if "rank" in options.steps:
        text = ranking.tables(kernel_name(survey.options.image), asked, candidates, tried, survey.failures, beside)
        write(survey.out / "ranking.md", text)
        print(f"survey: wrote {survey.out / 'ranking.md'}")


if __name__ == "__main__":
    main()
