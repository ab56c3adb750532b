"""The examples and notebooks run, and the types of the package and of the examples are right."""

import doctest
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hoistway

PYTHON = Path(__file__).parents[1]
EXAMPLES = sorted((PYTHON / "examples").glob("*.py"))
STUDIES = sorted((PYTHON / "studies").glob("*.ipynb"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pyarrow")
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_there_are_examples_and_two_studies() -> None:
    assert len(EXAMPLES) >= 3 and len(STUDIES) == 2


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_a_study_is_executed(study: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    for name in ("ipykernel", "matplotlib", "pandas", "pyarrow"):
        pytest.importorskip(name)
    notebook = nbformat.read(study, as_version=4)
    done = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    figures = [output for cell in done.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    assert figures, "the study draws no figure"


@pytest.mark.parametrize("module", ["hoistway", "hoistway.experiment", "hoistway.space"])
def test_the_examples_of_docstrings(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize("page", ["python/README.md", "docs/start/python.md", "docs/howto/sweep.md"])
def test_the_python_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    for name in ("matplotlib", "pandas", "pyarrow"):
        pytest.importorskip(name)
    text = (PYTHON.parent / page).read_text()
    blocks = re.findall(r"^(<!-- not run: .+ -->\n)?```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    run = [code for left_out, code in blocks if not left_out]
    assert run
    script = tmp_path / "page.py"
    script.write_text("import matplotlib\nmatplotlib.use('agg')\n" + "\n".join(run))
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("minor", range(9, 14))
def test_the_package_is_imported_by_every_python(minor: int) -> None:
    found = [*Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"), shutil.which(f"python3.{minor}")]
    works = [one for one in found if one and subprocess.run([one, "-c", ""], capture_output=True).returncode == 0]
    if not works:
        pytest.skip(f"Python 3.{minor} is not installed")
    script = "import hoistway; print(len(hoistway.run('model:ssd', schedulers='wfq', runtime_s=0.05).rows))"
    place = str(Path(hoistway.__file__).parents[1])
    done = subprocess.run([works[0], "-c", script], capture_output=True, text=True, env={"PYTHONPATH": place})
    assert done.stdout == "1\n", done.stderr


def test_types_are_checked_strictly() -> None:
    pytest.importorskip("mypy")
    places = [PYTHON / "package", PYTHON / "examples"]
    words = [sys.executable, "-m", "mypy", "--strict", "--config-file", PYTHON / "pyproject.toml", *places]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in hoistway.__all__ if not getattr(hoistway, name).__doc__] == []
