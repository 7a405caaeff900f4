"""The members of obstore's typed dicts."""

import ast
from pathlib import Path

import obstore


def fields_of(module: str, name: str) -> list[str]:
    """Return the members of a typed dict in obstore's stubs."""
    text = (Path(obstore.__file__).parent / "_store" / module).read_text("utf-8")
    found = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef) and node.name == name)
    names = [
        line.target.id for line in found.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    ]
    assert names
    return names
