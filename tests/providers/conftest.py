import pytest

# The suite ships in the package, where pytest does not explain failed asserts unless it is asked to.
pytest.register_assert_rewrite("hansard.providers.conformance")
