"""Tests that third parties run against their plug-ins."""
