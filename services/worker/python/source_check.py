"""Checks a source without running it: PYTHON -c SOURCE FILE NAME...

It must have no syntax errors and define one of the names at its top level.
"""

import ast
import sys
import traceback

file, names = sys.argv[1], sys.argv[2:]
with open(file, encoding="utf-8") as opened:
    source = opened.read()
try:
    # Compiling finds errors that parsing does not, such as a return outside a function.
    tree = ast.parse(source, file)
    compile(tree, file, "exec", dont_inherit=True)
except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
    sys.exit("".join(traceback.format_exception_only(type(error), error)).rstrip())

defined = set()
for node in tree.body:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        defined.add(node.name)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        defined.update(alias.asname or alias.name for alias in node.names)
    else:
        defined.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
if not defined.intersection(names):
    sys.exit(f"{file} does not define {names[0]} at its top level")
