"""Options of obstore and fsspec for clients of every cloud that no store of a cloud has, and why."""

from __future__ import annotations

from aiozarr.stores.options.option_table import UnsupportedOption

_FALSE = (False, "false", "False")

CLIENT_UNSUPPORTED = (
    UnsupportedOption(("batch_size",), "`Settings.max_requests` says how many requests are sent at once"),
    UnsupportedOption(("retry_config",), "`Settings.retries` says how often a request is repeated"),
    UnsupportedOption(("allow_http",), "the scheme of `endpoint_url` says it"),
    UnsupportedOption(
        (
            "http1_only",
            "http2_keep_alive_interval",
            "http2_keep_alive_timeout",
            "http2_keep_alive_while_idle",
            "pool_idle_timeout",
            "pool_max_idle_per_host",
            "randomize_addresses",
            "user_agent",
        ),
        "connections are kept by pools of our own, which speak HTTP/1.1",
    ),
    # --- refused -------------------------------------------------------------------------------------------------
    UnsupportedOption(("http2_only",), "requests are sent by HTTP/1.1", only=_FALSE),
    UnsupportedOption(("default_headers", "default_content_type"), "no headers of one's own are sent", only=()),
    UnsupportedOption(
        ("proxy_excludes", "proxy_ca_certificate"),
        "`HTTPS_PROXY` and `NO_PROXY` of the environment say which hosts are asked through which proxy",
        only=(),
    ),
)
"""For all clouds."""

TRUST_UNSUPPORTED = (
    UnsupportedOption(
        ("proxy_url",),
        "`HTTPS_PROXY` and `NO_PROXY` of the environment say which hosts are asked through which proxy",
        only=(),
    ),
    UnsupportedOption(
        ("allow_invalid_certificates",),
        "certificates are checked; `SSL_CERT_FILE` names others to trust",
        only=_FALSE,
    ),
    UnsupportedOption(
        ("root_certificate",), "`SSL_CERT_FILE` of the environment names a file of certificates to trust", only=()
    ),
)
"""For the clouds whose stores have no options for proxies and certificates."""
