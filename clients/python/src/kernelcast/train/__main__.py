"""The command: `python -m kernelcast.train`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from kernelcast import errors
from kernelcast.train import _rows

if TYPE_CHECKING:
    from kernelcast.train._models import Model

_USAGE, _UNREACHABLE, _INTERRUPTED = 2, 3, 4
_REWARDS = ["hit", "hit_brier", "hit_crps"]
_PROMPT = Path(__file__).parent / "prompt"
# Where they run and when they stop does not change what is trained.
_NOT_SETTINGS = {"command", "model", "rows", "output", "device", "minutes", "resume", "adapter", "checkpoint_every",
                 "prompt_directory"}


def _number(low: float, high: float = float("inf"), kind: type = float) -> Any:
    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value < high:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text} is not a {what} of {low} or more" + (f" below {high}" if high < float("inf") else ""))
        return value
    return parse


def _labelled(text: str) -> tuple[str, str]:
    label, equals, folder = text.partition("=")
    if not label or not equals or not folder:
        raise argparse.ArgumentTypeError(f"{text} is not LABEL=DIR")
    return label, folder


def parser() -> argparse.ArgumentParser:
    count = _number(1, kind=int)
    parser = argparse.ArgumentParser(
        prog="python -m kernelcast.train", description="Train a language model to forecast, as a LoRA adapter.",
        epilog="Exit codes: 0 done, 2 bad usage or input, 3 a program or package is missing or a service could not be "
        "reached, 4 interrupted.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".",
                                    formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        added.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, default=argparse.SUPPRESS,
                           help="folder for what the command writes")
        added.add_argument("--rows", metavar="FILE", nargs="+", required=True, default=argparse.SUPPRESS,
                           help="rows that kernelcast export --prompts wrote")
        added.add_argument("--seed", metavar="N", type=_number(0, kind=int), default=1, help="seed of all draws")
        return added

    def hold_out(command: argparse.ArgumentParser) -> None:
        command.add_argument("--problems", metavar="DIR", help="folder of the problems, whose files name their families; "
                             "otherwise each problem is a family")
        command.add_argument("--hold-out", metavar="FAMILY", nargs="+", default=[], help="families to hold out, instead of a draw")
        command.add_argument("--share", metavar="X", type=_number(0, 1), default=0.25, help="share of the rows to hold out")

    def with_model(command: argparse.ArgumentParser) -> None:
        command.add_argument("--model", metavar="PATH", required=True, default=argparse.SUPPRESS,
                             help="GGUF file, or folder of a model as of Hugging Face")
        command.add_argument("--device", default="auto", help="device of PyTorch; auto: a GPU, if there is one")
        command.add_argument("--prompt-tokens", metavar="N", type=count, default=4000, help="leave out rows with longer prompts")

    def training(command: argparse.ArgumentParser, steps: str, default: int, rate: float) -> None:
        with_model(command)
        command.add_argument("--prompt-directory", metavar="DIR", type=Path, default=_PROMPT,
                             help="the prompt that the rows were rendered with; it is copied into the output")
        command.add_argument(f"--{steps}", metavar="N", type=count, default=default, help="steps of the optimizer" if steps == "steps"
                             else "rounds of sampling and learning")
        command.add_argument("--learning-rate", metavar="X", type=_number(0), default=rate, help="of AdamW")
        command.add_argument("--rank", metavar="N", type=count, default=32, help="of a new adapter")
        command.add_argument("--alpha", metavar="X", type=_number(0), default=32, help="scale of a new adapter, times its rank")
        command.add_argument("--micro-batch", metavar="N", type=count, default=4, help="answers at a time, for memory")
        command.add_argument("--minutes", metavar="X", type=_number(0), help="save and stop after this time; --resume continues")
        command.add_argument("--resume", action="store_true", help="continue from the checkpoint in the output, if there is one")

    made = command("split", "divide rows into training rows and rows of held-out families")
    hold_out(made)

    made = command("supervised", "learn the right answers")
    training(made, "steps", 450, 2e-4)
    made.add_argument("--batch", metavar="N", type=count, default=8, help="rows of a step")
    made.add_argument("--soften", metavar="OCTAVES", type=_number(0), default=0.5,
                      help="deviation of the target around log2 of the speedup; 0: the right bin alone; rows with "
                      "bin_probabilities keep theirs")
    made.add_argument("--checkpoint-every", metavar="N", type=count, default=50, help="steps between checkpoints")

    made = command("grpo", "learn from rewards of sampled answers (GRPO)")
    training(made, "iterations", 20, 4e-5)
    made.add_argument("--reward", choices=_REWARDS, default="hit_crps", help="reward of Forecaster.Score")
    made.add_argument("--adapter", metavar="DIR", help="begin with the adapter of this run [a new one]", default=argparse.SUPPRESS)
    made.add_argument("--groups", metavar="N", type=count, default=8, help="prompts of an iteration, the same number of each bin")
    made.add_argument("--group", metavar="N", type=_number(2, kind=int), default=8, help="answers to each prompt")
    made.add_argument("--temperature", metavar="X", type=_number(0.01), default=1.0, help="of sampling")
    made.add_argument("--answer-tokens", metavar="N", type=count, default=256, help="limit of an answer")
    made.add_argument("--sample-batch", metavar="N", type=count, default=64, help="answers sampled at a time, for memory")
    made.add_argument("--updates", metavar="N", type=count, default=1, help="steps of the optimizer for each iteration")
    made.add_argument("--clip", metavar="X", type=_number(0, 1), default=0.2, help="limit of the ratio of probabilities; counts from "
                      "the second update on")
    made.add_argument("--kl", metavar="X", type=_number(0), default=0.0, help="weight of the divergence from the start")

    def forecasts(command: argparse.ArgumentParser) -> None:
        command.add_argument("--limit", metavar="N", type=count, help="evaluate this many rows, drawn by the seed", default=None)
        command.add_argument("--answer-tokens", metavar="N", type=count, default=256, help="limit of an answer")
        command.add_argument("--temperature", metavar="X", type=_number(0), default=0.0, help="of sampling; 0: the most "
                             "probable token each time")
        command.add_argument("--batch", metavar="N", type=count, default=64, help="answers at a time")

    made = command("evaluate", "forecast held-out rows with each adapter, and compare")
    with_model(made)
    forecasts(made)
    made.add_argument("--train-rows", metavar="FILE", nargs="+", help="training rows, for the constant forecast of their bins")
    made.add_argument("--adapter", metavar="LABEL=DIR", type=_labelled, action="append", default=[], help="a run; may be repeated")

    made = command("run", "split, train both stages with each reward, and evaluate")
    hold_out(made)
    with_model(made)
    made.add_argument("--minutes", metavar="X", type=_number(0), help="time for training in all; 0.4 of it is for the supervised stage")
    made.add_argument("--rewards", nargs="+", choices=_REWARDS, default=_REWARDS, help="rewards to train with")
    for stage in ("supervised", "grpo", "evaluate"):
        made.add_argument(f"--{stage}-options", metavar="'OPTION ...'", type=shlex.split, default=[], help=f"options of {stage}")
    return parser


def _write(path: Path, questions: Sequence[_rows.Question]) -> None:
    path.write_text("".join(json.dumps(question.row, ensure_ascii=False) + "\n" for question in questions))


def _split(arguments: argparse.Namespace) -> None:
    questions = _rows.read(arguments.rows)
    family = _rows.families({question.pack for question in questions}, arguments.problems)
    apart = _rows.split(questions, family, arguments.hold_out, arguments.share, arguments.seed)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, part in zip(("train", "held_out"), apart):
        _write(arguments.output / f"{name}.jsonl", part)
        bins = Counter(question.target_bin for question in part)
        names = ", ".join(sorted({family[question.pack] for question in part}))
        print(f"{name}: {len(part)} rows of {names}; bins " + ", ".join(f"{n}: {bins[n]}" for n in sorted(bins)))


def _load(arguments: argparse.Namespace) -> Model:
    from kernelcast.train import _models

    return _models.Model(arguments.model, _models.device_of(arguments.device))


def _train(arguments: argparse.Namespace, model: Model | None = None) -> None:
    from kernelcast.train import _card, _models, _scoring, _stages

    questions = _rows.read(arguments.rows)
    if (found := _scoring.prompt_hash(arguments.prompt_directory)) != questions[0].prompt_hash:
        raise errors.InvalidArgument(f"--prompt-directory: the prompt in {arguments.prompt_directory} has the hash {found}, but the "
                                     f"rows were rendered with {questions[0].prompt_version}, hash {questions[0].prompt_hash}")
    model = model or _load(arguments)
    start = getattr(arguments, "adapter", None)
    if start:
        model.load_adapter(start)
    else:
        model.new_adapter(arguments.rank, arguments.alpha, arguments.seed)
    rows = _stages.examples(model, questions, arguments.prompt_tokens)
    print(f"{len(rows)} of {len(questions)} rows have prompts of at most {arguments.prompt_tokens} tokens", flush=True)
    settings = {name: value for name, value in sorted(vars(arguments).items()) if name not in _NOT_SETTINGS}
    if start:
        settings["begins_with"] = _card.digest(Path(start, _models.ADAPTER, "adapter_model.safetensors"))
    run = _stages.Run(model, arguments.output, settings, arguments.learning_rate, arguments.resume)
    if arguments.command == "supervised":
        complete = _stages.supervised(model, rows, run, steps=arguments.steps, batch=arguments.batch,
                                      micro_batch=arguments.micro_batch, seed=arguments.seed, soften=arguments.soften,
                                      every=arguments.checkpoint_every, minutes=arguments.minutes)
    else:
        with _scoring.Scorer() as scorer:
            complete = _stages.grpo(model, rows, run, scorer, reward=arguments.reward, iterations=arguments.iterations,
                                    groups=arguments.groups, group=arguments.group, updates=arguments.updates,
                                    clip=arguments.clip, kl=arguments.kl, temperature=arguments.temperature,
                                    answer_tokens=arguments.answer_tokens, sample_batch=arguments.sample_batch,
                                    micro_batch=arguments.micro_batch, seed=arguments.seed, reference=start,
                                    minutes=arguments.minutes)
    if not complete:
        print(f"stopped after {arguments.minutes} minutes, at step {run.step}; --resume continues", flush=True)
    model.save_adapter(arguments.output, f"kernelcast {arguments.command}")
    shutil.copytree(arguments.prompt_directory, arguments.output / "prompt", dirs_exist_ok=True)
    import torch

    device = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else model.device.type
    _card.write(arguments.output, arguments.command, settings, arguments.rows, [row.question for row in rows], arguments.model,
                device, complete)


def _evaluate(arguments: argparse.Namespace, model: Model | None = None) -> None:
    import random

    from kernelcast.train import _evaluate, _scoring, _stages

    questions = _rows.read(arguments.rows)
    constant = _rows.frequencies(_rows.read(arguments.train_rows)) if arguments.train_rows else None
    if arguments.limit and arguments.limit < len(questions):
        questions = random.Random(arguments.seed).sample(questions, arguments.limit)
    labels = [label for label, _ in arguments.adapter]
    for label in labels:
        if labels.count(label) > 1 or label in (_evaluate.CONSTANT, _evaluate.UNTRAINED):
            raise errors.InvalidArgument(f"--adapter: the label {label} is taken")
    model = model or _load(arguments)
    rows = _stages.examples(model, questions, arguments.prompt_tokens)
    print(f"{len(rows)} of {len(questions)} rows have prompts of at most {arguments.prompt_tokens} tokens", flush=True)
    with _scoring.Scorer() as scorer:
        _evaluate.predict(model, rows, {_evaluate.UNTRAINED: None, **dict(arguments.adapter)}, arguments.output, scorer, constant,
                          answer_tokens=arguments.answer_tokens, temperature=arguments.temperature, batch=arguments.batch,
                          seed=arguments.seed)
    print(_evaluate.table(arguments.output))


def _run(arguments: argparse.Namespace) -> None:
    """Loads the model once."""
    output = arguments.output
    _split(argparse.Namespace(**{**vars(arguments), "output": output / "rows"}))
    model = _load(arguments)

    def stage(command: str, folder: str, rows: str, *options: str) -> argparse.Namespace:
        print(f"== {folder}", flush=True)
        return parser().parse_args([command, "--output", str(output / folder), "--rows", str(output / "rows" / rows),
                                    "--model", arguments.model, "--device", arguments.device, "--seed", str(arguments.seed),
                                    "--prompt-tokens", str(arguments.prompt_tokens), *options,
                                    *getattr(arguments, f"{command}_options")])

    def minutes(share: float) -> list[str]:
        return ["--resume"] if arguments.minutes is None else ["--resume", "--minutes", str(share * arguments.minutes)]

    def train(command: str, folder: str, *options: str) -> None:
        # Adapters are written at a stage's end. Those of rewards begin with the supervised one, so it must not change.
        if not (output / folder / "adapter.gguf").exists():
            _train(stage(command, folder, "train.jsonl", *options), model)

    train("supervised", "supervised", *minutes(0.4))
    for reward in arguments.rewards:
        train("grpo", reward, "--reward", reward, "--adapter", str(output / "supervised"), *minutes(0.6 / len(arguments.rewards)))
    adapters = [option for name in ("supervised", *arguments.rewards) for option in ("--adapter", f"{name}={output / name}")]
    _evaluate(stage("evaluate", "evaluation", "held_out.jsonl", "--train-rows", str(output / "rows/train.jsonl"), *adapters), model)


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = parser().parse_args(arguments)
    # Nothing is fetched: models and tokenizers are files.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    commands: dict[str, Any] = {"split": _split, "supervised": _train, "grpo": _train, "evaluate": _evaluate, "run": _run}
    try:
        commands[parsed.command](parsed)
    except ImportError as error:
        print(f"kernelcast.train: {error}; install the packages: {sys.executable} -m pip install torch transformers peft gguf",
              file=sys.stderr)
        return _UNREACHABLE
    except errors.Error as error:
        print(f"kernelcast.train: {error}", file=sys.stderr)
        usage = isinstance(error, (errors.InvalidArgument, errors.NotFound, errors.FailedPrecondition))
        return _USAGE if usage else _UNREACHABLE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
