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
    # The block behind a Python block is what it prints.
    pattern = r"^(<!-- not run: .+ -->\n)?```python\n(.*?)^```\n(?:\n```\n(.*?)^```)?"
    run = [(code, shown) for left_out, code, shown in re.findall(pattern, text, re.MULTILINE | re.DOTALL) if not left_out]
    assert run
    script = tmp_path / "page.py"
    mark = "-- the next block --"
    blocks = f"\nprint({mark!r})\n".join(code for code, _ in run)
    script.write_text("import matplotlib\nmatplotlib.use('agg')\n" + blocks)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for (_, shown), printed in zip(run, done.stdout.split(mark + "\n")):
        assert is_output(shown, printed), f"{page} shows\n{shown}\nand this is printed:\n{printed}"


def is_output(shown: str, printed: str) -> bool:
    """Whether lines follow one another in an output; a line ``...`` stands for lines that are left out, as in the other
    documents (docs/internals/testing.md)."""
    rest = printed.splitlines()
    for piece in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE):
        lines = piece.splitlines()
        places = [at for at in range(len(rest) - len(lines) + 1) if rest[at : at + len(lines)] == lines]
        if not places:
            return False
        rest = rest[places[0] + len(lines) :]
    return True


def test_an_output_is_compared() -> None:
    printed = "a 1\nb 2\nc 3\n"
    for shown in ("a 1\nb 2\n", "a 1\n...\nc 3\n", "...\nb 2\n...\n", ""):
        assert is_output(shown, printed), shown
    for shown in ("a 2\n", "a 1\nc 3\n", "c 3\n...\na 1\n", "d\n"):
        assert not is_output(shown, printed), shown


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
