"""A rollback changes flags and nothing else: real processes are the same before and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.answer_world import put_flags
from tests.app.real_service import Service, running_service
from tests.app.video_world import small_clip
from tests.flags.flag_files import serving

BY = {"who": "ana", "why": "a test"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path / "data") as made:
        yield made


def test_a_rollback_leaves_the_processes_and_their_caches_as_they_were(
    service: Service, tmp_path: Path
) -> None:
    content = small_clip(tmp_path / "clip.mp4")
    video_id = service.http.post("/v1/videos", content=content).json()["video_id"]
    service.ask(video_id)
    start = {"candidate": "bolt", "stages": [100], "guards": ["fallback<=50%"], **BY}
    ways = ("command", "flag file", "kill switch")
    obeyed = []
    processes, counted = service.processes(), service.counted()
    for way in ways:
        rollout = service.http.post("/v1/rollouts", json=start).json()
        assert service.ask(video_id)["sampler"]["id"] == "bolt"
        _roll_back(service, way, rollout["rollout_id"])
        evidence = service.ask(video_id)
        obeyed.append(evidence["sampler"]["id"])
        assert set(evidence["caches"].values()) == {"hit"}
        _close(service, way, rollout["rollout_id"])

    assert obeyed == ["aks", "aks", "uniform"]
    assert None not in processes.values()
    assert set(processes) == {"gateway", "encoder"}
    assert service.processes() == processes
    assert service.counted() == counted


def _roll_back(service: Service, way: str, rollout_id: str) -> None:
    if way == "command":
        reply = service.http.post(f"/v1/rollouts/{rollout_id}/rollback", json=BY)
        assert reply.status_code == 200, reply.text
    elif way == "flag file":
        put_flags(service.data_dir / "flags.json", serving("aks"))
    else:
        service.http.put("/v1/kill-switch", json={"is_on": True, **BY})


def _close(service: Service, way: str, rollout_id: str) -> None:
    """End the rollout where the way back only paused it."""
    if way != "command":
        reply = service.http.post(f"/v1/rollouts/{rollout_id}/rollback", json=BY)
        assert reply.status_code == 200, reply.text
