"""The table executor: measured latencies of operators, where they were measured, and what lies between."""
