"""The survey's ranking on made-up documents, and its list. Run by scripts/test-sweep.sh."""

import sys
import tempfile
import unittest
from pathlib import Path

SWEEP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SWEEP))
import ranking  # noqa: E402
import survey  # noqa: E402

MACHINE = "gnr-2s-480"


def costs(**types):
    """A document of costs: of each type its cycles and how many of them are false sharing; as much again is other cost."""
    rows = [{"name": name, "cycles": of[0], "causes": {"false_sharing": of[1]}} for name, of in types.items()]
    return {"costs": {"accesses": 7, "whole": {"cycles": 2 * sum(of[0] for of in types.values())}, "types": rows}}


def advice(*remedies):
    rows = []
    for kind, subject, edits, stake in remedies:
        trials = [{"edits": edits, "effect": "not_tried"}] if edits else []
        rows.append({"kind": kind, "subject": subject, "concerns": [subject.split(".")[0]], "stake": {"cycles": stake}, "trials": trials})
    return {"remedies": {"remedies": rows}}


def effect(difference, significant=True, whole=1000):
    types = {"without": whole / 2, "difference": difference, "ci95": 2, "significant": significant}
    return {"types": types, "whole": {"without": whole}, "sizes": []}


class Candidates(unittest.TestCase):
    def test_remedies_of_one_edit_are_one_candidate_and_their_stakes_add_up_as_shares(self):
        small = ranking.survey_of(costs(a=(50, 5)), advice(("own_line", "a.x", "isolate x", 10), ("own_line", "a.y", "isolate y", 12)))
        large = ranking.survey_of(costs(a=(5000, 5)), advice(("own_line", "a.x", "isolate x", 500), ("own_line", "a.y", "isolate y", 600)))
        only_y = ranking.survey_of(costs(a=(50, 5)), advice(("own_line", "a.x", "isolate x", 99)))
        found = ranking.remedy_candidates({"s": small, "l": large, "o": only_y}, 10)
        self.assertEqual([c["subject"] for c in found], ["a.x", "a.y"])
        self.assertEqual(found[0]["from"], ["s", "l", "o"])
        self.assertAlmostEqual(found[0]["stake"], 0.1 + 0.05 + 0.99)
        self.assertEqual(len(ranking.remedy_candidates({"s": small}, 1)), 1)

    def test_a_remedy_without_an_edit_is_no_candidate(self):
        here = ranking.survey_of(costs(a=(50, 5)), advice(("write_less", "a.x", None, 10)))
        self.assertEqual(ranking.remedy_candidates({"w": here}, 10), [])

    def test_an_edit_that_is_given_is_about_the_types_that_it_names(self):
        candidate = ranking.given("mine", "type a\nisolate x\n# type c\ntype b\nmove type after z\n")
        self.assertEqual(candidate["types"], ["a", "b"])

    def test_an_edit_that_names_no_type_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mine.txt"
            path.write_text("type a\nisolate x\n")
            self.assertEqual(survey.read_edit(path)["types"], ["a"])
            for content in [b"", b"type a; isolate x\n", b"base-align a 8\n", b"\xff"]:
                path.write_bytes(content)
                with self.assertRaises(SystemExit) as told:
                    survey.read_edit(path)
                self.assertIn(str(path), str(told.exception))
            with self.assertRaises(SystemExit):
                survey.read_edit(Path(folder))

    def test_types_are_searched_by_their_false_sharing_and_only_structs(self):
        one = ranking.survey_of(costs(a=(100, 1), b=(100, 90), **{"task or interrupt stack": (100, 100)}), advice())
        two = ranking.survey_of(costs(a=(100, 50), b=(100, 40)), advice())
        self.assertEqual(ranking.types_to_search({"one": one, "two": two}, 5), [("b", ["one", "two"]), ("a", ["two", "one"])])


