"""An OpenAI-compatible endpoint that answers from a list."""

import contextlib
import http.server
import itertools
import json
import threading


@contextlib.contextmanager
def scripted_model(answers, on_request=lambda number: None):
    """Serves the answers in turn, again from the first after the last one. Calls `on_request` before each, from 1."""
    numbers = itertools.count(1)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            number = next(numbers)
            on_request(number)
            message = {"role": "assistant", "content": answers[(number - 1) % len(answers)]}
            body = json.dumps({
                "id": str(number), "object": "chat.completion", "created": 0, "model": "scripted",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
            self.reply(body)

        def do_GET(self):
            self.reply(json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))

        def reply(self, text):
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()
