"""What the documents of many recordings say together: which types and remedies are worth a trial, and how the trials rank. Pure: documents in, text out."""

def survey_of(costs, advice):
    """Of a recording's documents what the ranking needs: all cycles, cycles and false sharing of each type, the remedies; `advice` may not be there yet."""
    types = {}
    for row in costs["costs"]["types"]:
        types[row["name"]] = {"cycles": row["cycles"], "false_sharing": row["causes"]["false_sharing"]}
    remedies = []
    for remedy in advice["remedies"]["remedies"] if advice else []:
        for trial in remedy["trials"][:1]:
            remedies.append(
                {
                    "kind": remedy["kind"],
                    "subject": remedy["subject"],
                    "types": remedy["concerns"],
                    "edits": trial["edits"],
                    "stake": remedy["stake"]["cycles"],
                }
            )
    return {
        "accesses": costs["costs"]["accesses"],
        "cycles": max(costs["costs"]["whole"]["cycles"], 1),
        "types": types,
        "remedies": remedies,
    }


def share_of(survey, types):
    """The share of all cycles that these types have."""
    return sum(survey["types"].get(name, {"cycles": 0})["cycles"] for name in types) / survey["cycles"]


def effect_of(document):
    """Of a what-if the measures of the affected types and of everything."""
    result = document["results"][0]
    return {"types": result["types"], "whole": result["whole"], "sizes": result.get("sizes", [])}


def remedy_candidates(surveys, most):
    """The remedies of all surveys, one for each edit; those with the largest sum of shares at stake."""
    merged = {}
    for name, survey in surveys.items():
        for remedy in survey["remedies"]:
            entry = merged.setdefault(remedy["edits"], {**remedy, "types": set(), "stake": 0.0, "from": []})
            entry["stake"] += remedy["stake"] / survey["cycles"]
            entry["types"].update(remedy["types"])
            entry["from"].append(name)
    ranked = sorted(merged.values(), key=lambda entry: (-entry["stake"], entry["edits"]))
    return [{**entry, "types": sorted(entry["types"])} for entry in ranked[:most]]


def given(name, edits):
    """A candidate that somebody wrote down: the types that its edit is about are those of its lines `type T`."""
    words = [line.split() for line in edits.splitlines()]
    return {"kind": "given", "subject": name, "types": [line[1] for line in words if len(line) == 2 and line[0] == "type"], "edits": edits, "from": []}


def types_to_search(surveys, most):
    """The types with the largest sum of shares of false sharing, each with its workloads, those with most of it first."""
    shares = {}
    for name, survey in surveys.items():
        for type_name, row in survey["types"].items():
            share = row["false_sharing"] / survey["cycles"]
            if share > 0 and searchable(type_name):
                shares.setdefault(type_name, []).append((share, name))
    ranked = sorted(shares.items(), key=lambda item: (-sum(share for share, _ in item[1]), item[0]))
    return [(type_name, [name for _, name in sorted(rows, key=lambda row: (-row[0], row[1]))]) for type_name, rows in ranked[:most]]


def searchable(name):
    """Whether it is the name of a struct: rows of stacks, pages and the like have spaces in theirs."""
    return name.replace("_", "a").isalnum()


# --- The ranking ----------------------------------------------------------------------------------------------------------


def relative(effect):
    """What the edit changes of everything, from the measure of its types, which has less noise: a share, negative where it gains."""
    return effect["types"]["difference"] / max(effect["whole"]["without"], 1)


def lines(candidates, tried):
    """The candidates with their effects, most promising first: by the sum of significant changes over all workloads and machines."""
    ranked = []
    for number, candidate in enumerate(candidates):
        effects = {(name, machine): effect for (tried_number, name, machine), effect in tried.items() if tried_number == number}
        counted = {at: relative(effect) for at, effect in effects.items() if effect["types"]["significant"]}
        ranked.append(
            {
                **candidate,
                "effects": effects,
                "score": sum(counted.values()),
                "gains": {at: change for at, change in counted.items() if change < 0},
                "losses": {at: change for at, change in counted.items() if change > 0},
            }
        )
    ranked.sort(key=lambda line: (line["score"], line["kind"], line["subject"], line["edits"]))
    return ranked


def percent(share):
    return f"{share * 100:+.2f} %"


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def by_size(changes, most):
    """The largest changes as text, `name percent`, one machine's name only where there are several."""
    machines = len({machine for _, machine in changes})
    told = sorted(changes.items(), key=lambda item: (-abs(item[1]), item[0]))
    text = [f"{name}{f' ({machine})' if machines > 1 else ''} {percent(change)}" for (name, machine), change in told[:most]]
    return ", ".join(text) + (f", {len(told) - most} more" if len(told) > most else "")


