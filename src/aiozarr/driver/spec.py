"""Specs: the JSON that opens or creates an array, as a frozen record of checked members."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiozarr.driver.context_resources import Bound, CachePool, Context, parse_bound
from aiozarr.driver.document_format import FORMATS, Constraints, Facts, Format
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.index_transform import DomainTransform
from aiozarr.driver.json_members import JSON, Members, as_json, boolean, invalid, one_of, text
from aiozarr.driver.json_members import rank as parse_rank
from aiozarr.driver.kv_store import KvStore, split_pipeline
from aiozarr.driver.schema import Schema, parse_dtype
from aiozarr.settings import Settings

ASSUMPTIONS = ("assume_metadata", "assume_cached_metadata")
POLICY_DEFAULTS = {"fill_missing_data_reads": True, "store_data_equal_to_fill_value": False}


@dataclass(frozen=True)
class Spec:
    """A spec whose members have been checked.

    Attributes:
        driver: "zarr3", or "zarr" for format 2.
        kvstore: the store and the path of the array.
        schema: constraints that do not depend on the format, with `dtype` and `rank` of the spec.
        metadata: constraints on the document.
        transform: the view of the array; None for the whole array.
        open: open an existing array.
        create: create the array; with `open`, only if it does not exist.
        delete_existing: first erase everything below the path.
        assume_metadata: neither read nor write the document.
        assume_cached_metadata: do not read the document when opening.
        recheck_cached_metadata: when the document is read again before a read or write.
        recheck_cached_data: when cached chunks are revalidated.
        fill_missing_data_reads: read chunks that are not stored as the fill value.
        store_data_equal_to_fill_value: store chunks that equal the fill value.
        can_read: whether the view can be read.
        can_write: whether the view can be written.
        exact: choose chunks as TensorStore does even where aiozarr does better; the member is `"compatibility":
            "exact"`.
        is_automatic: whether the format is detected from the stored documents.
        context: shared resources.
        cache_pool: the pool of cached chunks.
        settings: the settings of the array.
        non_defaults: members that the spec of a view repeats, because they are not the defaults.
    """

    driver: str
    kvstore: KvStore
    schema: Schema
    metadata: Constraints
    transform: DomainTransform | None = None
    open: bool = True
    create: bool = False
    delete_existing: bool = False
    assume_metadata: bool = False
    assume_cached_metadata: bool = False
    recheck_cached_metadata: Bound = False
    recheck_cached_data: Bound = True
    fill_missing_data_reads: bool = True
    store_data_equal_to_fill_value: bool = False
    can_read: bool = True
    can_write: bool = True
    exact: bool = False
    is_automatic: bool = False
    context: Context = field(default_factory=Context)
    cache_pool: CachePool = field(default_factory=CachePool)
    settings: Settings = field(default_factory=Settings)
    non_defaults: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: JSON, *, automatic: str = "zarr3") -> Spec:
        """Parse a spec from JSON, or from a URL pipeline such as `s3://bucket/a/|zarr3:`.

        Args:
            value: the JSON.
            automatic: the driver that `auto` in a pipeline stands for.

        Raises:
            InvalidSpecError: a member is unknown or not valid, or members contradict each other; the error names the
                member.
        """
        is_automatic = False
        if isinstance(value, str):
            value = _of_pipeline(value)
            is_automatic = value["driver"] == "auto"
            value["driver"] = automatic if is_automatic else value["driver"]
        now = time.time()
        with Members(value, "") as members:
            driver = members.require("driver", one_of(*FORMATS))
            context = members.take("context", Context.parse, Context())
            kvstore = members.require("kvstore", lambda each, where: KvStore.parse(each, where, context))
            kvstore = kvstore.joined(members.take("path", text, ""))
            pool = members.take("cache_pool", context.cache_pool, context.cache_pool("cache_pool", "cache_pool"))
            threads = members.take("data_copy_concurrency", as_json, None)
            threads = context.resource("data_copy_concurrency", threads, "data_copy_concurrency")
            metadata = members.take("metadata", FORMATS[driver].parse, FORMATS[driver].parse({}, "metadata"))
            transform = members.take("transform", DomainTransform.parse, None)
            schema = members.take("schema", Schema.parse, Schema())
            schema = schema.with_dtype(members.take("dtype", parse_dtype, None), "dtype")
            rank = members.take("rank", parse_rank, None)
            readable, writable = members.take("read", boolean, None), members.take("write", boolean, None)
            defaults = {**dict.fromkeys(("delete_existing", *ASSUMPTIONS), False), **POLICY_DEFAULTS}
            flags: dict[str, Any] = {name: members.take(name, boolean, value) for name, value in defaults.items()}
            flags["create"] = members.take("create", boolean, False)
            flags["open"] = members.take("open", boolean, not flags["create"])
            bounds: dict[str, Bound | str] = {"recheck_cached_metadata": "open", "recheck_cached_data": True}
            non_defaults: dict[str, JSON] = {
                name: flags[name] for name, default in POLICY_DEFAULTS.items() if flags[name] is not default
            }
            for name, default in bounds.items():
                bound: Bound | str = members.take(name, parse_bound, default)
                non_defaults |= {} if bound is default or bound == default == "open" else {name: bound}
                flags[name] = now if bound == "open" else bound
            exact = members.take("compatibility", one_of("exact", "better"), "better") == "exact"
        _check_modes(flags)
        if isinstance(flags["recheck_cached_metadata"], float) and flags["recheck_cached_metadata"] <= now:
            flags["recheck_cached_metadata"] = False  # The document is read when the array is opened.
        schema = _with_ranks(schema, metadata, transform, rank)
        data_type = metadata.data_type
        schema = schema.with_dtype(None if data_type is None else data_type.name, "metadata.data_type")
        both = readable is None and writable is None
        return cls(
            driver=driver,
            kvstore=kvstore,
            schema=schema,
            metadata=metadata,
            transform=transform,
            can_read=both or bool(readable),
            can_write=both or bool(writable),
            exact=exact,
            is_automatic=is_automatic,
            context=context,
            cache_pool=pool,
            settings=_settings(flags, pool, kvstore, threads),
            non_defaults=non_defaults,
            **flags,
        )

    def view_transform(self, facts: Facts) -> DomainTransform:
        """Return the spec's transform within the bounds of the array.

        Dimensions have the labels of the spec's domain, if the spec determines one.
        """
        transform = self.transform
        if transform is None:
            domain = self.format.domain(self.metadata, self.schema)
            transform = DomainTransform.identity(facts.domain if domain is None else domain)
        if len(transform.outputs) != facts.rank:
            reason = f"the transform has {len(transform.outputs)} outputs, but the array has {facts.rank} dimensions"
            raise invalid("transform.output", reason)
        return transform.resolved(facts.domain)

    @property
    def format(self) -> Format:
        """The format of the driver."""
        return FORMATS[self.driver]

    @property
    def domain(self) -> IndexDomain | None:
        """The domain that the spec determines; None if it leaves it open."""
        if self.transform is not None:
            return self.transform.domain
        return self.format.domain(self.metadata, self.schema)


def is_spec(target: object) -> bool:
    """Return whether `open` treats `target` as a spec: whether it is a mapping or a URL pipeline."""
    if isinstance(target, Mapping):
        return True
    return isinstance(target, str) and "|" in target and split_pipeline(target) is not None


def _of_pipeline(url: str) -> dict[str, JSON]:
    found = split_pipeline(url)
    if found is None:
        raise invalid("", f"expected a URL pipeline such as s3://bucket/a/|zarr3:, not {url!r}")
    store, driver, path = found
    return {"driver": driver, "kvstore": store, "path": path}


def _check_modes(flags: Mapping[str, Any]) -> None:
    """Check that the modes of opening are compatible."""
    if not flags["open"] and not flags["create"]:
        raise invalid("open", "open or create must be true")
    if flags["delete_existing"]:
        if not flags["create"]:
            raise invalid("delete_existing", "delete_existing needs create")
        for name in ("open", *ASSUMPTIONS):
            if flags[name]:
                raise invalid("delete_existing", f"delete_existing cannot be combined with {name}")
    for name in ASSUMPTIONS:
        if flags[name] and not flags["open"]:
            raise invalid(name, f"{name} needs open")


def _with_ranks(schema: Schema, metadata: Constraints, transform: DomainTransform | None, rank: int | None) -> Schema:
    """Return the schema with the rank that the spec determines. With a transform, `rank` is that of its domain."""
    if transform is not None:
        if rank is not None and rank != transform.domain.rank:
            raise invalid("rank", f"the rank {rank} differs from the rank {transform.domain.rank} of the transform")
        rank = len(transform.outputs)
    return schema.with_rank(rank, "schema").with_rank(metadata.rank, "schema")


def _settings(flags: Mapping[str, Any], pool: CachePool, kvstore: KvStore, threads: Mapping[str, Any]) -> Settings:
    """Return the settings for the flags and resources of a spec."""
    missing = "fill" if flags["fill_missing_data_reads"] else "raise"
    options: dict[str, Any] = {"missing_chunks": missing, **kvstore.settings, **threads}
    if flags["recheck_cached_data"] is False and pool.total_bytes_limit:
        # Nothing is revalidated, so chunks are cached decoded.
        options["chunk_cache_bytes"] = pool.total_bytes_limit
        options["chunk_cache_seconds"] = float("inf")
    return Settings(**options)
