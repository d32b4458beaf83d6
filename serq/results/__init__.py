"""From records to statistics, reports and pictures."""
