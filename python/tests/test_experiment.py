"""Experiments give what the command gives, and leave the interpreter usable meanwhile."""

import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import hoistway
from hoistway import Experiment

SSD = Experiment(
    "model:ssd",
    groups={"db": 800, "ci": 100},
    workloads="drr:iodepth=32",
    schedulers="paternoster",
    runtime_s=0.2,
    ramp_s=0.05,
)


def without_surroundings(text: str) -> str:
    document = json.loads(text)
    environment = document.pop("environment")
    assert environment["kernel"] and document.pop("started")
    lines = text.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith('  "environment": {'))
    end = next(at for at, line in enumerate(lines) if at > begin and line.startswith("  }"))
    kept = lines[:begin] + lines[end + 1 :]
    return "\n".join(line for line in kept if not line.startswith('  "started": '))


def by_command(words: list[str]) -> "subprocess.CompletedProcess[str]":
    """By the program that ./check has built, or by the one on PATH."""
    program = os.environ.get("HOISTWAY", "hoistway")
    return subprocess.run([program, *words[1:]], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})


@pytest.mark.parametrize(
    "experiment",
    [
        SSD,
        Experiment("model:ssd", runtime_s=0.1, ramp_s=0.05),
        Experiment(
            "model:nvme,seed=7",
            groups=["name=slow,weight=50,rbps=5M,workload=drr:bs=4k,iodepth=4,threads=2", ("ci", 100)],
            workloads=["drr:iodepth=8", "dsr"],
            schedulers=["bfq@5.4:slice_idle=0", "none"],
            threads=[2, 1],
            sets=2,
            seed=9,
            runtime_s=0.0755,
            ramp_s=0.05,
            device_depth=4,
            queue_requests=64,
            machine="era=3",
            share_unit="ios",
            workers=1,
        ),
    ],
)
def test_the_json_is_that_of_the_command(experiment: Experiment) -> None:
    done = by_command([*experiment.command(), "--quiet"])
    assert done.stdout, done.stderr
    assert without_surroundings(experiment.run().json) == without_surroundings(done.stdout)


def test_a_job_file_is_the_same_experiment_too(tmp_path: Path) -> None:
    file = tmp_path / "jobs.fio"
    file.write_text("[a]\nrw=randread\nsize=4m\ncgroup=a\ncgroup_weight=300\n[b]\nrw=randread\nsize=4m\ncgroup=b\n")
    experiment = Experiment("model:sata", workloads=str(file), schedulers="cfq")
    done = by_command([*experiment.command(), "--quiet"])
    assert without_surroundings(experiment.run().json) == without_surroundings(done.stdout)
    assert [row.weight for row in experiment.run().rows] == [300, 100]


@pytest.mark.parametrize(
    "change",
    [
        {"workloads": "drq"},
        {"workloads": "drr:iodepht=1"},
        {"schedulers": "bfqq"},
        {"schedulers": "bfq:slice=1"},
        {"groups": ["name=a,wieght=1"]},
        {"machine": "era=5"},
        {"target": "model:sdd"},
    ],
)
def test_an_error_is_the_message_of_the_command(change: "dict[str, object]") -> None:
    wrong = SSD.with_(**change)
    done = by_command([*wrong.command(), "--quiet"])
    for call in (wrong.plan, wrong.run):
        with pytest.raises(hoistway.Error) as caught:
            call()
        assert f"{caught.value}\n" == done.stderr
        assert caught.value.exit_code == done.returncode == 2
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.exit_code) == (str(caught.value), 2)


def test_writing_to_a_file_that_exists_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_bytes(b"x" * 65536)
    with pytest.raises(hoistway.Error, match="may not be written to") as caught:
        Experiment(str(file), workloads="drw", runtime_s=0.1).run()
    assert caught.value.exit_code == 3 and file.read_bytes() == b"x" * 65536


def test_rows_have_units_and_shares() -> None:
    outcome = SSD.run()
    db, ci = outcome.rows
    assert (db.group, db.weight, db.scheduler, db.workload) == ("db", 800, "paternoster", "drr:iodepth=32")
    assert db.share is not None and abs(db.share - 8 / 9) < 0.02 and abs(db.bytes_per_s / db.ios_per_s - 32768) < 1
    assert db.latency_p50_ns and ci.latency_p50_ns and db.latency_p50_ns < ci.latency_p50_ns
    assert outcome.cells[0].share_error_max is not None and outcome.cells[0].share_error_max < 0.05
    assert "paternoster" in outcome.table() and outcome.csv((50.0,)).count("\n") > 1 and "<html" in outcome.html()


def test_the_builder_and_the_keywords_are_the_same() -> None:
    built = Experiment("model:ssd", runtime_s=0.2, ramp_s=0.05).group("db", 800).group("ci", 100)
    assert built.workload("drr:iodepth=32").scheduler("paternoster") == SSD
    plan = SSD.with_(sets=3, schedulers=["none", "wfq"]).plan()
    assert (plan.runs, plan.groups, plan.runtime_s) == (6, [("db", 800), ("ci", 100)], 0.2)


