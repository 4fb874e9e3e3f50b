"""The committed vectors are what the generator writes today, and they keep to their schema."""

import json
from typing import Any

import generate
import pytest
import step_traces
from jsonschema import Draft202012Validator

from support.vectors import FOLDER, read

FILES = (
    "token_bucket.json",
    "long.json",
    "random.json",
    "users.json",
    "policies.json",
    "random_steps.json",
    *step_traces.FILES,
)


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return generate.files()


def test_every_file_is_generated(generated: dict[str, str]) -> None:
    assert sorted(generated) == sorted(FILES)
    assert sorted(path.name for path in FOLDER.glob("*.json")) == sorted((*FILES, "schema.json"))


@pytest.mark.parametrize("name", FILES)
def test_current(name: str, generated: dict[str, str]) -> None:
    committed = (FOLDER / name).read_text("utf-8")
    same = committed == generated[name]  # not in the assert: a diff of half a megabyte helps nobody
    assert same, f"{name} is not current: run tests/vectors/generate.py"


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(read("schema.json"))


@pytest.mark.parametrize("name", FILES)
def test_schema(name: str) -> None:
    errors = list(Draft202012Validator(read("schema.json")).iter_errors(read(name)))
    assert not errors, "\n".join(
        f"{error.json_path}: {error.message[:200]}" for error in errors[:5]
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"kind": "traces", "traces": []},
        {"kind": "users"},
        {
            "kind": "traces",
            "traces": [{"name": "no-steps", "comment": "c", "rule": {}, "steps": []}],
        },
        {"kind": "random", "rules": [], "keys": [], "events": [[0, 9]]},
        {"kind": "random_steps", "limiters": [[]], "keys": ["a"], "events": []},
    ],
)
def test_schema_refuses(broken: dict[str, Any]) -> None:
    assert not Draft202012Validator(read("schema.json")).is_valid(broken)


@pytest.mark.parametrize("change", ["item", "each", "items", "period_us"])
def test_schema_refuses_a_broken_group(change: str) -> None:
    schema = Draft202012Validator(read("schema.json"))
    trace = next(t for t in read("groups.json")["traces"] if t["name"] == "group-unlimited")
    assert schema.is_valid({"kind": "traces", "traces": [trace]})
    step = trace["steps"][0]
    if change in ("item", "each"):
        del step["expect"][change]
    elif change == "items":
        step["items"] = []
    else:
        del trace["limiters"][1]["rules"][0][change]
    assert not schema.is_valid({"kind": "traces", "traces": [trace]})


@pytest.mark.parametrize("change", ["outcome", "retry_after_us", "extra", "cost", "ticket"])
def test_schema_refuses_a_broken_step(change: str) -> None:
    schema = Draft202012Validator(read("schema.json"))
    traces = read("token_bucket.json")["traces"]
    trace = next(t for t in traces if t["name"] == "refund-in-time")
    step = trace["steps"][2 if change == "ticket" else 1]
    assert schema.is_valid({"kind": "traces", "traces": [trace]})
    if change in ("outcome", "retry_after_us"):
        step["expect"][change] = "perhaps"
    elif change == "extra":
        step["extra"] = 1
    else:
        del step[change]
    assert not schema.is_valid({"kind": "traces", "traces": [trace]})


def test_enough_and_not_too_much() -> None:
    """60 traces are promised; over Redis the files must stay a matter of seconds."""
    traces = read("token_bucket.json")["traces"]
    operations = sum(step.get("repeat", 1) for trace in traces for step in trace["steps"])
    assert len(traces) >= 60
    assert operations < 500_000
    assert len(read("random.json")["events"]) == 10_000
    assert len(read("random_steps.json")["events"]) == 10_000
    assert all((FOLDER / name).stat().st_size < 1_500_000 for name in FILES)
    policies = read("policies.json")
    assert sum(len(policies[part]) for part in ("accepted", "unlimited", "refused")) >= 120


def test_names_are_unique() -> None:
    files = ("token_bucket.json", "long.json", *step_traces.FILES)
    names = [t["name"] for file in files for t in read(file)["traces"]]
    assert len(set(names)) == len(names)


def test_tickets_name_charges() -> None:
    """A refunded step is an earlier, allowed, single check of the same key with a cost."""
    for trace in read("token_bucket.json")["traces"]:
        for index, step in enumerate(trace["steps"]):
            if step["op"] != "refund":
                continue
            charge = trace["steps"][step["ticket"]]
            assert step["ticket"] < index, trace["name"]
            assert charge["op"] == "check"
            assert charge["cost"] > 0
            assert "repeat" not in charge
            assert charge["expect"]["outcome"] == "allowed"
            assert charge.get("key", "k") == step.get("key", "k")


@pytest.mark.parametrize("name", step_traces.FILES)
def test_tickets_name_charges_of_any_algorithm(name: str) -> None:
    """A ticket's step is an earlier, allowed, single check of the same limiter and key."""
    for trace in read(name)["traces"]:
        for index, step in enumerate(trace["steps"]):
            if "ticket" not in step:
                continue
            charge = trace["steps"][step["ticket"]]
            assert step["ticket"] < index, trace["name"]
            assert charge["expect"]["outcome"] == "allowed"
            assert "repeat" not in charge
            items = charge.get("items", [charge])
            if step["op"] == "refund_all":
                assert step["items"] == items
                continue
            assert ("item" in step) == (charge["op"] == "check_all")
            item = items[step.get("item", 0)]
            assert item.get("limiter", 0) == step.get("limiter", 0)
            assert item.get("key", "k") == step.get("key", "k")


def test_numbers_fit_a_double() -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)
        elif not isinstance(value, str):
            assert value is None or (type(value) is int and abs(value) <= 2**53)

    for name in FILES:
        walk(json.loads((FOLDER / name).read_text("utf-8")))
