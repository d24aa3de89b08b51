"""`turnwise track` and `turnwise report`: rebuild what is only a view of `runs/` and `reports/`."""

from pathlib import Path

REPORTS = Path("reports")


def track() -> None:
    """Rebuild the MLflow runs of this experiment from `runs/`, `reports/` and `dvc.lock`.

    A parent run for the configuration, a child for each cell. Running it again changes nothing that is up to date.

    Example: `turnwise track && mlflow ui --backend-store-uri sqlite:///mlflow.db`
    """
    from turnwise.config import read_params
    from turnwise.tracking import outdated, track

    params = read_params()
    runs, old = track(Path(), params), outdated(Path(), params)
    if old:
        names = ", ".join(f"{arm}-{seed}" for arm, seed in old)
        print(f"left out, since they ran with other parameters: {names}; `dvc repro` brings them up to date")
    if runs:
        print(f"mlflow.db: {runs} runs of this experiment; `make up` shows them")
    else:
        print("runs: no cell of this experiment is finished, so nothing is recorded; `dvc repro` runs them")


def report() -> None:
    """Write `reports/index.html`, the trajectories' pages and `turnwise.duckdb` anew from what `dvc repro` left in
    `runs/` and `reports/`.

    Example: `turnwise report`
    """
    from turnwise.config import read_params

    params = read_params()
    from turnwise.analysis import report

    report(Path(), params, REPORTS)
    print(f"{REPORTS / 'index.html'} is written")
