"""``python -m serq.oracle.generate``: the command, in any Python."""

import sys

from serq.oracle.generate.command import main

sys.exit(main())
