"""Sweeps: every place gives the same rows, and nothing is lost when a process is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import hoistway
from hoistway import Between, grid, latin_hypercube
from hoistway.space import experiment_at

pytest.importorskip("pyarrow")

SPACE: "dict[str, Any]" = {
    "target": ["model:ssd", "model:nvme"],
    "schedulers": ["none", "wfq", "paternoster"],
    "depth": [1, 4, 16, 32, 64],
    "seed": range(1, 3),
    "groups": {"db": 800, "ci": 100},
    "workloads": "drr:bs=4k,iodepth={depth}",
    "runtime_s": 0.05,
    "ramp_s": 0.01,
}


@pytest.fixture(scope="session")
def serial(tmp_path_factory: pytest.TempPathFactory) -> "list[dict[str, Any]]":
    """The rows of the 60 points, one after the other."""
    done = hoistway.sweep(SPACE, path=tmp_path_factory.mktemp("serial") / "sweep.parquet", workers=1)
    rows: "list[dict[str, Any]]" = done.table.to_pylist()
    assert done.measured == 60 and len(rows) == 120 and done.errors == []
    return rows


def test_a_grid_has_every_combination() -> None:
    points = grid({"target": "model:ssd", "depth": [1, 2], "seed": range(3)})
    assert len(points) == 6 and points[1] == {"target": "model:ssd", "depth": 1, "seed": 1}


def test_each_part_of_a_latin_hypercube_has_one_point() -> None:
    space = {"x": Between(0, 1), "depth": Between(1, 1024, log=True, whole=True), "kind": ["a", "b"], "seed": 7}
    points = latin_hypercube(space, samples=10)
    assert sorted(int(point["x"] * 10) for point in points) == list(range(10))
    assert sum(point["depth"] <= 32 for point in points) == 5
    assert [point["kind"] for point in points].count("a") == 5 and {point["seed"] for point in points} == {7}
    assert points == latin_hypercube(space, samples=10) != latin_hypercube(space, samples=10, seed=2)


def test_parameters_fill_texts() -> None:
    experiment = experiment_at(
        {"target": "model:{device}", "device": "ssd", "w": 300, "groups": {"a": "{w}", "b": 100}, "workloads": "drr"}
    )
    assert experiment.target == "model:ssd" and experiment.groups == (("a", 300), ("b", 100))


def test_a_row_has_its_parameters_seed_and_command(serial: "list[dict[str, Any]]") -> None:
    row = serial[-1]
    assert (row["point"], row["target"], row["depth"], row["seed"], row["group"]) == (59, "model:nvme", 64, 2, "ci")
    assert row["scheduler"] == "paternoster" and row["error"] is None and 0 < row["share"] < 1
    words = row["command"].split()
    assert words[:3] == ["hoistway", "test", "model:nvme"]
    # By the program that ./check has built, or by the one on PATH.
    program = os.environ.get("HOISTWAY", "hoistway")
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=True)
    assert hoistway.Outcome(done.stdout).rows[1].ios_per_s == row["ios_per_s"]


def test_all_processors_give_the_same_rows(serial: "list[dict[str, Any]]", tmp_path: Path) -> None:
    seen: "list[tuple[int, int]]" = []
    path = tmp_path / "sweep.parquet"
    done = hoistway.sweep(SPACE, path=path, progress=lambda done, total: seen.append((done, total)))
    assert done.table.to_pylist() == serial and seen[-1] == (60, 60)
    pandas = pytest.importorskip("pandas")
    assert len(pandas.read_parquet(path)) == 120 and done.to_pandas()["share"].notna().all()
    again = hoistway.sweep(SPACE, path=path)
    assert again.measured == 0 and again.table.to_pylist() == serial


def test_a_failed_point_is_a_row_with_its_error(tmp_path: Path) -> None:
    space = {**SPACE, "schedulers": ["none", "noone"], "target": "model:ssd", "depth": [1], "seed": [1]}
    path = tmp_path / "sweep.parquet"
    done = hoistway.sweep(space, path=path)
    rows = done.table.to_pylist()
    assert len(rows) == 3 and rows[0]["error"] is None
    assert rows[2]["error"].startswith("hoistway: error: the simulator has no scheduler 'noone'") and rows[2]["share"] is None
    assert rows[2]["depth"] == 1 and "-s noone" in rows[2]["command"] and done.errors == [rows[2]["error"]]
    assert hoistway.sweep(space, path=path).measured == 0
    assert hoistway.sweep(space, path=path, retry_failed=True).measured == 1


def test_wrong_spaces_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"
    point = {"target": "model:ssd", "schedulers": "none", "runtime_s": 0.01, "ramp_s": 0.0}
    with pytest.raises(hoistway.Error, match="a point is given twice"):
        hoistway.sweep([point, point], path=path)
    with pytest.raises(hoistway.Error, match="has no point"):
        hoistway.sweep({**point, "seed": []}, path=path)
    with pytest.raises(hoistway.Error, match="'share' is a column of the results"):
        hoistway.sweep({**point, "share": 1}, path=path)
    hoistway.sweep(point, path=path)
    with pytest.raises(hoistway.Error, match="has points of another sweep"):
        hoistway.sweep({**point, "seed": 2}, path=path)
    with pytest.raises(hoistway.Error, match="has the columns of another sweep"):
        hoistway.sweep({**point, "depth": 2}, path=path)


def test_a_killed_sweep_goes_on(serial: "list[dict[str, Any]]", tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"
    script = (
        "import os, signal, hoistway, test_sweep\n"
        "def stop(done, total):\n"
        "    if done == 20: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"hoistway.sweep(test_sweep.SPACE, path={str(path)!r}, workers=1, progress=stop)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent)
    assert killed.returncode == -signal.SIGKILL and not path.exists()
    # The last batch was cut off by a full disk, say.
    journal = path.with_name("sweep.parquet.partial")
    journal.write_bytes(journal.read_bytes()[:-10])
    done = hoistway.sweep(SPACE, path=path)
    assert done.measured == 41 and done.table.to_pylist() == serial and not journal.exists()


def kill_a_worker(pid: int, after: threading.Event) -> None:
    after.wait(60)
    os.kill(pid, signal.SIGKILL)


def test_dask_gives_the_same_rows_although_a_worker_is_killed(serial: "list[dict[str, Any]]", tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    has_begun = threading.Event()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            # A first point, so that both workers have loaded the package.
            client.run(__import__, "hoistway")
            victim, *_ = client.run(os.getpid).values()
            killer = threading.Thread(target=kill_a_worker, args=(victim, has_begun))
            killer.start()
            done = hoistway.sweep(
                SPACE,
                client,
                path=tmp_path / "sweep.parquet",
                progress=lambda done, total: has_begun.set() if done == 10 else None,
            )
            killer.join()
            assert victim not in client.run(os.getpid).values()
    assert done.table.to_pylist() == serial


def test_a_task_that_fails_is_run_point_by_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    module = sys.modules["hoistway.sweep"]

    def dies_of_seed_7(experiments: "list[hoistway.Experiment]") -> "list[Any]":
        if any(experiment.seed == 7 for experiment in experiments):
            raise MemoryError(f"points: {len(experiments)}")
        return [module.measure(experiment) for experiment in experiments]

    monkeypatch.setattr(module, "measure_all", dies_of_seed_7)
    space = {"target": "model:ssd", "schedulers": "none", "seed": range(100), "runtime_s": 0.001, "ramp_s": 0.0}
    with distributed.Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        rows = hoistway.sweep(space, client, path=tmp_path / "sweep.parquet").table.to_pylist()
    assert len(rows) == 100 and len(module._chunks(100, 1)) < 100
    assert [(row["seed"], row["error"]) for row in rows if row["error"]] == [(7, "MemoryError: points: 1")]


def test_ray_gives_the_same_rows_although_a_worker_is_killed(serial: "list[dict[str, Any]]", tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="Ray has no wheel here, or is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        has_begun = threading.Event()
        victim = ray.get(ray.remote(lambda: os.getpid()).remote())
        killer = threading.Thread(target=kill_a_worker, args=(victim, has_begun))
        killer.start()
        done = hoistway.sweep(
            SPACE, ray, path=tmp_path / "sweep.parquet", progress=lambda done, total: has_begun.set() if done == 10 else None
        )
        killer.join()
    finally:
        ray.shutdown()
    assert done.table.to_pylist() == serial


def test_an_executor_is_a_client_too(serial: "list[dict[str, Any]]", tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as executor:
        done = hoistway.sweep(grid({**SPACE, "seed": [1, 2]})[:6], executor, path=tmp_path / "sweep.parquet")
    assert done.table.to_pylist() == serial[:12]
    with pytest.raises(TypeError, match="client is"):
        hoistway.sweep(SPACE, object(), path=tmp_path / "other.parquet")


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"

    def interrupt(done: int, total: int) -> None:
        if done == 5:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        hoistway.sweep(SPACE, path=path, progress=interrupt)
    assert hoistway.sweep(SPACE, path=path).measured == 55
