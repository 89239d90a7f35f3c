"""How a run of Knative's tests is read."""

from __future__ import annotations

from tests.support.cluster import conformance
from tests.support.cluster.go_test_output import FAIL, PASS, SKIP, read

RUN = """\
=== RUN   TestChannelThings
    magic.go:402: Running 1 steps for timing:
        [
          {
            "name": "Input Every one MUST do it",
            "states": "Stable",
            "levels": "MUST",
            "timing": "Assert"
          },
          {
            "name": "Annotations each SHOULD have it",
            "states": "Stable",
            "levels": "SHOULD",
            "timing": "Assert"
          },
          {
            "name": "Output nobody has written it",
            "states": "Stable",
            "levels": "MUST",
            "timing": "Assert"
          }
        ]

=== RUN   TestChannelThings/Feature
=== RUN   TestChannelThings/Feature/Assert
=== RUN   TestChannelThings/Feature/Assert/Input_Every_one_MUST_do_it
=== PAUSE TestChannelThings/Feature/Assert/Input_Every_one_MUST_do_it
=== RUN   TestChannelThings/Feature/Assert/Annotations_each_SHOULD_have_it
=== PAUSE TestChannelThings/Feature/Assert/Annotations_each_SHOULD_have_it
=== RUN   TestChannelThings/Feature/Assert/Output_nobody_has_written_it
    helpers.go:47: TODO, Implement this.
=== CONT  TestChannelThings/Feature/Assert/Annotations_each_SHOULD_have_it
    control_plane.go:164: expected it to exist
--- FAIL: TestChannelThings (1.50s)
    --- FAIL: TestChannelThings/Feature (1.50s)
        --- FAIL: TestChannelThings/Feature/Assert (1.00s)
            --- PASS: TestChannelThings/Feature/Assert/Input_Every_one_MUST_do_it (0.20s)
            --- FAIL: TestChannelThings/Feature/Assert/Annotations_each_SHOULD_have_it (0.10s)
            --- PASS: TestChannelThings/Feature/Assert/Output_nobody_has_written_it (0.00s)
=== RUN   TestOfOIDC
=== RUN   TestOfOIDC/Feature
=== RUN   TestOfOIDC/Feature/Prerequisite
=== RUN   TestOfOIDC/Feature/Prerequisite/OIDC_authentication_is_enabled
    feature.go:312: Prerequisite: flags
=== RUN   TestOfOIDC/Feature/Assert
    magic.go:432: Skipping steps for timing Assert due to failed previous timing
--- PASS: TestOfOIDC (0.30s)
    --- PASS: TestOfOIDC/Feature (0.30s)
        --- PASS: TestOfOIDC/Feature/Prerequisite (0.10s)
            --- PASS: TestOfOIDC/Feature/Prerequisite/OIDC_authentication_is_enabled (0.10s)
        --- SKIP: TestOfOIDC/Feature/Assert (0.00s)
=== RUN   TestNotYet
    broker_test.go:115: Eventshub needs work
--- SKIP: TestNotYet (0.00s)
=== RUN   TestCutOff
""".splitlines()


def test_each_step_is_a_result_with_its_level() -> None:
    output = read(RUN)
    step = output.results["TestChannelThings/Feature/Assert/Annotations_each_SHOULD_have_it"]
    assert (step.how, step.words) == (FAIL, ["expected it to exist"])
    assert output.levels[step.step("Assert")] == "SHOULD"
    assert output.results["TestChannelThings/Feature/Assert/Input_Every_one_MUST_do_it"].how == PASS
    assert output.results["TestNotYet"].how == SKIP


def test_what_never_ended_has_failed() -> None:
    assert read(RUN).results["TestCutOff"].how == FAIL


def test_the_table_counts_by_level_what_was_checked_and_says_why_the_rest_was_not() -> None:
    tests = ("TestChannelThings", "TestOfOIDC", "TestNotYet", "TestCutOff", "TestElsewhere")
    assert [conformance.row(read(RUN), test).cells() for test in tests] == [
        ("`TestChannelThings`", "**FAIL**", "1/1", "0/1", "", 1, 2, "expected it to exist"),
        ("`TestOfOIDC`", "skip", "", "", "", "", 0, "needs: OIDC authentication is enabled"),
        ("`TestNotYet`", "skip", "", "", "", "", 0, "Eventshub needs work"),
        ("`TestCutOff`", "**FAIL**", "", "", "", "", 0, ""),
        ("`TestElsewhere`", "**FAIL**", "", "", "", "", 0, "was not run"),
    ]
