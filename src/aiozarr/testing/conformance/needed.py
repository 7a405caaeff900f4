"""What the suite needs besides aiozarr: pytest, or what to install."""

try:
    import pytest
except ImportError as error:
    raise ImportError("the conformance suite needs the package pytest: pip install pytest") from error

__all__ = ["pytest"]
