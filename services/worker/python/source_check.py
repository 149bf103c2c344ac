"""Checks a source without running it: PYTHON -c SOURCE FILE BUILDS NAMES TASK_NAME

It must have no syntax errors and define NAMES, which commas separate, or the task's name at its top level. It may also
be a solution of flashinfer-bench or SOL-ExecBench, as JSON, where the name is run; then its entry point must be defined.
BUILDS: not empty where sources in C++ and CUDA of a solution are built.

Exits with REFUSED, NO_MEMORY or TASK_ONLY and says why. Any other exit code but 0 is not the source's fault. TASK_ONLY:
the source may be a task and is no candidate.
"""

import ast
import json
import sys
import traceback

# In python_compiler.cc too. Python itself exits with 1 and 2.
REFUSED, NO_MEMORY, TASK_ONLY = 3, 4, 5
# A task of KernelBench also defines these functions.
TASK_FUNCTIONS = {"get_inputs", "get_init_inputs"}
NATIVE_LANGUAGES = ("cuda", "cpp", "cuda_cpp", "cutlass", "cudnn", "cublas")
BINDINGS = ("torch", "tvm-ffi")
LANGUAGES = ("python", "pytorch", "triton", "cute_dsl", "cutile", "cudnn_frontend", "tilelang")


def refuse(why, code=REFUSED):
    print(why, file=sys.stderr)
    sys.exit(code)


def mentions(tree, name):
    """Whether the code has the name anywhere, also in a text that it may run. Comments and lone texts do not count."""
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        texts = (getattr(node, part, None) for part in ("id", "attr", "name", "asname", "arg", "value"))
        if id(node) not in lone and any(isinstance(text, str) and name in text for text in texts):
            return True
    return False


def check(file, source, names, task_name=""):
    try:
        # Compiling finds errors that parsing does not, such as a return outside a function.
        tree = ast.parse(source, file)
        compile(tree, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        refuse("".join(traceback.format_exception_only(type(error), error)).rstrip())
    if not names:
        return
    defined = set()
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            defined.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            defined.update(alias.asname or alias.name for alias in node.names)
        else:
            defined.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    missing = [name for name in names if name not in defined]
    if missing and task_name not in defined:
        refuse(f"{file} does not define {missing[0]} at its top level")
    if missing and not mentions(tree, names[0]):
        why = f"{file} defines {task_name}, the task's name, and not {names[0]}, which a candidate must define"
        refuse(why, TASK_ONLY if task_name != "Model" or TASK_FUNCTIONS <= defined else REFUSED)


def check_solution(text, builds):
    try:
        solution = json.loads(text)
        spec, sources = solution["spec"], {source["path"]: source["content"].removeprefix("\ufeff") for source in solution["sources"]}
        path, _, entry = spec["entry_point"].rpartition("::")
        languages = spec["languages"] if "languages" in spec else [spec["language"]]
        for part in [path, entry, *languages, *sources, *sources.values()]:
            part.encode()
    except (ValueError, RecursionError) as error:
        refuse(f"the solution is not JSON: {error}")
    except (AttributeError, KeyError, TypeError):
        refuse("the solution needs spec with language (or languages) and entry_point, and sources with path and content")
    supported = (*LANGUAGES, *NATIVE_LANGUAGES) if builds else LANGUAGES
    unknown = [language for language in languages if language.lower() not in supported]
    if unknown:
        why = "" if builds or unknown[0].lower() not in NATIVE_LANGUAGES else " here, but on the target cuda"
        refuse(f"spec: the language {unknown[0]} is not supported{why}; supported are {', '.join(supported)}")
    if any(language.lower() in NATIVE_LANGUAGES for language in languages):
        # A compiler checks the sources when the candidate is loaded.
        if spec.get("binding") not in (None, *BINDINGS):
            refuse(f"spec.binding: {spec['binding']} is not supported; supported are {', '.join(BINDINGS)}")
        if path not in sources or not entry:
            refuse(f"spec.entry_point: {path} is not among the sources, or no function is named")
        return
    if path not in sources or not path.endswith(".py"):
        refuse(f"spec.entry_point: {path} is not a Python file among the sources")
    for name, source in sources.items():
        if name.endswith(".py"):
            check(name, source, [entry] if name == path else [])


def main():
    file, builds, names, task_name = sys.argv[1:]
    names = names.split(",")
    with open(file, "rb") as opened:
        content = opened.read()
    try:
        source = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(f"{file} is not UTF-8: {error}")
    if "run" in names and source.lstrip().startswith("{"):
        check_solution(source, builds)
    else:
        check(file, source, names, task_name)


try:
    main()
except MemoryError:
    refuse("stopped: the source needs too much memory to parse", NO_MEMORY)