def trial_rows(ranked):
    """Every trial: what a candidate changes in one workload, the largest gain first."""
    text = ["", "## Trials", "", "Cycles of the edited types' accesses that left their core, ± half of a 95 % interval over interleavings.", ""]
    text += ["| candidate | workload | machine | types' cycles | change | of them | of all |", "|---|---|---|---|---|---|---|"]
    for line in ranked:
        for (name, machine), effect in sorted(line["effects"].items(), key=lambda item: (relative(item[1]), item[0])):
            types = effect["types"]
            quiet = "" if types["significant"] else ", not significant"
            change = f"{types['difference']:+,.0f} ± {types['ci95']:,.0f}{quiet}"
            of_types = percent(types["difference"] / max(types["without"], 1))
            text.append(f"| `{cell(line['subject'])}` | {name} | {machine} | {types['without']:,.0f} | {change} | {of_types} | {percent(relative(effect))} |")
    return text


def false_sharing(asked, type_name):
    """The type's shares of false sharing, summed over the workloads."""
    return sum(survey["types"].get(type_name, {"false_sharing": 0})["false_sharing"] / survey["cycles"] for survey in asked.values())


def on_machine(asked, machine):
    """What was asked on one machine, by workload."""
    return {name: survey for (name, on), survey in asked.items() if on == machine}


def machines_of(asked):
    """The machines, in the order in which they were asked for."""
    return list(dict.fromkeys(machine for _, machine in asked))


def header(columns):
    """A table's first two lines."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def type_rows(asked, beside):
    """The types with most false sharing on the first machine, and its sum on each: the workloads are those of the first."""
    machines = machines_of(asked)
    first = machines[0] if machines else None
    other, costs = beside or (None, {})
    text = ["", "## Types", "", "False sharing as a share of all cycles, summed over the workloads; the last column is of the first machine.", ""]
    text += header(["type", *machines, *([other] if beside else []), "most in"])
    here = on_machine(asked, first)
    for type_name, names in types_to_search(here, 40):
        shares = {(name, first): here[name]["types"][type_name]["false_sharing"] / here[name]["cycles"] for name in names}
        sums = [percent(false_sharing(on_machine(asked, machine), type_name)) for machine in machines]
        there = [percent(false_sharing(costs, type_name))] if beside else []
        text.append(f"| {' | '.join([f'`{type_name}`', *sums, *there, by_size(shares, 5)])} |")
    return text


def workload_rows(asked, beside):
    """What each workload costs on each machine."""
    machines = machines_of(asked)
    first = machines[0] if machines else None
    other, costs = beside or (None, {})
    text = ["", "## Workloads", "", "Cycles of accesses that left their core.", ""]
    text += header(["workload", "accesses", *machines, *([f"{other}: accesses", first] if beside else [])])
    for name in dict.fromkeys(name for name, _ in asked):
        surveys = [asked.get((name, machine)) for machine in machines]
        accesses = next(survey["accesses"] for survey in surveys if survey)
        cells = [name, str(accesses), *(str(survey["cycles"]) if survey else "" for survey in surveys)]
        if beside:
            there = costs.get((name, first))
            cells += [str(there["accesses"]), str(there["cycles"])] if there else ["", ""]
        text.append(f"| {' | '.join(cells)} |")
    return text


def tables(kernel, asked, candidates, tried, failures, beside=None):
    """The survey as markdown. `beside` is another kernel's name and what was asked of it."""
    ranked = lines(candidates, tried)
    text = [f"# {kernel}", "", "## Candidates", ""]
    text += ["| | kind | subject | edit | sum | gains in | loses in | no significant change |", "|---|---|---|---|---|---|---|---|"]
    for place, line in enumerate(ranked, 1):
        quiet = len(line["effects"]) - len(line["gains"]) - len(line["losses"])
        subject = cell(line["subject"])
        subject = subject if len(subject) <= 80 else subject[:77] + "…"
        edit = cell(line["edits"].replace("\n", "; ").rstrip("; "))
        text.append(
            f"| {place} | {line['kind']} | `{subject}` | `{edit}` | {percent(line['score'])} | {by_size(line['gains'], 6)} | {by_size(line['losses'], 4)} | {quiet} |"
        )
    text += trial_rows(ranked)
    text += type_rows(asked, beside)
    text += workload_rows(asked, beside)
    if failures:
        text += ["", "## Failures", "", "| what | why |", "|---|---|"]
        text += [f"| {cell(what)} | {cell(why)} |" for what, why in failures]
    return "\n".join(text) + "\n"