def test_times_and_limits_are_written_as_in_the_command() -> None:
    assert SSD.with_(runtime_s="200ms", ramp_s="0.05").plan() == SSD.plan()
    assert "1min 30s" in SSD.with_(runtime_s="1min 30s").command()
    limited = SSD.with_(groups=["name=db,rbps=50Mi/s", "name=ci,riops=20k"])
    assert limited.run().rows == limited.with_(groups=["name=db,rbps=52428800", "name=ci,riops=20000"]).run().rows
    with pytest.raises(hoistway.Error, match="'5x' is not a time"):
        SSD.with_(runtime_s="5x").plan()


def test_real_io_goes_through_the_engine() -> None:
    outcome = SSD.with_(target="memory:64MiB", schedulers="wfq").run()
    assert outcome.document["host"] == "engine"
    assert all(row.ios_per_s > 100 for row in outcome.rows)


def test_outcomes_are_pickled_without_their_views() -> None:
    outcome = SSD.run()
    again = pickle.loads(pickle.dumps(outcome))
    assert again.json == outcome.json and again.rows == outcome.rows
    with pytest.raises(ValueError, match="was not run in this process"):
        again.table()


def test_results_become_data_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = SSD.run().to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame["group"]) == ["db", "ci"]
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(SSD.run().to_polars()).height == 2


@pytest.mark.parametrize("kind", ["shares", "throughput", "latency"])
def test_a_figure_takes_two_lines(kind: str, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = SSD.with_(schedulers=["none", "paternoster"]).run().plot(kind)
    axes.figure.savefig(tmp_path / "figure.png")
    heights = [bar.get_height() for bar in axes.patches]
    assert len(heights) == 4 and all(height > 0 for height in heights)
    with pytest.raises(ValueError, match="there is no figure"):
        SSD.run().plot("pie")


def test_progress_is_reported_after_each_run() -> None:
    seen: "list[tuple[int, int]]" = []
    SSD.with_(sets=4, workers=1).run(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_an_exception_of_the_progress_function_ends_the_runs() -> None:
    def stop(done: int, total: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        SSD.with_(sets=1000, runtime_s=5.0, workers=1).run(progress=stop)


def test_other_threads_go_on_during_a_run() -> None:
    steps = 0
    is_over = threading.Event()

    def count() -> None:
        nonlocal steps
        while not is_over.wait(0.001):
            steps += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = steps
    SSD.with_(runtime_s=20.0, workers=1).run()
    during = steps - before
    is_over.set()
    thread.join()
    # The run takes about a second. Without the lock of the interpreter there could be one step before it and one behind.
    assert during > 10, f"{during} steps of 1 ms"


def test_ctrl_c_ends_a_run() -> None:
    script = (
        "import hoistway\nprint('begun', flush=True)\n"
        "try:\n    hoistway.run('model:nvme', workloads='drr:iodepth=32', runtime_s=86400.0, workers=2)\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    # Runs look for a cancellation at least twice a second; this one would go on for a day.
    rest, _ = process.communicate(timeout=120)
    assert rest == "interrupted\n" and process.returncode == 0


def test_run_has_the_fields_of_an_experiment() -> None:
    fields = inspect.signature(hoistway.Experiment.__init__).parameters
    keywords = inspect.signature(hoistway.run).parameters
    assert {name: field.default for name, field in fields.items() if name != "self"} == {
        name: keyword.default for name, keyword in keywords.items() if name != "progress"
    }
    with pytest.raises(TypeError, match=r"run\(\) got an unexpected keyword argument 'runtime'"):
        hoistway.run("model:ssd", runtime=1)  # type: ignore[call-arg]


def test_the_version_is_that_of_the_command() -> None:
    assert hoistway.__version__ in hoistway.command("--version")


def test_a_run_that_is_too_short_for_its_scheduler_warns() -> None:
    with pytest.warns(hoistway.ShortRunWarning, match="--ramp 500ms"):
        SSD.run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SSD.with_(ramp_s=0.5).run()
        SSD.with_(schedulers="wfq").run()


def test_an_outcome_has_its_sets_its_seconds_and_a_table_for_notebooks() -> None:
    outcome = SSD.with_(schedulers="wfq", sets=2, runtime_s=2.0).run()
    by_set = [row for row in outcome.set_rows if row.group == "db"]
    assert [row.set for row in by_set] == [1, 2]
    db = next(row for row in outcome.rows if row.group == "db")
    assert sum(row.bytes_per_s for row in by_set) / 2 == pytest.approx(db.bytes_per_s)
    seconds = [sample for sample in outcome.series if sample.group == "db" and sample.set == 1 and sample.direction == "read"]
    assert [sample.at_s for sample in seconds] == [0.0, 1.0]
    assert sum(sample.bytes for sample in seconds) / 2 == pytest.approx(by_set[0].bytes_per_s)
    page = outcome._repr_html_()
    assert page.count("<tr>") == 3 and "<td>db</td>" in page
