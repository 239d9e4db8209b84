"""A system as a process of its own: `python -m bench.http.server SPEC` prints its port and serves until SIGTERM.

Every system is served in the same way: one worker of uvicorn with uvloop and httptools, no access log. The garbage
collector is told not to go through what is there before the first request, which says more about imports than systems.
"""

import gc
import importlib
import logging
import socket
import sys

import uvicorn

from bench.http.control import Control, Served
from bench.http.spec import ServerSpec
from bench.http.systems import SYSTEMS

BACKLOG = 2048
PATIENCE = 5
KEEP_ALIVE = 900  # a client may have to wait for the slowest of all before it asks again


def serve(spec: ServerSpec) -> None:
    module, _, name = SYSTEMS[spec.system].app.partition(':')
    served: Served = getattr(importlib.import_module(module), name)(spec)
    config = uvicorn.Config(
        Control(served),
        loop='uvloop',
        http='httptools',
        ws='none',
        lifespan='on',
        access_log=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=PATIENCE,
    )
    with socket.create_server(('127.0.0.1', 0), backlog=BACKLOG) as listener:
        print(listener.getsockname()[1], flush=True)
        gc.collect()
        gc.freeze()
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == '__main__':
    logging.basicConfig(level=logging.WARNING)
    serve(ServerSpec.from_json(sys.argv[1]))
