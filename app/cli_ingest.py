"""From a file or an id to a video that can be asked about."""

from __future__ import annotations

from pathlib import Path

from app.cli_client import CliError, FramegateClient
from app.cli_output import progress_bar


def ingest(client: FramegateClient, video: str) -> str:
    """The video_id of a file (uploaded, then indexed) or of an id, once it is ready."""
    path = Path(video)
    is_file = path.is_file()
    if not is_file and len(video) != 64:
        raise CliError(f"{video} is neither a file nor a video_id (64 hex digits).")
    with progress_bar() as progress:
        video_id = video
        if is_file:
            upload = progress.add_task("upload", total=path.stat().st_size)
            document = client.upload(path, lambda sent: progress.update(upload, completed=sent))
            video_id = str(document["video_id"])
        index = progress.add_task("index", total=1.0)
        client.wait_until_indexed(video_id, lambda done: progress.update(index, completed=done))
    return video_id
