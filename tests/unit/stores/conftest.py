"""What the tests of stores share: nothing of the machine's own credentials, servers and proxies."""

import os

import pytest

_CLOUDS = ("AWS_", "AZURE_", "GOOGLE_")
_OTHERS = ("STORAGE_EMULATOR_HOST", "REQUESTS_CA_BUNDLE", "CLOUDSDK_CONFIG")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_CLOUDS) or name in _OTHERS or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AZURE_CONFIG_DIR", "/nowhere")
