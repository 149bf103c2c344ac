"""A LoRA adapter as GGUF, for llama.cpp's `--lora`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Mapping

from kernelcast import errors

# Architectures of GGUF by transformers' `model_type`.
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
_PREFIX = "base_model.model."


def permuted_rows(rows: int, heads: int) -> list[int]:
    """The order in which llama.cpp's llama architecture has the rows of a query or key matrix: within a head, the two
    halves that rotary embeddings pair alternate. Row i of the result is row permuted_rows[i] of transformers'."""
    size = rows // heads
    return [head * size + half * (size // 2) + pair for head in range(heads) for pair in range(size // 2)
            for half in range(2)]


def heads_of(tensor: str, architecture: str, heads: int, key_value_heads: int) -> int | None:
    """The heads by which the rows of `lora_b` of a GGUF tensor are permuted. None: they are not."""
    if architecture != "llama":
        return None
    return {"attn_q": heads, "attn_k": key_value_heads}.get(tensor.split(".")[-2])


def write(path: Path, tensors: Mapping[str, Any], config: Any, alpha: float, name: str) -> None:
    """Writes peft's `tensors` (lora_A and lora_B of each module) as fp16. `config` is that of the base model."""
    import gguf
    import numpy as np

    architecture = ARCHITECTURES.get(config.model_type)
    if architecture is None:
        raise errors.InvalidArgument(f"model_type: {config.model_type} is not one of {', '.join(ARCHITECTURES)}, of "
                                     "which adapters can be written as GGUF")
    numbers = {text: number for number, text in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(numbers[architecture], config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_name(name)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    for key in sorted(tensors):
        module, matrix = key.removeprefix(_PREFIX).removesuffix(".weight").rsplit(".", 1)
        mapped = names.get_name(module + ".weight", try_suffixes=(".weight",))
        if mapped is None or matrix not in ("lora_A", "lora_B"):
            raise errors.InvalidArgument(f"adapter: {key} has no counterpart in the architecture {architecture}")
        values = np.asarray(tensors[key].float().cpu().numpy(), dtype=np.float16)
        if not math.isfinite(float(np.abs(values).max())):
            raise errors.InvalidArgument(f"adapter: {key} has values beyond the range of fp16")
        heads = heads_of(mapped, architecture, config.num_attention_heads, config.num_key_value_heads)
        if matrix == "lora_B" and heads:
            values = np.ascontiguousarray(values[permuted_rows(values.shape[0], heads)])
        writer.add_tensor(f"{mapped}.{matrix.lower()}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
