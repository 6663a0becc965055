"""What a warm question costs before the LLM, beside vLLM's own video loader and beside no cache.

    python -m benchmarks.question

Runs the real gateway and encoder process; the LLM is an immediate local server that notes when a
request reaches it. The clips are made by FFmpeg's test source through PyAV.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, perf_counter
from urllib.parse import urlsplit

import av

from benchmarks.instant_llm import InstantLlm, instant_llm
from benchmarks.report import append_result
from benchmarks.service import Service, running_service

NUM_QUESTIONS = 200
NUM_RATIO_QUESTIONS = 100
HOUR = "testsrc2=size=320x180:rate=1:duration=3600"
TEN_MINUTES = "testsrc2=size=1280x720:rate=25:duration=600"
VLLM_FRAMES = 32

VLLM_LOADER = """
import sys, time
from pathlib import Path
from app.encoders.torchvision_ops import define_missing_torchvision_ops
define_missing_torchvision_ops()
from vllm.multimodal.video import VIDEO_LOADER_REGISTRY
data = Path(sys.argv[1]).read_bytes()
loader = VIDEO_LOADER_REGISTRY.load("opencv")
started = time.process_time()
frames, _ = loader.load_bytes(data, num_frames=int(sys.argv[2]))
assert len(frames) == int(sys.argv[2]), len(frames)
print(time.process_time() - started)
"""


def make_clip(path: Path, source: str) -> Path:
    """An H.264 file of a synthetic source of FFmpeg's."""
    with av.open(source, format="lavfi") as made, av.open(str(path), "w") as output:
        taken = made.streams.video[0]
        stream = output.add_stream("libx264", rate=taken.average_rate)
        stream.width, stream.height = taken.width, taken.height
        stream.pix_fmt = "yuv420p"
        stream.options = {"preset": "ultrafast", "crf": "30"}
        for frame in made.decode(taken):
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


def ingest(service: Service, clip: Path) -> tuple[str, float, float]:
    """(video_id, wall seconds, CPU seconds of all the service's processes)."""
    cpu_s, started = service.cpu_seconds(), perf_counter()
    video = service.client.upload(clip, lambda _: None)
    service.client.wait_until_indexed(video["video_id"], lambda _: None)
    return str(video["video_id"]), perf_counter() - started, service.cpu_seconds() - cpu_s


def ask(service: Service, video_id: str, question: str) -> None:
    for event in service.client.ask({"video_id": video_id, "question": question}):
        if event.name == "error":
            raise RuntimeError(event.data["detail"])


def before_llm_ms(
    service: Service, llm: InstantLlm, video_id: str, questions: list[str]
) -> tuple[list[float], float]:
    """Milliseconds from sending a request to its first byte at the LLM; CPU seconds a question."""
    times_ms = []
    cpu_s = service.cpu_seconds()
    address = urlsplit(service.url)
    connection = HTTPConnection(address.hostname or "", address.port)
    headers = {"Content-Type": "application/json"}
    for question in questions:
        body = json.dumps({"video_id": video_id, "question": question, "stream": True})
        sent_s = monotonic()
        connection.request("POST", "/v1/answers", body, headers)
        reply = connection.getresponse().read()
        if b"event: done" not in reply:
            raise RuntimeError(reply.decode())
        times_ms.append(1000 * (llm.arrivals_s[-1] - sent_s))
    connection.close()
    return times_ms, (service.cpu_seconds() - cpu_s) / len(questions)


def vllm_loader_cpu_s(clip: Path) -> float:
    """CPU seconds of vLLM's default loader for one question about `clip`."""
    done = subprocess.run(
        [sys.executable, "-c", VLLM_LOADER, str(clip), str(VLLM_FRAMES)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def spread(times_ms: list[float]) -> str:
    p95 = quantiles(times_ms, n=20)[-1]
    return f"p50 {median(times_ms):.1f} ms, p95 {p95:.1f} ms"


def measure(service: Service, llm: InstantLlm, folder: Path) -> list[str]:
    hour, _, _ = ingest(service, make_clip(folder / "hour.mp4", HOUR))
    clip = make_clip(folder / "ten-minutes.mp4", TEN_MINUTES)
    ten_minutes, ingest_wall_s, ingest_cpu_s = ingest(service, clip)
    new = [f"Is there a number {n} in the picture?" for n in range(NUM_QUESTIONS)]
    ask(service, hour, "Which colours are there?")
    hour_new_ms, _ = before_llm_ms(service, llm, hour, new)
    hour_known_ms, _ = before_llm_ms(service, llm, hour, new)
    ask(service, ten_minutes, "Which colours are there?")
    asked = [f"Is there a shape {n} in the picture?" for n in range(NUM_RATIO_QUESTIONS)]
    _, question_cpu_s = before_llm_ms(service, llm, ten_minutes, asked)
    loader_cpu_s = vllm_loader_cpu_s(clip)
    uncached_s = NUM_RATIO_QUESTIONS * ingest_cpu_s
    cached_s = ingest_cpu_s + NUM_RATIO_QUESTIONS * question_cpu_s
    return [
        f"- One hour at 1 fps, {NUM_QUESTIONS} new questions (a query vector made for each), "
        f"from a request's sending to its first byte at the LLM: {spread(hour_new_ms)}. "
        "Aim: p50 ≤ 20 ms.",
        f"- The same questions again (query vector cached): {spread(hour_known_ms)}.",
        f"- CPU of a question about a 10-minute 720p file, whole answer: "
        f"{1000 * question_cpu_s:.1f} ms; vLLM's `video_url` loader for {VLLM_FRAMES} frames of "
        f"it: {loader_cpu_s:.1f} s: **{loader_cpu_s / question_cpu_s:,.0f} × less**. Aim: ≥ 500 ×.",
        f"- {NUM_RATIO_QUESTIONS} questions about it: {cached_s:.1f} CPU-s with its one ingest "
        f"({ingest_cpu_s:.1f} CPU-s, {ingest_wall_s:.1f} s), {uncached_s:.0f} CPU-s when each "
        f"decodes and encodes: **{uncached_s / cached_s:.0f} × less**. Aim: ≥ 50 ×.",
    ]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="framegate-benchmark-") as temporary:
        folder = Path(temporary)
        with instant_llm() as llm:
            settings = {"FRAMEGATE_LLM_URL": llm.url, "FRAMEGATE_LOG_LEVEL": "warning"}
            with running_service(folder / "data", settings) as service:
                lines = measure(service, llm, folder)
    append_result("A warm question (benchmarks/question.py)", lines)


if __name__ == "__main__":
    main()
