"""Kernel Tuner's files, against the genuine package."""

import json

import kernelcast
import pytest
from conftest import DOES_NOTHING, FASTER, judged
from kernelcast.adapters import kernel_tuner


@pytest.fixture(scope="module")
def results(client, softmax):
    sources = {1: FASTER, 2: DOES_NOTHING, 3: "not C++"}
    candidates = [kernelcast.Candidate(source, tunables={"BLOCK": n, "MODE": "a"}) for n, source in sources.items()]
    return [judged(client, softmax, candidates[0]), *(client.evaluate(softmax, c, mode="measure") for c in candidates[1:]),
            client.evaluate(softmax, candidates[0], mode="forecast")]


def test_spaces_are_read(tmp_path):
    (tmp_path / "t1.json").write_text(json.dumps({"ConfigurationSpace": {
        "TuningParameters": [{"Name": "x", "Type": "int", "Values": "[16, 32, 64]"},
                             {"Name": "y", "Type": "int", "Values": "[1, 2, 4]"}],
        "Conditions": [{"Parameters": ["x", "y"], "Expression": "x*y <= 64 and not (x == 16)"}]}}))
    assert list(kernel_tuner.configurations(tmp_path / "t1.json")) == [
        {"x": 32, "y": 1}, {"x": 32, "y": 2}, {"x": 64, "y": 1}]


def test_conditions_run_no_code(tmp_path):
    (tmp_path / "t1.json").write_text(json.dumps({"ConfigurationSpace": {
        "TuningParameters": [{"Name": "x", "Type": "int", "Values": "[1]"}],
        "Conditions": [{"Parameters": ["x"], "Expression": "x.__class__"}]}}))
    with pytest.raises(ValueError, match="x.__class__"):
        list(kernel_tuner.configurations(tmp_path / "t1.json"))


def test_t4_has_verdicts_and_no_forecasts(results):
    document = kernel_tuner.t4(results)
    assert [r["invalidity"] for r in document["results"]] == ["correct", "correctness", "compile"]
    assert [r["correctness"] for r in document["results"]] == [1, 0, 0]
    assert document["results"][0]["measurements"][0]["value"] == results[0].speedup.value
    assert document["results"][0]["times"]["runtimes"][0] > 0
    assert json.loads(json.dumps(document)) == document


def test_t4_fits_the_schema_of_kernel_tuner(results):
    import jsonschema
    from kernel_tuner import file_utils

    jsonschema.validate(kernel_tuner.t4(results), file_utils.output_file_schema("results")[1])


def test_a_cache_has_a_row_for_each_configuration(results):
    cache = kernel_tuner.cache(results, "softmax")
    assert list(cache["cache"]) == ["1,a", "2,a", "3,a"] and cache["tune_params_keys"] == ["BLOCK", "MODE"]
    assert cache["cache"]["1,a"]["time"] == sum(cache["cache"]["1,a"]["times"]) > 0
    assert cache["cache"]["3,a"]["time"] == "CompilationFailedConfig"


def test_kernel_tuner_reads_the_cache(results, tmp_path):
    from kernel_tuner import util

    (tmp_path / "cache.json").write_text(json.dumps(kernel_tuner.cache(results, "softmax")))
    read = util.read_cache(str(tmp_path / "cache.json"), open_cache=False)
    assert [type(row.get("__error__")).__name__ for row in read["cache"].values()] == [
        "NoneType", "RuntimeFailedConfig", "CompilationFailedConfig"]
