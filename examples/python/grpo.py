#!/usr/bin/env python3
"""Trains a tiny policy with GRPO to choose fast kernels: grpo.py PROBLEM RECORDS.jsonl [SEED [MODE [GROUP]]]

The policy is a softmax over the template points in the records, with one weight for each value of a tunable. The records
are those of `kernelcast export --sources`; a worker that replays them answers. With the mode "route" only a share of the
points is measured, and rewards are unbiased estimates. Prints the mean reward of each step and the share.
"""
import dataclasses
import json
import math
import random
import sys

import kernelcast

STEPS, GROUP, RATE = 40, 16, 1.0
# log2 of the speedup, cut at 16x. A failure costs as much as a kernel of half the reference's speed.
REWARD = kernelcast.RewardSpec(shape="log2_speedup", limit=4, penalties={"wrong_result": 1, "compile_error": 1, "crash": 1,
                                                                         "timeout": 1, "exploit": 1})


@dataclasses.dataclass
class Step:
    reward: float  # mean over the group
    results: list[kernelcast.Evaluation]  # one for each point in the group
    probabilities: list[float]  # of the points, before the update

    @property
    def measured(self):
        """The share of the points that were measured."""
        return sum(isinstance(result, kernelcast.Measurement) for result in self.results) / len(self.results)


class Policy:
    def __init__(self, points):
        self.features = [tuple(point.tunables.items()) for point in points]
        self.weights = {feature: 0.0 for features in self.features for feature in features}

    def probabilities(self):
        scores = [sum(self.weights[feature] for feature in features) for features in self.features]
        exps = [math.exp(score - max(scores)) for score in scores]
        return [value / sum(exps) for value in exps]

    def update(self, chosen, advantages):
        """One step along the gradient of sum(advantage * log p(point)) / group."""
        expected = dict.fromkeys(self.weights, 0.0)
        for p, features in zip(self.probabilities(), self.features):
            for feature in features:
                expected[feature] += p
        for index, advantage in zip(chosen, advantages):
            step = RATE * advantage / len(chosen)
            for feature in self.weights:
                self.weights[feature] += step * ((feature in self.features[index]) - expected[feature])


def read_points(path):
    """The candidates in exported records."""
    points = {}
    with open(path) as lines:
        for record in map(json.loads, lines):
            candidate = record["candidate"]
            points[candidate["candidate_id"]] = kernelcast.Candidate(
                candidate["source"], target=candidate["target"], flags=candidate.get("flags", ()),
                tunables={t["name"]: t["value"] for t in candidate["tunables"]}, name=candidate["candidate_id"])
    return list(points.values())


def train(client, problem, points, seed=1, group=GROUP, mode="measure", **options):
    """Yields each step. The options are those of `evaluate_many`."""
    policy, draw = Policy(points), random.Random(seed)
    for step in range(STEPS):
        probabilities = policy.probabilities()
        chosen = draw.choices(range(len(points)), probabilities, k=group)
        # The request id determines the draw of what is measured, so new steps draw anew.
        results = list(client.evaluate_many(problem, [points[i] for i in sorted(set(chosen))], reward=REWARD,
                                            request_id=lambda point: f"{seed}-{step}-{point.name}", mode=mode, **options))
        rewards = {result.candidate.name: result.reward.value for result in results}
        # Samples without a verdict are not trained on.
        known = [(i, rewards[points[i].name]) for i in chosen if rewards[points[i].name] is not None]
        total = sum(reward for _, reward in known)
        # The baseline leaves the sample itself out, so the gradient is unbiased. There is no division by the group's
        # deviation, which is not linear in the rewards.
        advantages = [reward - (total - reward) / max(len(known) - 1, 1) for _, reward in known]
        policy.update([i for i, _ in known], advantages)
        yield Step(total / max(len(known), 1), results, probabilities)


def main(problem_folder, records, seed="1", mode="measure", group=GROUP):
    with kernelcast.local(replay=records) as client:
        problem = client.put_problem(problem_folder)
        steps = train(client, problem, read_points(records), int(seed), int(group), mode)
        for number, step in enumerate(steps, 1):
            print(f"step {number:3}   mean reward {step.reward:6.3f}   measured {step.measured:4.0%}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