class Ranks(unittest.TestCase):
    candidates = [
        {"kind": "own_line", "subject": "a.x | y", "types": ["a"], "edits": "type a\nisolate x\n"},
        {"kind": "layout", "subject": "b", "types": ["b"], "edits": "type b\nmove y first\n"},
    ]

    def test_only_significant_changes_count_and_losses_count_against(self):
        tried = {
            (0, "one", MACHINE): effect(-100),
            (0, "two", MACHINE): effect(60),
            (0, "three", MACHINE): effect(-900, significant=False),
            (1, "one", MACHINE): effect(-50),
        }
        first, second = ranking.lines(self.candidates, tried)
        self.assertEqual((first["subject"], second["subject"]), ("b", "a.x | y"))
        self.assertAlmostEqual(second["score"], -0.04)
        self.assertEqual(list(second["losses"]), [("two", MACHINE)])

    def test_every_trial_has_a_row_and_those_that_gain_most_come_first(self):
        tried = {(0, "one", MACHINE): effect(60), (0, "two", MACHINE): effect(-100), (0, "three", MACHINE): effect(-1, significant=False)}
        rows = [row for row in ranking.trial_rows(ranking.lines(self.candidates[:1], tried)) if "gnr" in row]
        self.assertEqual([row.split(" | ")[1] for row in rows], ["two", "three", "one"])
        self.assertIn("-1 ± 2, not significant", rows[1])

    def test_the_table_is_the_same_whatever_order_the_trials_came_in(self):
        asked = {("one", MACHINE): ranking.survey_of(costs(a=(50, 5)), advice())}
        tried = {(0, "one", MACHINE): effect(-100), (1, "one", MACHINE): effect(-50)}
        backwards = dict(reversed(tried.items()))
        text = ranking.tables("k", asked, self.candidates, tried, [("w", "no | line")])
        self.assertEqual(text, ranking.tables("k", asked, self.candidates, backwards, [("w", "no | line")]))
        self.assertIn("| 1 | own_line | `a.x \\| y` | `type a; isolate x` | -10.00 % | one -10.00 % |", text)
        self.assertIn("| `a.x \\| y` | one | gnr-2s-480 | 500 | -100 ± 2 | -20.00 % | -10.00 % |", text)
        self.assertIn("| w | no \\| line |", text)


    def test_another_kernel_is_a_column_beside_with_the_same_sums_as_a_survey_of_its_own(self):
        here = {("one", MACHINE): ranking.survey_of(costs(a=(50, 5), b=(50, 40)), advice())}
        there = {("one", MACHINE): ranking.survey_of(costs(a=(100, 25)), advice())}
        text = ranking.tables("k", here, [], {}, [], ("old", there))
        self.assertIn(f"| type | {MACHINE} | old | most in |", text)
        self.assertIn("| `a` | +2.50 % | +12.50 % | one +2.50 % |", text)
        self.assertIn("| `b` | +20.00 % | +0.00 % | one +20.00 % |", text)
        self.assertIn(f"| workload | accesses | {MACHINE} | old: accesses | {MACHINE} |", text)
        self.assertIn("| one | 7 | 200 | 7 | 200 |", text)
        self.assertIn("| `a` | +12.50 % | one +12.50 % |", ranking.tables("old", there, [], {}, []))

    def test_each_machine_is_a_column_with_the_sums_of_a_survey_on_it_alone(self):
        small = {("one", "m"): ranking.survey_of(costs(a=(50, 5)), advice()), ("two", "m"): ranking.survey_of(costs(a=(50, 10)), advice())}
        large = {("one", "m:480"): ranking.survey_of(costs(a=(500, 250)), advice())}
        text = ranking.tables("k", {**small, **large}, [], {}, [])
        self.assertIn("| type | m | m:480 | most in |", text)
        self.assertIn("| `a` | +15.00 % | +25.00 % | two +10.00 %, one +5.00 % |", text)
        self.assertIn("| one | 7 | 100 | 1000 |", text)
        self.assertIn("| two | 7 | 100 |  |", text)
        self.assertIn("| `a` | +25.00 % | one +25.00 % |", ranking.tables("k", large, [], {}, []))


class List(unittest.TestCase):
    def test_the_shipped_list_names_only_what_is_there(self):
        workloads = survey.read_list((SWEEP.parent / "workloads/subsystems/list").read_text())
        self.assertGreaterEqual(len(workloads), 15)
        for workload in workloads:
            for name in [workload["setup"], workload["command"][0], *(entry.split(":")[0] for entry in workload["files"])]:
                if name.endswith(".sh"):
                    self.assertTrue((SWEEP.parent / "workloads/subsystems" / name).is_file(), f"{workload['name']}: {name}")

    def test_lines_that_are_not_five_columns_and_names_that_come_twice_are_refused(self):
        for text in ["a | b | c | d\n", "a | | | 1G | x\na | | | 1G | y\n", " | | | 1G | x\n"]:
            with self.assertRaises(SystemExit):
                survey.read_list(text)

    def test_a_machine_may_have_a_number_of_cpus(self):
        self.assertEqual(survey.replayed_on("m"), ["--machine", "m"])
        self.assertEqual(survey.replayed_on("m:480"), ["--machine", "m", "--cpus", "480"])
        # linemate refuses a missing number, and does not leave it out.
        self.assertEqual(survey.replayed_on("m:"), ["--machine", "m", "--cpus", ""])

    def test_a_kernel_is_called_by_its_version(self):
        self.assertEqual(survey.kernel_name("/boot/vmlinuz-7.3.4-amd64"), "7.3.4-amd64")
        self.assertEqual(survey.kernel_name("/b/bzImage"), "bzImage")

    def test_a_command_may_have_bars_and_quotes(self):
        (workload,) = survey.read_list("# what\n\na | s.sh | f:/g modules:x | 1G | sh -c 'cat f | wc'\n")
        self.assertEqual(workload["command"], ["sh", "-c", "cat f | wc"])
        self.assertEqual(workload["files"], ["f:/g", "modules:x"])


if __name__ == "__main__":
    unittest.main(verbosity=0)
