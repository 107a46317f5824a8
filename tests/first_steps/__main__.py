"""``python -m tests.first_steps [PAGE...]``: follows pages literally; ends with 1 where one does not hold.

It starts from a clean clone of HEAD and an empty home, pastes the code blocks of the pages into what they are
for, and compares what they print with what the page shows. Package managers' caches are those of the user.
"""

import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.first_steps.follower import Follower
from tests.first_steps.pages import PAGES
from tests.spark.sessions import CONNECTOR


def main(pages: list[str]) -> int:
    faults = 0
    started = time.monotonic()
    # Whoever ends this run ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="first-steps-", ignore_cleanup_errors=True) as home:
        follower = Follower(Path(home), CONNECTOR)
        follower.prepare()
        try:
            # What README.md starts, all others ask.
            for page in dict.fromkeys(["README.md", *(pages or PAGES)]):
                for step in follower.follow(page):
                    if step.fault:
                        faults += 1
                        print(f"FAULT {step.block.place}: {step.fault}", flush=True)
                    elif step.skipped:
                        print(f"-     {step.block.place}: not run, {step.skipped}", flush=True)
                    else:
                        print(f"ok    {step.block.place} ({step.seconds:.1f} s)", flush=True)
            if CONNECTOR and not follower.planned():
                faults += 1
                print("FAULT SQL in Spark was planned by the engine alone")
            written = sorted({each.name for each in follower.warehouse.iterdir()} - {"demo.db"})
            if written:
                faults += 1
                print(f"FAULT what only reads has written {', '.join(written)} into the warehouse")
        finally:
            follower.end()
        if faults:
            print(
                "".join(follower.log.read_text().splitlines(keepends=True)[-40:])
                if follower.log.exists()
                else ""
            )
    print(f"{faults} faults, {time.monotonic() - started:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
