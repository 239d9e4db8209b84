"""Lets pytest explain the assertions of the contract."""

import pytest

pytest.register_assert_rewrite('a2a_scribe.testing')
