"""`day0` as one of several processes, of which one ends before its time: how and which says the
environment. Started by torchrun with -m."""

import os
import signal
import time

from day0.cli.app import main
from day0.errors import Day0Error
from day0.runtime.engine import Engine

WHO, HOW = int(os.environ.get("ENDS_RANK", "-1")), os.environ.get("ENDS_HOW", "")


def step(engine: Engine, whole=Engine.step) -> list:  # noqa: ANN001
    """A step of the engine; the third one of the chosen rank goes wrong."""
    if int(os.environ["RANK"]) == WHO and len(engine.steps) == 2:
        if HOW == "error":
            raise Day0Error("the disk is full", hint="make room")
        if HOW == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    return whole(engine)


if __name__ == "__main__":
    Engine.step = step  # type: ignore[method-assign]
    main()
