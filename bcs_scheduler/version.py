"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("bcs-scheduler")
except PackageNotFoundError:  # run from a source tree that was not installed
    VERSION = "0.0.0"
