"""Serves a model through llama.cpp's HTTP server, for client tests: a genuine one with --weights, or a tiny one with
random weights.

The tiny model is generated: a two-layer llama whose vocabulary is learnt from the test prompts, so that prompts have
realistic token counts. Its weights are random. Some tokens get a higher score, so that strings end, probabilities are
often near 0.1 and tools get called. Otherwise its answers are random within the grammar that the server derives from a
request.

Prints "the endpoint is at URL" and serves until it is killed or its parent exits.
"""

import argparse
import collections
import ctypes
import math
import random
import re
import signal
import struct
import sys

LAYERS = 2
WIDTH = 64
HEADS = 4
KEY_VALUE_WIDTH = WIDTH // HEADS
INNER_WIDTH = 128

# Coordinates that no layer writes: the first is the same for every token, each other one marks a token.
MARK = 8.0
# The approximate size of the marks after the last norm has divided by the vector's length.
MARK_AT_OUTPUT = 5.5

BEGIN_CALL = "<tool_call>"
END_CALL = "</tool_call>"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6  # GGUF token types
END_OF_TEXT = "</s>"

# Score bonus of a token, anywhere and after the named token.
LOGITS = {
    '"': 6.0,
    "0.1": 6.0,
    ",": 5.0,
    BEGIN_CALL: 5.0,
    END_OF_TEXT: 3.0,
    " ": -3.0,
}
OF_NUMBERS = re.compile(r"[\d.eE+-]+")
LOGITS_AFTER = {
    "}": {END_CALL: 12.0, END_OF_TEXT: 10.0},
    END_CALL: {END_OF_TEXT: 10.0},
}
MARKS = 1 + len(LOGITS_AFTER)

TEMPLATE = """{%- if tools -%}
<|system|>
Functions: {% for tool in tools %}{{ tool | tojson }}
{% endfor %}
Call one: <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>
<|end|>
{% endif -%}
{%- for message in messages -%}
<|{{ message['role'] }}|>
{{ message['content'] if message['content'] is string else '' }}
{%- for call in (message['tool_calls'] or []) -%}
{%- set function = call['function'] -%}
<tool_call>{"name": "{{ function['name'] }}", "arguments": {{ function['arguments'] | tojson }}}</tool_call>
{%- endfor -%}
<|end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|assistant|>
{% endif -%}
"""


def learn_pieces(text, count):
    """The most frequent merges of piece pairs, most frequent first."""
    words = collections.Counter(re.findall(r" ?\w+|[^\w\s]+| +", text))
    parts = {word: list(word) for word in words}
    pieces = []
    while len(pieces) < count:
        pairs = collections.Counter()
        for word, times in words.items():
            for pair in zip(parts[word], parts[word][1:]):
                pairs[pair] += times
        if not pairs:
            break
        first, second = max(pairs, key=lambda pair: (pairs[pair], pair))
        pieces.append(first + second)
        for word, split in parts.items():
            joined = []
            for part in split:
                if joined and joined[-1] == first and part == second:
                    joined[-1] = first + second
                else:
                    joined.append(part)
            parts[word] = joined
    return pieces


def make_vocabulary(text):
    """[(token, score, type)] indexed by token id; pieces with a higher score merge first."""
    vocabulary = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), (END_OF_TEXT, 0.0, CONTROL)]
    vocabulary += [("<0x%02X>" % byte, 0.0, BYTE) for byte in range(256)]
    vocabulary += [(token, 0.0, USER_DEFINED) for token in (BEGIN_CALL, END_CALL, "<|end|>")]
    characters = [chr(code) for code in range(32, 127)]
    pieces = ["0.", "0.1"] + [piece for piece in learn_pieces(text, 600) if piece.isascii()]
    for rank, piece in enumerate(dict.fromkeys(pieces + characters)):
        vocabulary.append((piece.replace(" ", "\u2581"), -float(rank), NORMAL))
    return vocabulary


def token_logit(token, kind):
    if kind == BYTE:
        return -3.0 if token == "<0x0A>" else -30.0
    text = token.replace("\u2581", " ")
    return LOGITS.get(text, -6.0 if OF_NUMBERS.fullmatch(text.strip()) else 0.0)


def make_tensors(vocabulary, seed):
    """[(name, shape with the fastest dimension first, values)]"""
    chance = random.Random(seed)

    def ones(name):
        return (name, (WIDTH,), [1.0] * WIDTH)

    def draw(name, inputs, outputs, silent=0):
        # The first `silent` outputs are zero.
        scale = 1 / math.sqrt(inputs)
        values = [0.0] * (inputs * silent)
        values += [chance.gauss(0, scale) for _ in range(inputs * (outputs - silent))]
        return (name, (inputs, outputs), values)

    embedding, output = [], []
    for token, _, kind in vocabulary:
        embedding += [MARK] + [MARK if token == marked else 0.0 for marked in LOGITS_AFTER]
        embedding += [chance.gauss(0, 1) for _ in range(WIDTH - MARKS)]
        logits = [token_logit(token, kind)]
        logits += [followers.get(token, 0.0) for followers in LOGITS_AFTER.values()]
        output += [logit / MARK_AT_OUTPUT for logit in logits]
        output += [chance.gauss(0, 0.15) for _ in range(WIDTH - MARKS)]
    shape = (WIDTH, len(vocabulary))
    tensors = [
        ("token_embd.weight", shape, embedding),
        ones("output_norm.weight"),
        ("output.weight", shape, output),
    ]
    for layer in range(LAYERS):
        block = "blk.%d." % layer
        tensors += [
            ones(block + "attn_norm.weight"),
            draw(block + "attn_q.weight", WIDTH, WIDTH),
            draw(block + "attn_k.weight", WIDTH, KEY_VALUE_WIDTH),
            draw(block + "attn_v.weight", WIDTH, KEY_VALUE_WIDTH),
            draw(block + "attn_output.weight", WIDTH, WIDTH, silent=MARKS),
            ones(block + "ffn_norm.weight"),
            draw(block + "ffn_gate.weight", WIDTH, INNER_WIDTH),
            draw(block + "ffn_up.weight", WIDTH, INNER_WIDTH),
            draw(block + "ffn_down.weight", INNER_WIDTH, WIDTH, silent=MARKS),
        ]
    return tensors


