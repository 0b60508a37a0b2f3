"""The executor: the program that runs one taskgroup on its agent (docs/executor-protocol.md).

Standard library only, Python 3.9 or newer, importing nothing of the rest of the project: it ships as one file.
"""
