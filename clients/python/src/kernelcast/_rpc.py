"""Names the calls of the protocol that this package makes. Nothing else does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from kernelcast.v1 import forecaster_pb2, kernel_pb2
from kernelcast.v1 import orchestrator_pb2 as pb

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)


@dataclass(frozen=True)
class Call(Generic[Request, Reply]):
    name: str
    request: type[Request]
    reply: type[Reply]
    service: str = "Orchestrator"

    @property
    def path(self) -> str:
        return f"/kernelcast.v1.{self.service}/{self.name}"


DESCRIBE = Call("Describe", pb.OrchestratorDescribeRequest, pb.OrchestratorDescription)
PUT_PROBLEM = Call("PutProblem", kernel_pb2.PutProblemRequest, kernel_pb2.PutProblemReply)
EVALUATE = Call("Evaluate", pb.EvaluateRequest, pb.EvaluateReply)
START_SEARCH = Call("StartSearch", pb.StartSearchRequest, pb.StartSearchReply)
STOP_SEARCH = Call("StopSearch", pb.StopSearchRequest, pb.StopSearchReply)
GET_SEARCH = Call("GetSearch", pb.GetSearchRequest, pb.GetSearchReply)
SCORE = Call("Score", forecaster_pb2.ScoreRequest, forecaster_pb2.ScoreReply, "Forecaster")
# The server streams.
EXPORT = Call("Export", pb.ExportRequest, pb.ExportRecord)
WATCH_SEARCH = Call("WatchSearch", pb.WatchSearchRequest, pb.SearchEvent)
# Both sides stream, any number of requests or replies per message.
EVALUATE_MANY = Call("EvaluateStream", pb.EvaluateStreamRequest, pb.EvaluateStreamReply)
