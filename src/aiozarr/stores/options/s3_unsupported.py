"""Options of s3fs, botocore and obstore that an S3 store does not have, and why."""

from __future__ import annotations

from aiozarr.stores.options.client_unsupported import CLIENT_UNSUPPORTED
from aiozarr.stores.options.option_table import UnsupportedOption

_CONFIG = "config_kwargs."

S3_UNSUPPORTED = (
    UnsupportedOption(
        (
            "cache_regions",
            "default_block_size",
            "default_cache_type",
            "default_fill_cache",
            "listings_expiry_time",
            "max_paths",
            "skip_instance_cache",
            "use_listings_cache",
        ),
        "nothing is read ahead and no listing is kept; a bucket's region is always remembered",
    ),
    UnsupportedOption(("asynchronous", "loop"), "a store works on any loop"),
    UnsupportedOption(("max_concurrency",), "`Settings.max_requests` says how many requests are sent at once"),
    UnsupportedOption(("fixed_upload_size",), "all parts of an upload but the last have one size"),
    UnsupportedOption(("local_expiry_check",), "the version of every answer is compared here too"),
    UnsupportedOption(
        (f"{_CONFIG}retries", "client_kwargs.retries"),
        "`Settings.retries` says how often a request is repeated",
    ),
    UnsupportedOption(
        ("timeout",), "requests may take as long as they make progress: `idle_timeout`, or `Settings.timeout`"
    ),
    UnsupportedOption(("use_ssl",), "the scheme of `endpoint_url` says it"),
    UnsupportedOption(
        (
            f"{_CONFIG}tcp_keepalive",
            f"{_CONFIG}user_agent",
            f"{_CONFIG}user_agent_appid",
            f"{_CONFIG}user_agent_extra",
        ),
        "connections are kept by pools of our own, which speak HTTP/1.1",
    ),
    UnsupportedOption(
        ("copy_if_not_exists", "disable_tagging"), "nothing is copied by the server, and no tags are written"
    ),
    UnsupportedOption(
        (
            f"{_CONFIG}account_id_endpoint_mode",
            f"{_CONFIG}auth_scheme_preference",
            f"{_CONFIG}client_context_params",
            f"{_CONFIG}defaults_mode",
            f"{_CONFIG}disable_request_compression",
            f"{_CONFIG}endpoint_discovery_enabled",
            f"{_CONFIG}inject_host_prefix",
            f"{_CONFIG}parameter_validation",
            f"{_CONFIG}request_checksum_calculation",
            f"{_CONFIG}request_min_compression_size_bytes",
            f"{_CONFIG}response_checksum_validation",
            f"{_CONFIG}s3.payload_signing_enabled",
            f"{_CONFIG}s3.us_east_1_regional_endpoint",
            f"{_CONFIG}s3.use_arn_region",
            f"{_CONFIG}s3_disable_express_session_auth",
            f"{_CONFIG}sigv4a_signing_region_set",
            "client_kwargs.api_version",
            "client_kwargs.aws_account_id",
        ),
        "they steer botocore, which sends no request here",
    ),
    UnsupportedOption(("conditional_put",), "conditions of writes are sent as headers, and probed for", only=("etag",)),
    # --- refused -------------------------------------------------------------------------------------------------
    UnsupportedOption(
        ("version_aware",), "the newest version of an object is read; versions are not listed", only=(False,)
    ),
    UnsupportedOption(("session", "credential_provider"), "pass `profile`, or `key`, `secret` and `token`", only=()),
    UnsupportedOption(("bucket", "bucket_name", "prefix"), "the URL names bucket and prefix", only=()),
    UnsupportedOption(("s3_express",), "directory buckets (S3 Express One Zone) are not supported", only=()),
    UnsupportedOption(("sse_customer_key_base64",), "keys of one's own would have to be sent with every read", only=()),
    UnsupportedOption(
        (f"{_CONFIG}use_dualstack_endpoint", f"{_CONFIG}use_fips_endpoint", f"{_CONFIG}s3.use_dualstack_endpoint"),
        "name the endpoint: `endpoint_url='https://s3-fips.us-east-1.amazonaws.com'`",
        only=(),
    ),
    UnsupportedOption(
        (f"{_CONFIG}s3.use_accelerate_endpoint",),
        "name the endpoint: `endpoint_url='https://s3-accelerate.amazonaws.com'`, with `virtual_hosted=True`",
        only=(),
    ),
    UnsupportedOption(
        (f"{_CONFIG}ignore_configured_endpoint_urls",),
        "set `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS` in the environment",
        only=(),
    ),
    UnsupportedOption(
        (f"{_CONFIG}proxies_config",),
        "`HTTPS_PROXY` and `NO_PROXY` of the environment say which hosts are asked through which proxy",
        only=(),
    ),
    UnsupportedOption((f"{_CONFIG}client_cert",), "certificates of the client are not sent", only=()),
    UnsupportedOption(
        tuple(
            f"s3_additional_kwargs.{name}"
            for name in (
                "ACL",
                "CacheControl",
                "ContentDisposition",
                "ContentEncoding",
                "ContentLanguage",
                "ContentType",
                "Expires",
                "ExpectedBucketOwner",
                "GrantFullControl",
                "GrantRead",
                "GrantReadACP",
                "GrantWriteACP",
                "Metadata",
                "ObjectLockLegalHoldStatus",
                "ObjectLockMode",
                "ObjectLockRetainUntilDate",
                "SSECustomerAlgorithm",
                "SSECustomerKey",
                "SSECustomerKeyMD5",
                "SSEKMSEncryptionContext",
                "StorageClass",
                "Tagging",
                "WebsiteRedirectLocation",
            )
        ),
        "values are written as bytes alone; set it for the bucket",
        only=(),
    ),
    *CLIENT_UNSUPPORTED,
)
