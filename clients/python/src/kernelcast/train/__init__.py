"""Trains a language model to forecast: `python -m kernelcast.train`.

docs/howto/train.md describes it. Needs the extra `train`: PyTorch, transformers, peft and gguf.
"""
