"""MLflow as a view of the experiment: a parent run for a configuration, a child for each cell. The only importer of mlflow.

The store is `mlflow.db` (SQLite) and `mlartifacts/` at the repository's root. Runs are found by their tags (the hash of the
whole configuration, arm, seed), so live logging, `turnwise track`, retries and resumed cells all meet in the same runs.
Metrics are the columns of the table `updates`, `seconds_<phase>` of each update, `seconds_<stage>` and `peak_mb_<stage>`, and
the four headline scores of `metrics.json`. MLflow takes seconds to import, so that happens inside functions.
"""

from turnwise.tracking.live import LiveCell, live_cell
from turnwise.tracking.rebuild import outdated, track

__all__ = ["LiveCell", "live_cell", "outdated", "track"]
