"""The stylesheets and scripts. Their addresses change with their content, so browsers may cache them for ever."""

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


class Files:
    """The files of a folder, read once."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in TYPES}
        self._versions = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in self._files.items()}

    def url(self, name: str) -> str:
        return f"/static/{name}?v={self._versions[name]}"

    async def answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            return PlainTextResponse("There is no file with this name.", 404)
        caching = FOR_EVER if request.query_params.get("v") == self._versions[name] else {"Cache-Control": "no-cache"}
        return Response(self._files[name], media_type=TYPES[Path(name).suffix], headers=caching)
