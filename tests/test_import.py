import subprocess
import sys


def test_importing_the_package_stays_light():
    code = "import sys, turnwise; print([m for m in ('torch', 'transformers', 'duckdb', 'mlflow') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
