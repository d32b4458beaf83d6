"""Runs under the Python that has pyserq: programs in, outcomes out, a JSON line each."""

import json
import math
import sys

import pyserq

PANIC = "PanicException"


def plain(values):
    """Numbers as JSON has them; infinities and NaN as strings."""
    return [value if math.isfinite(value) else str(value) for value in map(float, values)]


def series(observe):
    return {
        "samples": plain(observe.samples),
        "times": plain(observe.times),
        "sessions": list(observe.sessions),
        "turns": plain(observe.turns),
    }


def failure(stage, error):
    return {"refused": "crash" if type(error).__name__ == PANIC else stage, "message": str(error)}


def outcome(source, trace):
    try:
        program = pyserq.compile(source=source, trace=trace)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the reference is no Exception
        return failure("compile", error)
    try:
        report = pyserq.run(program)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return failure("run", error)
    return {
        "report": json.loads(report.json()),
        "series": {name: series(report.observe(name)) for name in report.observes},
    }


def main():
    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.write(json.dumps(outcome(request["source"], request.get("trace"))) + "\n")
        sys.stdout.flush()


main()
