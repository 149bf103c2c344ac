"""A causal language model with a LoRA adapter: loading, probabilities of answers, sampling."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import peft
import torch
import transformers

from kernelcast import errors
from kernelcast.train import _lora_gguf
from kernelcast.train._rows import Question

ADAPTER = "adapter"
_MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass
class Sample:
    """An answer, as tokens with the one that ends it, if it ended."""

    tokens: list[int]
    text: str
    seconds: float  # share of the time of its batch


def device_of(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise errors.FailedPrecondition(f"--device: {name}: {str(error).splitlines()[0]}") from None
    return torch.device(name)


def _correct(tokenizer: Any, file: Path) -> None:
    """Splits text into words as llama.cpp does. transformers reads all BPE vocabularies of GGUF files as GPT-2's, but
    SmolLM's puts each digit apart first, which changes the white space before it, too."""
    import gguf

    field = gguf.GGUFReader(file).get_field("tokenizer.ggml.pre")
    if field is not None and field.contents() == "smollm":
        from tokenizers import pre_tokenizers

        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])


class Model:
    """`path` is a GGUF file or a folder as of Hugging Face. bfloat16 on GPUs, float32 elsewhere; adapters are float32."""

    def __init__(self, path: str, device: torch.device) -> None:
        file = Path(path)
        if file.is_file() and file.suffix == ".gguf":
            source: dict[str, Any] = {"pretrained_model_name_or_path": os.fspath(file.parent), "gguf_file": file.name}
        elif (file / "config.json").is_file():
            source = {"pretrained_model_name_or_path": path}
        else:
            raise errors.NotFound(f"--model: {path} is neither a .gguf file nor a folder with config.json")
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.path, self.device = path, device
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(**source, local_files_only=True)
        if "gguf_file" in source:
            _correct(self.tokenizer, file)
        if not self.tokenizer.chat_template:
            raise errors.InvalidArgument(f"--model: {path} has no chat template")
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            **source, local_files_only=True, dtype=torch.bfloat16 if device.type == "cuda" else torch.float32)
        self.config = self.model.config
        # The tokenizer of a GGUF file may name another token.
        end = self.model.generation_config.eos_token_id
        end = self.config.eos_token_id if end is None else end
        self.end = end if isinstance(end, int) else end[0]
        # A model's own settings, such as top_k, would change the distribution that is trained.
        self.model.generation_config = transformers.GenerationConfig(eos_token_id=end, pad_token_id=self.end)
        # Without dropout, so that the probabilities of training are those of sampling.
        self.model.to(device).eval()

    def remove_adapter(self) -> None:
        if isinstance(self.model, peft.PeftModel):
            self.model = self.model.unload()

    def new_adapter(self, rank: int, alpha: float, seed: int) -> None:
        """One that changes nothing yet."""
        self.remove_adapter()
        torch.manual_seed(seed)
        self.model = peft.get_peft_model(self.model, peft.LoraConfig(
            task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, target_modules=_MODULES)).eval()

    def load_adapter(self, folder: str | Path) -> None:
        """That of a run's folder."""
        path = Path(folder, ADAPTER)
        if not (path / "adapter_config.json").is_file():
            raise errors.NotFound(f"adapter: {folder} has no {ADAPTER}/adapter_config.json")
        self.remove_adapter()
        self.model = peft.PeftModel.from_pretrained(self.model, path, is_trainable=True).eval()

    def save_adapter(self, folder: Path, name: str) -> None:
        """As safetensors and, for llama.cpp, as GGUF."""
        self.model.save_pretrained(folder / ADAPTER, selected_adapters=["default"], save_embedding_layers=False)
        # peft writes a card that says nothing.
        (folder / ADAPTER / "README.md").unlink(missing_ok=True)
        temporary = folder / "adapter.gguf.new"
        _lora_gguf.write(temporary, self.adapter(), self.config, float(self.model.peft_config["default"].lora_alpha), name)
        os.replace(temporary, folder / "adapter.gguf")

    def weights(self) -> list[Any]:
        """Those that are trained."""
        return [weight for weight in self.model.parameters() if weight.requires_grad]

    def encode(self, question: Question) -> list[int]:
        """The tokens of a prompt, as a server makes them with the same template."""
        text = self.tokenizer.apply_chat_template(question.messages, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def encode_answer(self, text: str) -> list[int]:
        return [*self.tokenizer(text, add_special_tokens=False)["input_ids"], self.end]

    def _prompts(self, prompts: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Tokens and mask, padded on the left."""
        width = max(map(len, prompts))
        tokens = torch.full((len(prompts), width), self.end, device=self.device)
        mask = torch.zeros_like(tokens)
        for row, prompt in enumerate(prompts):
            tokens[row, width - len(prompt):] = torch.tensor(prompt, device=self.device)
            mask[row, width - len(prompt):] = 1
        return tokens, mask

    def log_probabilities(self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]],
                          temperature: float = 1.0) -> tuple[Any, Any]:
        """Of each token of the answers at a temperature, and the mask of these tokens; one row for each answer."""
        tokens, mask = self._prompts(prompts)
        width = max(map(len, answers))
        answer = torch.full((len(answers), width), self.end, device=self.device)
        kept = torch.zeros_like(answer)
        for row, ids in enumerate(answers):
            answer[row, :len(ids)] = torch.tensor(ids, device=self.device)
            kept[row, :len(ids)] = 1
        mask = torch.cat([mask, kept], 1)
        logits = self.model(input_ids=torch.cat([tokens, answer], 1), attention_mask=mask,
                            position_ids=(mask.cumsum(1) - 1).clamp(min=0), use_cache=False,
                            logits_to_keep=width + 1).logits[:, :-1].float()
        return (logits / temperature).log_softmax(-1).gather(2, answer.unsqueeze(2)).squeeze(2), kept

    def sample(self, prompts: Sequence[Sequence[int]], limit: int, temperature: float, batch: int) -> list[Sample]:
        """One answer to each prompt, of at most `limit` tokens. Temperature 0: the most probable token each time."""
        settings: dict[str, Any] = {"do_sample": False}
        if temperature > 0:
            settings = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        samples: list[Sample] = []
        for start in range(0, len(prompts), batch):
            begin = time.monotonic()
            tokens, mask = self._prompts(prompts[start:start + batch])
            with torch.no_grad():
                output = self.model.generate(input_ids=tokens, attention_mask=mask, max_new_tokens=limit, **settings)
            rows = output[:, tokens.shape[1]:].tolist()
            seconds = (time.monotonic() - begin) / len(rows)
            for row in rows:
                ids = row[:row.index(self.end) + 1] if self.end in row else row
                samples.append(Sample(ids, self.tokenizer.decode(ids, skip_special_tokens=True), seconds))
        return samples

    def adapter(self) -> dict[str, Any]:
        """The adapter's tensors, by peft's names."""
        tensors = peft.get_peft_model_state_dict(self.model, save_embedding_layers=False)
        return {name: value.detach().cpu() for name, value in tensors.items()}

    def set_adapter(self, tensors: dict[str, Any]) -> None:
        peft.set_peft_model_state_dict(self.model, tensors)
