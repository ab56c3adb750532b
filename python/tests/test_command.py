"""Lists come from the library; traces, calibration and comparisons from the command."""

from pathlib import Path

import pytest

import hoistway

TRACES = Path(__file__).parents[2] / "crates" / "workload" / "tests" / "traces"


def test_lists() -> None:
    ssd = next(device for device in hoistway.devices() if device.name == "ssd")
    assert ssd.type == "flash" and any(parameter.name == "t_read_us" for parameter in ssd.parameters)
    paternoster = next(scheduler for scheduler in hoistway.schedulers() if scheduler.name == "paternoster")
    assert paternoster.has_shares and "give" in paternoster.tunables
    assert "randread" in {workload.name for workload in hoistway.workloads()}


def test_without_the_program_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOISTWAY", raising=False)
    monkeypatch.setenv("PATH", "")
    assert hoistway.devices() and hoistway.schedulers() and hoistway.workloads()
    with pytest.raises(hoistway.Error, match="not on PATH(.|\n)*cargo install"):
        hoistway.command("list")


def test_an_error_of_the_command_is_an_exception() -> None:
    with pytest.raises(hoistway.Error, match="there is no list of 'devcies'") as caught:
        hoistway.command("list", "devcies")
    assert caught.value.exit_code == 2 and str(caught.value).startswith("hoistway: error: ")


def test_traces_are_read_and_replayed() -> None:
    pytest.importorskip("pandas")
    msr = TRACES / "msr.csv"
    info = hoistway.trace_info(msr)
    assert (info.format, info.ios, info.read_bytes, info.write_bytes) == ("msr", 3, 28672, 512)
    frame = hoistway.read_trace(msr)
    assert list(frame["op"]) == ["read", "write", "read"] and frame["length_bytes"].sum() == 29184
    outcome = hoistway.replay(msr, "model:sata", ["mq-deadline", "none"], "--scale")
    assert [cell.scheduler for cell in outcome.cells] == ["mq-deadline", "none"]
    assert outcome.rows[0].group == "trace" and outcome.rows[0].latency_mean_ns


def test_a_model_is_calibrated(tmp_path: Path) -> None:
    rows = tmp_path / "rows.toml"
    rows.write_text(
        '[[anchor]]\nname = "reads"\nfigure = "iops"\npublished = 20000\nunit = "1/s"\n'
        'scheduler = "none"\nmachine = ""\n'
        'job = """\n[j]\nfilename=disk\nrw=randread\nbs=4k\ndirect=1\nnorandommap\nruntime=1s\ntime_based\n"""\n'
    )
    found = hoistway.calibrate("null", rows, free=["latency_us"], max_trials=40)
    assert [fit.name for fit in found.parameters] == ["latency_us"] and found.parameters[0].after > 10
    assert "latency_us" in found.toml
    model = tmp_path / "mine.toml"
    model.write_text(found.toml)
    outcome = hoistway.run(f"model:{model}", workloads="drr:bs=4k", schedulers="none", runtime_s=1.0, ramp_s=0.1)
    assert abs(outcome.rows[0].ios_per_s / 20000 - 1) < 0.1


def test_outcomes_and_directories_are_compared(tmp_path: Path) -> None:
    base = hoistway.Experiment("model:sata", workloads="dsr", schedulers="cfq", sets=3, runtime_s=0.2, ramp_s=0.05)
    old, new = base.run(), base.with_(device_depth=1, seed=2).run()
    changes = hoistway.compare(old, new)
    bandwidth = next(change for change in changes if change.metric == "total_bw")
    assert bandwidth.delta is not None and abs(bandwidth.delta - (bandwidth.new / bandwidth.old - 1)) < 1e-9
    assert all(change.is_identical for change in hoistway.compare(old, base.run()))
    for name, experiment in (("old", base), ("new", base.with_(device_depth=1, seed=2))):
        words = [word for word in experiment.command()[1:] if word not in ("--no-store", "--format", "json")]
        hoistway.command(*words, "--outdir", tmp_path / name, "--quiet")
    assert hoistway.compare(tmp_path / "old", tmp_path / "new") == changes
    assert hoistway.load(tmp_path / "old").rows == old.rows
    with pytest.raises(hoistway.Error, match="no run in common"):
        hoistway.compare(old, base.with_(schedulers="none").run())
    with pytest.raises(TypeError):
        hoistway.compare(old, tmp_path / "new")