class GgufWriter:
    """A version 3 file in the format that llama.cpp reads."""

    UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
    FORMATS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}
    ALIGNMENT = 32

    def __init__(self):
        self._pairs = []

    @staticmethod
    def _string(text):
        data = text.encode()
        return struct.pack("<Q", len(data)) + data

    def _value(self, kind, value):
        if kind == self.STRING:
            return self._string(value)
        return struct.pack(self.FORMATS[kind], value)

    def add(self, key, kind, value):
        self._pairs.append(self._string(key) + struct.pack("<I", kind) + self._value(kind, value))

    def add_array(self, key, kind, values):
        head = struct.pack("<IIQ", self.ARRAY, kind, len(values))
        items = b"".join(self._value(kind, value) for value in values)
        self._pairs.append(self._string(key) + head + items)

    def write(self, path, tensors):
        infos, data = [], bytearray()
        for name, shape, values in tensors:
            infos.append(
                self._string(name)
                + struct.pack("<I%dQIQ" % len(shape), len(shape), *shape, 0, len(data))
            )
            data += struct.pack("<%df" % len(values), *values)
            data += bytes(-len(data) % self.ALIGNMENT)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(self._pairs))
        head += b"".join(self._pairs) + b"".join(infos)
        with open(path, "wb") as file:
            file.write(head + bytes(-len(head) % self.ALIGNMENT) + data)


def write_model(path, text, context, seed):
    vocabulary = make_vocabulary(text)
    numbers = {token: number for number, (token, _, _) in enumerate(vocabulary)}
    gguf = GgufWriter()
    gguf.add("general.architecture", gguf.STRING, "llama")
    gguf.add("general.name", gguf.STRING, "tiny-random")
    for key, value in {
        "context_length": context,
        "embedding_length": WIDTH,
        "block_count": LAYERS,
        "feed_forward_length": INNER_WIDTH,
        "attention.head_count": HEADS,
        "attention.head_count_kv": 1,
        "rope.dimension_count": WIDTH // HEADS,
        "vocab_size": len(vocabulary),
    }.items():
        gguf.add("llama." + key, gguf.UINT32, value)
    gguf.add("llama.attention.layer_norm_rms_epsilon", gguf.FLOAT32, 1e-5)
    gguf.add("tokenizer.ggml.model", gguf.STRING, "llama")
    gguf.add_array("tokenizer.ggml.tokens", gguf.STRING, [token for token, _, _ in vocabulary])
    gguf.add_array("tokenizer.ggml.scores", gguf.FLOAT32, [score for _, score, _ in vocabulary])
    gguf.add_array("tokenizer.ggml.token_type", gguf.INT32, [kind for _, _, kind in vocabulary])
    gguf.add("tokenizer.ggml.unknown_token_id", gguf.UINT32, numbers["<unk>"])
    gguf.add("tokenizer.ggml.bos_token_id", gguf.UINT32, numbers["<s>"])
    gguf.add("tokenizer.ggml.eos_token_id", gguf.UINT32, numbers[END_OF_TEXT])
    gguf.add("tokenizer.ggml.add_bos_token", gguf.BOOL, True)
    gguf.add("tokenizer.ggml.add_space_prefix", gguf.BOOL, False)
    gguf.add("tokenizer.chat_template", gguf.STRING, TEMPLATE)
    gguf.write(path, make_tensors(vocabulary, seed))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", nargs="*", help="files to learn the tiny model's vocabulary from")
    parser.add_argument("--packages", required=True, help="folder that holds the package xllamacpp")
    parser.add_argument("--weights", help="GGUF file of a model to serve")
    parser.add_argument("--lora", help="GGUF file of an adapter of the weights")
    parser.add_argument("--model", help="where to write the tiny model")
    parser.add_argument("--name", default="tiny-random", help="the model's name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=16384, help="tokens of context of each slot")
    parser.add_argument("--slots", type=int, default=2, help="requests answered at once")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    parent_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
    if not arguments.weights:
        if not arguments.model or not arguments.text:
            parser.error("give --weights, or --model and the files of text")
        text = ""
        for name in arguments.text:
            with open(name, encoding="utf-8") as file:
                text += file.read()
        write_model(arguments.model, text, arguments.context, arguments.seed)

    sys.path.insert(0, arguments.packages)
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = arguments.weights or arguments.model
    if arguments.lora:
        adapter = xllamacpp.CommonAdapterLoraInfo()
        adapter.path, adapter.scale = arguments.lora, 1.0
        parameters.lora_adapters = [adapter]
    parameters.model_alias = [arguments.name]
    parameters.n_ctx = arguments.context * arguments.slots
    parameters.n_parallel = arguments.slots
    parameters.port = arguments.port
    parameters.use_jinja = True
    parameters.warmup = False
    parameters.cpuparams.n_threads = arguments.threads
    parameters.cpuparams_batch.n_threads = arguments.threads
    server = xllamacpp.Server(parameters)  # returns when the model is loaded and the port bound
    print("the endpoint is at", server.listening_address, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
