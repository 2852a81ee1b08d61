#!/usr/bin/env python3
"""The shell commands of a CI template of ci/, for scripts/test-deb.sh: ci_steps.py FILE NAME…, on stdout.

Of GitHub's workflow the steps with these names; of GitLab's the script of the job with that name.
"""

import sys

import yaml


def main() -> None:
    path, *names = sys.argv[1:]
    with open(path) as file:
        template = yaml.safe_load(file)
    if "jobs" in template:
        steps = template["jobs"]["layout"]["steps"]
        commands = {step["name"]: step["run"] for step in steps if "run" in step}
    else:
        commands = {name: "\n".join(job["script"]) for name, job in template.items()}
    for name in names:
        print(commands[name])


main()
