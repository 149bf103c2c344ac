#!/usr/bin/env python3
"""Evaluates kernels with services on this machine: evaluate_many.py PROBLEM CANDIDATES.jsonl [RECORDS.jsonl]"""
import asyncio
import json
import sys
import kernelcast


async def main(problem_folder, candidates_file, records=None):
    async with kernelcast.local(replay=records) as client:
        problem = await client.put_problem(problem_folder)
        with open(candidates_file) as lines:
            candidates = [kernelcast.Candidate(**json.loads(line)) for line in lines]
        async for result in client.evaluate_many(problem, candidates, mode="measure"):
            print(result.candidate.name, result)

asyncio.run(main(*sys.argv[1:]))
