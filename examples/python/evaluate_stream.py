#!/usr/bin/env python3
"""Evaluates kernel sources: evaluate_stream.py ORCHESTRATOR PROBLEM_FOLDER SOURCE.cc ..."""

import argparse
import pathlib
import uuid

import grpc
from kernelcast.v1 import kernel_pb2, orchestrator_pb2, orchestrator_pb2_grpc

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("orchestrator")
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("sources", nargs="+")
for file in ("tls-ca", "tls-certificate", "tls-key", "token-file"):
    parser.add_argument(f"--{file}", type=pathlib.Path)
flags = parser.parse_args()
address, folder, sources = flags.orchestrator, flags.folder, flags.sources
metadata = []
if flags.tls_ca:
    pem = [file and file.read_bytes() for file in (flags.tls_ca, flags.tls_key, flags.tls_certificate)]
    channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(*pem))
else:
    channel = grpc.insecure_channel(address)
if flags.token_file:
    if not flags.tls_ca and not address.startswith(("127.0.0.1:", "localhost:", "unix:")):
        parser.error("a token is sent over TLS only: give --tls-ca")
    metadata = [("authorization", "Bearer " + flags.token_file.read_text().strip())]
stub = orchestrator_pb2_grpc.OrchestratorStub(channel)
yaml = "problem.yaml " + " ".join(f.read_text() for f in folder.rglob("*.yaml"))
files = [kernel_pb2.SourceFile(path=str(f.relative_to(folder)), content=f.read_bytes())
         for f in folder.rglob("*.*") if f.name in yaml]  # a problem is what its YAML names
put = stub.PutProblem(orchestrator_pb2.PutProblemRequest(problem={"files": files}), timeout=30,
                      metadata=metadata)
names = {str(uuid.uuid4()): source for source in sources}
requests = (orchestrator_pb2.EvaluateRequest(
    request_id=request_id, mode=orchestrator_pb2.EVALUATE_MODE_MEASURE, candidate=kernel_pb2.Candidate(
        problem_id=put.definition.problem_id, target="cpu", kind=kernel_pb2.CANDIDATE_KIND_HOST_NATIVE,
        source=pathlib.Path(source).read_bytes())) for request_id, source in names.items())
for reply in stub.EvaluateStream(requests, timeout=600, metadata=metadata):
    evaluation, name = reply.evaluation, names[reply.request_id]
    outcome = evaluation.WhichOneof("result") or f"error: {reply.error.message}"
    if evaluation.HasField("measured"):
        outcome = evaluation.measured.WhichOneof("outcome")
    print(f"{name}: {outcome}: {evaluation.text_feedback.decode()}")
