"""The plugin of `test_process.py`: what it does is the claim's text."""

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from ralph_orchestrator_sdk import Accepted, Agent, Rejected, Task, Validation, Validator, Verdict, run  # noqa: E402

print("printed before run() is called")


class Odd(Validator[None]):
    """does what the claim says"""

    def validate(self, call: Validation) -> Verdict:
        what = call.claim.text
        if what == "print":
            print("printed", flush=True)
            subprocess.run(["echo", "printed by a program"], check=True)
        elif what == "read":
            return Accepted(repr(sys.stdin.read()))
        elif what == "raise":
            raise ValueError("bad value")
        elif what == "hang":
            logging.getLogger("odd").info("hangs")
            threading.Event().wait()
        elif what == "exit":
            sys.exit(3)
        elif what == "log":
            logging.getLogger("odd").warning("warned of %s", "this")
        elif what == "no verdict":
            return None  # type: ignore[return-value]
        elif what == "huge":
            return Accepted("x" * (17 * 1024 * 1024))
        elif what == "reject":
            return Rejected("first", "second")
        elif what.startswith("sleep"):
            call.wait(60)
        return Accepted(f"{len(what)} characters")


class Endless(Agent[None]):
    """prints for ever"""

    def run(self, task: Task) -> str:
        while True:
            task.text("more")
            time.sleep(0)


run(Odd, Endless, name="odd")
