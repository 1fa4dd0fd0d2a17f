"""What the process does that decodes a video: it answers with a line of JSON for each frame, some followed by pixels.

The request is a line of JSON: the path, the numbers of the frames whose pixels are wanted, and limits. The first answer
is the frame rate, the last one how long the file says to be if it ended early; an error in place of these ends it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from mambamatcher.errors import InputError
from mambamatcher.io.decoding_worker import limit_process
from mambamatcher.io.video_decoding import VideoDecoder, upright_pixels


def serve_frames() -> None:
    """Answer one request on standard input: what the process runs."""
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    request = json.loads(sys.stdin.buffer.readline())
    try:
        _send_frames(request)
    except InputError as error:
        _send({"error": str(error)})
    except MemoryError:
        _send({"error": f"cannot read {request['path']} as a video: it needs more memory than is allowed"})


def _send_frames(request: dict[str, Any]) -> None:
    wanted = set(request["wanted"])
    limit_process(request["max_pixels"], request["seconds"])
    video = VideoDecoder(Path(request["path"]), request["max_pixels"])
    _send({"rate": video.rate})
    count, time = 0, 0.0
    for number, time, frame in video.frames():
        limit_process(request["max_pixels"], request["seconds"])  # the limit of time is for each frame
        answer: dict[str, Any] = {"number": number, "time": time, "lost": video.lost, "partial": video.partial}
        if number in wanted:
            pixels = upright_pixels(frame)
            _send({**answer, "size": [pixels.shape[1], pixels.shape[0]]}, pixels.tobytes())
        else:
            _send(answer)
        count = number + 1
    _send({"end": video.missing_end(count, time), "lost": video.lost})


def _send(answer: dict[str, Any], pixels: bytes = b"") -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + pixels)
    sys.stdout.buffer.flush()
