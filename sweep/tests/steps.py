"""The workflow with commands of the shell: what a step leaves, and which steps are carried out. Run by scripts/test-sweep.sh."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SWEEP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SWEEP))
import inputs  # noqa: E402
import workflow  # noqa: E402


class InAFolder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def step(self, command, **more):
        return inputs.step("a step", ["sh", "-c", command], workflow.ANALYSIS, **more)


class Step(InAFolder):
    def start(self, **steps):
        (self.folder / "steps.json").write_text(json.dumps(steps))
        return subprocess.Popen([sys.executable, SWEEP / "step.py", "s"], cwd=self.folder, stdout=subprocess.PIPE, text=True)

    def carry_out(self, command, **more):
        process = self.start(s=self.step(command, **more))
        said, _ = process.communicate()
        return process.returncode, said

    def test_an_output_is_what_the_step_takes(self):
        output = self.folder / "out" / "file"
        made, other = self.folder / "made", self.folder / "other"
        for takes, command in [("stdout", "printf yes"), ("made", f"printf yes >{made}"), ("image", f"printf yes >{other}; echo x; echo {other}")]:
            code, said = self.carry_out(command, output=str(output), made=str(made), takes=takes)
            self.assertEqual((code, output.read_text()), (0, "yes"), takes)
            self.assertRegex(said, r"^a step: started\na step: \d+\.\d s\n$")
            output.unlink()
        self.carry_out('printf "a\\n it \\"holds\\" \\n\\n"', output=str(output), takes="said")
        self.assertEqual(json.loads(output.read_text()), {"said": 'it "holds"'})

    def test_a_step_that_is_done_is_not_done_again(self):
        output = self.folder / "file"
        output.write_text("kept")
        self.assertEqual(self.carry_out("echo new", output=str(output), takes="stdout"), (0, ""))
        self.assertEqual(output.read_text(), "kept")

    def test_a_failure_leaves_its_reason_and_no_output(self):
        output = self.folder / "file"
        for command, takes, reason in [
            ("echo part; echo linemate: no >&2; exit 2", "stdout", "no"),
            ("exit 3", "stdout", "exit code 3"),
            ("echo step 1 of 9 >&2; kill -9 $$", "stdout", "ended by signal 9"),
            ("echo /nowhere", "image", "the build reports /nowhere as its image: No such file or directory"),
        ]:
            code, _ = self.carry_out(command, output=str(output), takes=takes)
            self.assertEqual((code, (self.folder / "s.failed").read_text(), output.exists()), (1, reason, False))
        self.carry_out("echo WARNING; echo no >&2; exit 2", output=str(output), takes="said")
        self.assertEqual((self.folder / "s.log").read_text(), "WARNING\nno\n")
        self.start(s={**self.step("", output=str(output), takes="stdout"), "command": ["/nowhere/build"]}).communicate()
        self.assertEqual((self.folder / "s.failed").read_text(), "/nowhere/build: No such file or directory")
        # The second try of a cluster.
        self.carry_out("echo yes", output=str(output), takes="stdout")
        self.assertFalse((self.folder / "s.failed").exists())

    def test_what_another_run_made_meanwhile_is_taken(self):
        output, lock = self.folder / "file", self.folder / "lock"
        with open(lock, "wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = self.start(s=self.step("echo new", output=str(output), takes="stdout", lock=str(lock)))
            self.assertEqual(process.stdout.readline(), "a step: started\n")
            self.assertIsNone(process.poll())
            output.write_text("theirs")
        process.communicate()
        self.assertEqual((process.returncode, output.read_text()), (0, "theirs"))

    def test_a_stop_ends_the_wait_for_a_lock(self):
        output, lock = self.folder / "file", self.folder / "lock"
        with open(lock, "wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = self.start(s=self.step("echo new", output=str(output), takes="stdout", lock=str(lock)))
            self.assertEqual(process.stdout.readline(), "a step: started\n")
            process.terminate()
            process.communicate(timeout=60)
        self.assertEqual((process.returncode, output.exists(), (self.folder / "s.failed").exists()), (1, False, False))

    def test_a_stop_waits_for_the_command_and_is_no_failure(self):
        output, ended = self.folder / "file", self.folder / "ended"
        command = f"trap 'sleep 0.3; touch {ended}; exit 1' TERM; echo $$ >pid.part; mv pid.part {self.folder}/pid; while :; do sleep 0.05; done"
        process = self.start(s=self.step(f"cd {self.folder}; {command}", output=str(output), takes="stdout"))
        while not (self.folder / "pid").exists():
            time.sleep(0.02)
        os.kill(int((self.folder / "pid").read_text()), signal.SIGTERM)
        process.terminate()
        process.communicate()
        self.assertEqual((process.returncode, ended.exists(), (self.folder / "s.failed").exists()), (1, True, False))


class Workflow(InAFolder):
    def steps(self, second):
        out = [str(self.folder / name) for name in ("first", "second", "third")]
        return {
            "1": self.step("echo one", output=out[0], takes="stdout"),
            "2": self.step(second, uses=["1"], output=out[1], takes="stdout"),
            "3": self.step(f"cat {out[1]} {out[0]}", uses=["2"], output=out[2], takes="stdout"),
        }

    def carry_out(self, steps):
        return workflow.carry_out(steps, self.folder / ".run", "local", ["--keep-going", "--quiet", "all"])

    def test_what_a_failure_leaves_is_done_when_the_steps_are_listed_again(self):
        self.assertEqual(self.carry_out(self.steps("echo no >&2; exit 1")), {"2": "no\n"})
        self.assertFalse((self.folder / "third").exists())
        first = (self.folder / "first").stat().st_mtime_ns
        self.assertEqual(self.carry_out(self.steps("echo two")), {})
        self.assertEqual((self.folder / "third").read_text(), "two\none\n")
        self.assertEqual((self.folder / "first").stat().st_mtime_ns, first)
        # An older input decides nothing, nor does a removed one: the output is there.
        os.utime(self.folder / "third", (0, 0))
        self.assertEqual(workflow.missing(self.steps("echo two")), {})
        (self.folder / "first").unlink()
        self.assertEqual(list(workflow.missing(self.steps("echo two"))), ["1"])

    def test_what_a_case_needs_is_of_its_kind(self):
        def listed(needs):
            return workflow.of_case({"title": "a step", "needs": needs})

        self.assertEqual(listed("analysis"), {"title": "a step", **workflow.ANALYSIS})
        self.assertEqual(listed("1G")["mem_mb"], 3048)
        self.assertEqual(listed("build")["threads"], os.cpu_count())

    def test_memory_is_read_as_record_takes_it(self):
        self.assertEqual([workflow.recording(memory)["mem_mb"] for memory in ("1G", "512M", "512")], [3048, 2024, 2024])


if __name__ == "__main__":
    unittest.main(verbosity=0)
