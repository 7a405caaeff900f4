"""Names that other packages have: the parameters of a class, and the members of obstore's typed dicts."""

import ast
import inspect
from pathlib import Path

import obstore


def parameters_of(kind: type) -> list[str]:
    """Return the parameters that can be given by name to `kind` and, through its `**kwargs`, to its bases."""
    names: dict[str, None] = {}
    for each in kind.__mro__:
        if "__init__" in vars(each):
            for name, parameter in inspect.signature(each.__init__).parameters.items():  # type: ignore[misc]
                if name != "self" and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                    names[name] = None
    assert names
    return list(names)


def fields_of(module: str, name: str) -> list[str]:
    """Return the members of a typed dict in obstore's stubs."""
    text = (Path(obstore.__file__).parent / "_store" / module).read_text("utf-8")
    found = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef) and node.name == name)
    names = [
        line.target.id for line in found.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    ]
    assert names
    return names
