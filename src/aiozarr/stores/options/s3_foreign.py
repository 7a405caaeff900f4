"""What s3fs, botocore and obstore have options for and a store of S3 has not, and why."""

from __future__ import annotations

from aiozarr.stores.options.client import CLIENT_FOREIGN
from aiozarr.stores.options.table import Foreign

_CONFIG = "config_kwargs."

S3_FOREIGN = (
    Foreign(
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
    Foreign(("asynchronous", "loop"), "a store works on any loop"),
    Foreign(("max_concurrency",), "`Settings.max_requests` says how many requests are sent at once"),
    Foreign(("fixed_upload_size",), "all parts of an upload but the last have one size"),
    Foreign(("local_expiry_check",), "the version of every answer is compared here too"),
    Foreign(
        (f"{_CONFIG}retries", "client_kwargs.retries"),
        "`Settings.retries` says how often a request is repeated",
    ),
    Foreign(("timeout",), "requests may take as long as they make progress: `idle_timeout`, or `Settings.timeout`"),
    Foreign(("use_ssl",), "the scheme of `endpoint_url` says it"),
    Foreign(
        (
            f"{_CONFIG}tcp_keepalive",
            f"{_CONFIG}user_agent",
            f"{_CONFIG}user_agent_appid",
            f"{_CONFIG}user_agent_extra",
        ),
        "connections are kept by pools of our own, which speak HTTP/1.1",
    ),
    Foreign(("copy_if_not_exists", "disable_tagging"), "nothing is copied by the server, and no tags are written"),
    Foreign(
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
    Foreign(("conditional_put",), "conditions of writes are sent as headers, and probed for", only=("etag",)),
    # --- refused -------------------------------------------------------------------------------------------------
    Foreign(("version_aware",), "the newest version of an object is read; versions are not listed", only=(False,)),
    Foreign(("session", "credential_provider"), "pass `profile`, or `key`, `secret` and `token`", only=()),
    Foreign(("bucket", "bucket_name", "prefix"), "the URL names bucket and prefix", only=()),
    Foreign(("s3_express",), "directory buckets (S3 Express One Zone) are not supported", only=()),
    Foreign(("sse_customer_key_base64",), "keys of one's own would have to be sent with every read", only=()),
    Foreign(
        (f"{_CONFIG}use_dualstack_endpoint", f"{_CONFIG}use_fips_endpoint", f"{_CONFIG}s3.use_dualstack_endpoint"),
        "name the endpoint: `endpoint_url='https://s3-fips.us-east-1.amazonaws.com'`",
        only=(),
    ),
    Foreign(
        (f"{_CONFIG}s3.use_accelerate_endpoint",),
        "name the endpoint: `endpoint_url='https://s3-accelerate.amazonaws.com'`, with `virtual_hosted=True`",
        only=(),
    ),
    Foreign(
        (f"{_CONFIG}ignore_configured_endpoint_urls",),
        "set `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS` in the environment",
        only=(),
    ),
    Foreign(
        (f"{_CONFIG}proxies_config",),
        "`HTTPS_PROXY` and `NO_PROXY` of the environment say which hosts are asked through which proxy",
        only=(),
    ),
    Foreign((f"{_CONFIG}client_cert",), "certificates of the client are not sent", only=()),
    Foreign(
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
    *CLIENT_FOREIGN,
)
