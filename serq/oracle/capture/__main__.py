"""``python -m serq.oracle.capture``: the command, in any Python that has vLLM."""

import sys

from serq.oracle.capture.command import main

sys.exit(main())
