"""What adapters make of measurements, failures, forecasts and the absence of a verdict."""

import json
import pickle
import runpy
import sys

import kernelcast
import pytest
from conftest import DOES_NOTHING, FASTER, SAME, SOFTMAX
from kernelcast import errors
from kernelcast.adapters import Scorer, score


@pytest.fixture(scope="module")
def scorer(client):
    return Scorer(SOFTMAX, client.address)


def test_a_score_is_a_measured_speedup(scorer):
    good = scorer(FASTER)
    assert good.correct and good.value > 1 and good.value == good.result.speedup.value
    assert good.metrics["measured"] == 1 and good.metrics["speedup_low"] < good.value < good.metrics["speedup_high"]
    for source in (DOES_NOTHING, "not C++", b"\xff", "x" * (2 << 20)):
        bad = scorer(source)
        assert (bad.value, bad.correct) == (0, False) and bad.feedback


def test_the_same_source_is_measured_once(scorer):
    assert scorer(FASTER).result.request_id == pickle.loads(pickle.dumps(scorer))(FASTER).result.request_id
    client, _ = scorer.connect()
    other = Scorer(SOFTMAX, client.address, run="another")(FASTER)
    assert other.result.request_id != scorer(FASTER).result.request_id


def test_a_forecast_is_a_score_only_on_request(scorer):
    client, problem = scorer.connect()
    with pytest.raises(ValueError, match="forecasts=True"):
        Scorer(SOFTMAX, client.address, mode="forecast")
    asked = Scorer(SOFTMAX, client.address, mode="forecast", forecasts=True)(SAME + "// forecast\n")
    assert isinstance(asked.result, kernelcast.Forecast) and asked.metrics["measured"] == 0
    assert "propensity" in asked.metrics and 0 < asked.value < asked.result.expected_speedup

    search = client.start_search(problem, max_measurements=1)
    routed = Scorer(SOFTMAX, client.address, forecasts=True, search=search)
    assert [routed(SAME + f"// {i}\n").metrics["measured"] for i in range(2)] == [1, 0]
    client.stop_search(search)


def test_no_verdict_is_an_error():
    with pytest.raises(errors.Unavailable):
        Scorer(SOFTMAX, "127.0.0.1:1", patience=0)(SAME)


def test_a_wrong_set_up_is_an_error(scorer):
    client, _ = scorer.connect()
    with pytest.raises(errors.InvalidArgument, match="target: row_softmax has no reference for 'cuba'"):
        Scorer(SOFTMAX, client.address, template=kernelcast.Candidate("", target="cuba"))(SAME)


def test_only_a_fact_or_a_verdict_is_a_score():
    def rejection(cause):
        return kernelcast.Rejection("r", "k", kernelcast.Candidate(SAME), "", kernelcast.Decision("reject", cause, 1, 0),
                                    "why", None, cause=cause, detail="")

    assert score(rejection("compile_error")).value == 0
    assert all(score(rejection(cause)) is None for cause in ("duplicate", "budget", "unavailable", "cancelled"))


def test_codeevolve(client, tmp_path, monkeypatch):
    (tmp_path / "evaluate.py").write_text("from kernelcast.adapters.codeevolve import main\n"
                                          f"main({str(SOFTMAX)!r}, {client.address!r})\n")
    results = {}
    for name, source in {"good": FASTER, "bad": DOES_NOTHING}.items():
        (tmp_path / name).write_text(source)
        monkeypatch.setattr(sys, "argv", ["evaluate.py", str(tmp_path / name), str(tmp_path / "results.json")])
        runpy.run_path(str(tmp_path / "evaluate.py"), run_name="__main__")
        results[name] = json.loads((tmp_path / "results.json").read_text())
    assert results["good"]["speedup"] > 1 and results["bad"]["speedup"] == 0
