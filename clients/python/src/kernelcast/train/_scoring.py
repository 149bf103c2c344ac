"""Rewards of answers, from a forecaster that this process starts."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Sequence

import grpc

from kernelcast import _rpc, errors
from kernelcast._local import find_program
from kernelcast.train._rows import Question
from kernelcast.v1 import forecaster_pb2 as pb

REWARDS = {"hit": pb.REWARD_KIND_HIT, "hit_brier": pb.REWARD_KIND_HIT_BRIER, "hit_crps": pb.REWARD_KIND_HIT_CRPS}
PARSED = (pb.ItemScore.PARSE_STATUS_OK, pb.ItemScore.PARSE_STATUS_RENORMALIZED)
_BATCH = 10_000
_START_SECONDS = 60


def request_of(questions: Sequence[Question], answers: Sequence[str], reward: str) -> pb.ScoreRequest:
    request = pb.ScoreRequest(bin_scheme_id=questions[0].bin_scheme_id, reward=REWARDS[reward])
    for number, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        request.items.add(item_id=str(number), group_id=question.id, answer=answer.encode(), true_bin=question.target_bin)
    return request


def prompt_hash(folder: str | Path, bundle: str | None = None) -> str:
    """The hash of a prompt's folder, which the rows rendered with it have."""
    done = subprocess.run([_forecaster(bundle), "--list-prompts", "--prompt-directory", os.fspath(folder)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise errors.InvalidArgument(f"--prompt-directory: {done.stderr.strip()}")
    return str(json.loads(done.stdout.splitlines()[-1])["hash"])


def _forecaster(bundle: str | None) -> str:
    return os.path.join(os.path.dirname(find_program(bundle)), "kernelcast-forecaster")


class Scorer:
    """A forecaster process for Forecaster.Score. It ends with this process, also when that is killed."""

    def __init__(self, bundle: str | None = None) -> None:
        self._bundle = bundle

    def __enter__(self) -> Scorer:
        program = find_program(self._bundle)
        self._folder = tempfile.TemporaryDirectory(prefix="kernelcast-train-")
        ready, said = Path(self._folder.name, "ready.json"), Path(self._folder.name, "stderr")
        with said.open("wb") as stderr:
            self._process = subprocess.Popen(
                [program, "__service", str(os.getpid()), _forecaster(self._bundle), "--listen", "127.0.0.1:0", "--metrics", "",
                 "--prior", "none", "--state-dir", os.path.join(self._folder.name, "state"), "--ready-file", ready],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not ready.exists():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise errors.Unavailable("kernelcast-forecaster: " + said.read_text(errors="replace").strip()[-2000:])
                time.sleep(0.02)
            address = json.loads(ready.read_text())["grpc"]
        except BaseException:
            self.__exit__()
            raise
        self._channel = grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1),
                                                                ("grpc.enable_http_proxy", 0)])
        self._score: Any = self._channel.unary_unary(
            _rpc.SCORE.path, request_serializer=pb.ScoreRequest.SerializeToString,
            response_deserializer=pb.ScoreReply.FromString)
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_channel"):
            self._channel.close()
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def score(self, questions: Sequence[Question], answers: Sequence[str], reward: str) -> list[pb.ItemScore]:
        """The scores of answers, in their order."""
        scores: list[pb.ItemScore] = []
        for start in range(0, len(questions), _BATCH):
            end = start + _BATCH
            try:
                reply = self._score(request_of(questions[start:end], answers[start:end], reward), timeout=60)
            except grpc.RpcError as error:
                code: Any = error
                raise errors.BY_CODE.get(code.code().name, errors.Error)(f"Forecaster.Score: {code.details()}") from None
            scores += reply.scores
        return scores
