"""Messages of the Mesos v1 HTTP API, reduced to the parts that the scheduler and the embedded cluster use.

The ``.proto`` files carry Mesos's public field names and numbers; fields left out are kept by the runtime as unknown
fields, so reading and writing a message back loses nothing. ``generate.py`` makes the ``*_pb2`` modules.
"""
