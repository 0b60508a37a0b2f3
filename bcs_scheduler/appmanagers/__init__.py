"""Application managers of installed packages: how they are found, started, recovered and stopped."""
