"""completion: the scripts of shells."""

from __future__ import annotations

import pytest

from tests.support.command_line import invoke, succeed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_completes_aiozarr(shell: str) -> None:
    text = succeed("completion", shell).stdout
    assert "_AIOZARR_COMPLETE" in text
    assert "aiozarr" in text


def test_other_shells_are_a_usage_error() -> None:
    assert invoke("completion", "cmd").exit_code == 2
