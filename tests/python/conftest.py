"""Settings for all tests."""

import hypothesis

# The same examples in every run, and no limit on the time of one: a shared machine is slow at times.
hypothesis.settings.register_profile("tests", derandomize=True, deadline=None)
hypothesis.settings.load_profile("tests")
