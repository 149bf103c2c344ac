"""Writes each kernel of a PTX file into its own file: seeds for ptx_fuzz.

    make_ptx_corpus.py kernels.ptx FOLDER
"""
import pathlib
import re
import sys


def main() -> None:
    text = pathlib.Path(sys.argv[1]).read_text()
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"//.*", "", text)
    header = text[: text.index(".visible .entry")]
    for kernel in text.split(".visible .entry")[1:]:
        name = re.match(r"\s*(\w+)", kernel).group(1)
        body = re.sub(r"[ \t]+", " ", ".visible .entry" + kernel)
        (folder / name).write_text(header + body)


if __name__ == "__main__":
    main()
