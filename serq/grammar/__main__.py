"""``python -m serq.grammar`` writes the parsing tables anew, after a change of the grammar."""

from serq.grammar.tables import TABLES, make

TABLES.write_bytes(make())
