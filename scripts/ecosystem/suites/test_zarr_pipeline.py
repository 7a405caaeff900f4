"""zarr-python's conformance suite of codec pipelines, copied beside its tests by `make test-ecosystem`."""

from __future__ import annotations

from tests.test_codec_pipeline_suite import CodecPipelineTests


class TestAiozarr(CodecPipelineTests):
    """The suite."""

    pipeline_path = "aiozarr.integrations.zarr.CodecPipeline"
