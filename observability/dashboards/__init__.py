"""Grafana dashboards over the metrics of names.py: made by `python -m observability.dashboards`."""
