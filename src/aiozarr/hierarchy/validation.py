"""`validate`: checks the metadata documents of a tree: unreadable, invalid and outdated ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

from aiozarr.common.concurrency import map_concurrently
from aiozarr.engine import ArrayLayout
from aiozarr.engine.layout import respelled_metadata
from aiozarr.engine.open_store import Target
from aiozarr.errors import LimitError, MetadataError, PermissionDeniedError, UnsupportedMetadataError
from aiozarr.hierarchy.info import kinds_of
from aiozarr.hierarchy.members import ListedNode, NodeError, check_listable, walk_levels
from aiozarr.hierarchy.node_access import (
    Documents,
    NodeAccess,
    NodeMetadata,
    parse_documents,
    read_documents,
    require_node,
    run_at_target,
)
from aiozarr.metadata.format_rules import FORMATS, join_path, rules_of
from aiozarr.metadata.formats import DOCUMENT_KEYS, PROBE_KEYS, consolidated_node
from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata
from aiozarr.settings import Settings

Severity = Literal["error", "warning", "note"]
Rule = Literal["invalid", "unsupported", "lenient", "formats", "consolidated", "implicit", "chunk_keys"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

SEVERITY: dict[Rule, Severity] = {
    "invalid": "error",
    "unsupported": "error",
    "lenient": "warning",
    "formats": "warning",
    "consolidated": "warning",
    "implicit": "note",
    "chunk_keys": "note",
}
"""error: the node cannot be read. warning: aiozarr reads it, but other readers may not, or may read something else."""


@dataclass(frozen=True)
class Finding:
    """One finding about a node.

    Attributes:
        severity: "error", "warning" or "note".
        rule: "invalid": the document cannot be read; "unsupported": it is valid, but uses an extension that aiozarr
            does not support; "lenient": it violates its format, but is read anyway; "formats": there are documents of
            several formats, or the format differs from that of the group above; "consolidated": consolidated metadata
            differ from the node; "implicit": a group without a document; "chunk_keys": the stored chunks have keys of
            another encoding than the document says.
        path: the node's path below the target.
        key: the document's key, if there is one.
        member: the member of the document, if a member is at fault.
        message: a description of the finding.
    """

    severity: Severity
    rule: Rule
    path: str
    key: str | None
    member: str | None
    message: str


@dataclass
class ValidateReport:
    """The result of `validate`: the number of nodes, and the findings in the order of the tree."""

    nodes: int = 0
    findings: list[Finding] = field(default_factory=list)

    def count(self, severity: Severity) -> int:
        """Return the number of findings of this severity."""
        return sum(finding.severity == severity for finding in self.findings)


async def validate(
    target: Target,
    path: str = "",
    *,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> ValidateReport:
    """Check the metadata documents of a node and of all nodes below it. Chunks are not read.

    Args:
        target: a URL, a local path, or a `Store`.
        path: the node's path inside `target`.
        storage_options: options of the store, for a URL.
        settings: limits and policies.

    Returns:
        the number of nodes and the findings. A finding of severity "error": the node cannot be read. "warning": it
        violates its format or differs from consolidated metadata, but aiozarr reads it anyway. "note": worth knowing.

    Raises:
        NodeNotFoundError: there is no node.
        StoreError: the store could not be read.
        UnknownSchemeError, InvalidKeyError, TypeError, ValueError: as `open`.
    """
    report = ValidateReport()

    async def work(access: NodeAccess, owns_store: bool) -> ValidateReport:
        try:
            async for _ in validate_tree(access, report):
                pass
        finally:
            if owns_store:
                await access.store.aclose()
        return report

    return await run_at_target(work, target, path, zarr_format=None, storage_options=storage_options, settings=settings)


async def validate_tree(access: NodeAccess, report: ValidateReport) -> AsyncGenerator[Finding, None]:
    """Check the node of `access` and all nodes below it, and add the findings to `report`. Runs on the I/O thread.

    Raises:
        NodeNotFoundError: there is no node.
        StoreError: the store could not be read.
    """

    def counted(findings: Iterator[Finding]) -> Iterator[Finding]:
        for finding in findings:
            report.findings.append(finding)
            yield finding

    root: NodeMetadata | MetadataError | LimitError
    try:
        root = await require_node(access)
    except (MetadataError, LimitError) as error:
        root = error
    documents = await read_documents(access, PROBE_KEYS)
    report.nodes += 1
    notes = await _check_chunk_keys((ListedNode("", root), access))
    for finding in counted(chain(check_node(access, "", root, documents), notes)):
        yield finding
    if not isinstance(root, GroupMetadata):
        return
    consolidated = root.consolidated
    formats = {"": root.zarr_format}
    levels = _levels(access, root)
    async with aclosing(levels):
        async for batch in levels:
            children = [access.sibling(join_path(access.path, listed.name, None)) for listed in batch]
            nodes = list(zip(batch, children, strict=True))
            stored = await map_concurrently(_documents_of, nodes)
            misnamed = await map_concurrently(_check_chunk_keys, nodes)
            for listed, child, documents, notes in zip(batch, children, stored, misnamed, strict=True):
                report.nodes += 1
                above = formats.get(listed.name.rpartition("/")[0], root.zarr_format)
                formats[listed.name] = getattr(listed.metadata, "zarr_format", above)
                for finding in counted(chain(check_node(child, listed.name, listed.metadata, documents), notes)):
                    yield finding
                if formats[listed.name] != above:
                    message = f"a node of format {formats[listed.name]} below a group of format {above}, which other"
                    for finding in counted(iter([_finding("formats", listed.name, f"{message} readers do not list")])):
                        yield finding
                if consolidated is not None and not isinstance(listed.metadata, Exception):
                    found = compare_consolidated(child, listed.name, listed.metadata, consolidated, documents)
                    for finding in counted(found):
                        yield finding
    if consolidated is not None:
        for name in sorted(consolidated.nodes.keys() - formats.keys()):
            message = "consolidated metadata has this node, and it is not stored"
            for finding in counted(iter([_finding("consolidated", name, message)])):
                yield finding


async def _documents_of(node: tuple[ListedNode, NodeAccess]) -> Documents:
    listed, access = node
    return {} if isinstance(listed.metadata, PermissionDeniedError) else await read_documents(access, PROBE_KEYS)


async def _check_chunk_keys(node: tuple[ListedNode, NodeAccess]) -> list[Finding]:
    """Return a finding if the first chunk in the listing of an array has a key of another encoding."""
    listed, access = node
    if not isinstance(listed.metadata, ArrayMetadata) or not access.store.supports.listable:
        return []
    kind_of = kinds_of(listed.metadata)
    async with aclosing(access.scheduled.scan(access.prefix)) as entries:
        async for entry in entries:
            kind = kind_of(entry.key[len(access.prefix) :])
            if kind == "misnamed":
                message = f"no chunk has the key {entry.key!r}: another separator or encoding than the document says"
                return [_finding("chunk_keys", listed.name, message)]
            if not isinstance(kind, str):
                return []
    return []


async def _levels(access: NodeAccess, root: GroupMetadata) -> AsyncGenerator[list[ListedNode], None]:
    """Yield the nodes below the root: the listed ones, or if the store cannot list, the consolidated ones."""
    if access.store.supports.listable or root.consolidated is None:
        check_listable(access.store, "find the nodes below this group")
        levels = walk_levels(lambda function: function(access), root.zarr_format)
        async with aclosing(levels):
            async for batch in levels:
                yield batch
        return
    for name in sorted(root.consolidated.nodes):
        child = access.sibling(join_path(access.path, name, None))
        try:
            yield [ListedNode(name, await require_node(child))]
        except (MetadataError, LimitError) as error:
            yield [ListedNode(name, error)]
        except FileNotFoundError:
            continue


def check_node(
    access: NodeAccess, name: str, metadata: NodeMetadata | NodeError, documents: Documents
) -> Iterator[Finding]:
    """Yield the findings about one node, whose documents were read.

    Args:
        access: the access to the node.
        name: its path below the target.
        metadata: the metadata, parsed leniently.
        documents: its documents of all formats.
    """
    formats = [
        number
        for number, keys in DOCUMENT_KEYS.items()
        if any(documents.get(key) is not None for key in _kinds(keys, number))
    ]
    if len(formats) > 1:
        others = ", ".join(map(str, formats[1:]))
        yield _finding("formats", name, f"documents of format {formats[0]}, and of {others}, which are ignored")
    if isinstance(metadata, Exception):
        yield _of_error(name, metadata)
        return
    if not formats:
        stored = {key for key, value in documents.items() if value is not None}
        if stored <= {rules.attributes_key for rules in FORMATS.values()}:
            kind = "a group of attributes" if stored else "a group"
            yield _finding("implicit", name, f"{kind} without a document: other readers may not find it")
        return
    error = _resolve(access, metadata)
    if error is not None:
        yield _of_error(name, error)
        return
    strict = access._replace(settings=replace(access.settings, strict=True))
    try:
        found = parse_documents(strict, documents)
        error = None if found is None else _resolve(strict, found)
    except (MetadataError, LimitError) as refused:
        error = refused
    if error is not None:
        yield replace(_of_error(name, error), severity=SEVERITY["lenient"], rule="lenient")


def compare_consolidated(
    access: NodeAccess, name: str, metadata: NodeMetadata, consolidated: Consolidated, documents: Documents
) -> Iterator[Finding]:
    """Yield a finding if the consolidated metadata of the root differ from those of the node."""
    if all(value is None for value in documents.values()):
        return  # an implicit group has nothing to compare
    try:
        copy = consolidated_node(
            consolidated,
            name,
            node=access.url,
            settings=access.settings,
            storage_transformers=None,
        )
    except (MetadataError, LimitError) as error:
        yield _finding("consolidated", name, f"the consolidated copy of this node cannot be read: {error}")
        return
    if copy is None:
        yield _finding(
            "consolidated", name, "consolidated metadata do not have this node; 'aiozarr consolidate' adds it"
        )
    elif _alone(copy, access) != _alone(metadata, access):
        yield _finding(
            "consolidated", name, "consolidated metadata differ from the node; 'aiozarr consolidate' updates them"
        )


def _alone(metadata: NodeMetadata, access: NodeAccess) -> NodeMetadata:
    if isinstance(metadata, GroupMetadata):
        return replace(metadata, consolidated=None)
    # Copies have the specification's spelling.
    return respelled_metadata(metadata, access.settings)


def _kinds(keys: tuple[str, ...], zarr_format: int) -> tuple[str, ...]:
    """Return the keys of the documents that make a node of a format."""
    rules = rules_of(zarr_format)
    return tuple([key for key in keys if key in (rules.array_key, rules.group_key)])


def _resolve(access: NodeAccess, metadata: NodeMetadata) -> MetadataError | LimitError | None:
    """Return the error of grid, keys and codecs of an array, which its document alone does not show."""
    if isinstance(metadata, ArrayMetadata):
        try:
            ArrayLayout.resolve(metadata, node=access.url, settings=access.settings)
        except (MetadataError, LimitError) as error:
            return error
    return None


def _of_error(name: str, error: NodeError) -> Finding:
    rule: Rule = "unsupported" if isinstance(error, UnsupportedMetadataError) else "invalid"
    # Errors of stores have the whole key.
    key, member = (error.key or "").rpartition("/")[2] or None, getattr(error, "member", None)
    return _finding(rule, name, error.message, key=key, member=member)


def _finding(rule: Rule, path: str, message: str, *, key: str | None = None, member: str | None = None) -> Finding:
    return Finding(SEVERITY[rule], rule, path, key, member, message)
