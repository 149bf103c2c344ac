#!/usr/bin/env python3
"""Writes responses of LLM endpoints as inputs of llm_response_fuzz, one file each.

usage: make_llm_corpus.py CORPUS_FOLDER
"""

import json
import pathlib
import sys


def event(data) -> str:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


def delta(finish_reason=None, **fields) -> str:
    return event({"id": "x", "model": "m", "choices": [
        {"index": 0, "delta": fields, "finish_reason": finish_reason}]})


def call(**fields) -> str:
    return delta(tool_calls=[fields])


USAGE = {"prompt_tokens": 10, "completion_tokens": 5,
         "prompt_tokens_details": {"cached_tokens": 4},
         "completion_tokens_details": {"reasoning_tokens": 1}}
END = delta("stop") + event({"choices": [], "usage": USAGE}) + event("[DONE]")

BODIES = {
    "content": delta(role="assistant", content="") + delta(content="hi") + END,
    "reasoning": delta(reasoning="a", reasoning_content="a") + delta(reasoning_content="b") + END,
    "tools": call(index=0, id="a", function={"name": "f", "arguments": ""})
             + call(index=0, function={"arguments": "{\"p\":"})
             + call(index=1, id="b", function={"name": "g", "arguments": {"x": 1}})
             + call(index=0, function={"arguments": "0.5}"}) + END,
    "crlf": (": ping\r\n\r\n" + (delta(content="hi") + END).replace("\n", "\r\n")),
    "lines": "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"x\"}}]}\n\n" + END,
    "blanks": delta(content="{}" + " \n" * 40) + END,
    "error": event({"error": {"message": "boom", "code": 503, "type": "server_error"}}),
    "surrogate": "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d \\ude00\"}}]}\n\n" + END,
    "whole": json.dumps({"choices": [{"message": {"content": [{"type": "text", "text": "a"}]},
                                      "finish_reason": "length"}], "usage": USAGE}),
    "body": json.dumps({"error": {"message": "no", "code": "insufficient_quota"}}),
    "detail": json.dumps({"detail": "no"}),
}


def main() -> None:
    corpus = pathlib.Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    for name, body in BODIES.items():
        for status in (b"\x00", b"\x04", b"\x08"):
            (corpus / f"{name}_{status.hex()}").write_bytes(b"\x05" + status + body.encode())


if __name__ == "__main__":
    main()
