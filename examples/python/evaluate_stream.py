#!/usr/bin/env python3
"""Evaluates kernel sources: evaluate_stream.py ORCHESTRATOR PROBLEM_FOLDER SOURCE.cc ..."""

import pathlib
import sys
import uuid

import grpc
from kernelcast.v1 import kernel_pb2, orchestrator_pb2, orchestrator_pb2_grpc

address, folder, *sources = sys.argv[1], pathlib.Path(sys.argv[2]), *sys.argv[3:]
stub = orchestrator_pb2_grpc.OrchestratorStub(grpc.insecure_channel(address))
yaml = "problem.yaml " + " ".join(f.read_text() for f in folder.rglob("*.yaml"))
files = [kernel_pb2.SourceFile(path=str(f.relative_to(folder)), content=f.read_bytes())
         for f in folder.rglob("*.*") if f.name in yaml]  # a problem is what its YAML names
put = stub.PutProblem(orchestrator_pb2.PutProblemRequest(problem={"files": files}), timeout=30)
names = {str(uuid.uuid4()): source for source in sources}
requests = (orchestrator_pb2.EvaluateRequest(
    request_id=request_id, mode=orchestrator_pb2.EVALUATE_MODE_MEASURE, candidate=kernel_pb2.Candidate(
        problem_id=put.definition.problem_id, target="cpu", kind=kernel_pb2.CANDIDATE_KIND_HOST_NATIVE,
        source=pathlib.Path(source).read_bytes())) for request_id, source in names.items())
for reply in stub.EvaluateStream(requests, timeout=600):
    evaluation, name = reply.evaluation, names[reply.request_id]
    outcome = evaluation.WhichOneof("result") or f"error: {reply.error.message}"
    if evaluation.HasField("measured"):
        outcome = evaluation.measured.WhichOneof("outcome")
    print(f"{name}: {outcome}: {evaluation.text_feedback.decode()}")
