"""Decompression of answers in small parts, so that a decompression bomb cannot fill the memory."""

import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ostinato.core.errors import BadAnswer

PART: Final = 65_536  # bytes decompressed at once
EITHER_HEADER: Final = zlib.MAX_WBITS | 32  # gzip or zlib
Unpack = Callable[[bytes], Iterator[bytes]]


def unpacker(encoding: str) -> Unpack:
    """Return the decoder of a Content-Encoding; an empty part ends it."""
    match encoding.strip().lower():
        case "" | "identity":
            return _as_it_is
        case "gzip" | "x-gzip":
            return Inflating()
        case "deflate":
            return Inflating(raw=True)
        case "br" if find_spec("brotli") is not None:
            return Brotli()
        case other:
            raise BadAnswer(f"The answer has an unknown Content-Encoding: {other[:50]}.", 200)


def _as_it_is(part: bytes) -> Iterator[bytes]:
    if part:
        yield part


class Inflating:
    """Decoder of gzip (any number of members) and of deflate, with or without zlib's header."""

    def __init__(self, raw: bool = False) -> None:
        self._raw, self._begun = raw, False
        self._inflate = zlib.decompressobj(EITHER_HEADER)

    def __call__(self, part: bytes) -> Iterator[bytes]:
        if not part:
            if self._begun and not self._inflate.eof:
                raise BadAnswer("The compressed answer is incomplete.", 200)
            return
        while part:
            if self._inflate.eof:
                if not part.strip(b"\0"):
                    return  # padding
                self._inflate = zlib.decompressobj(EITHER_HEADER)
            unpacked = self._unpacked(part)
            part = self._inflate.unconsumed_tail or self._inflate.unused_data
            if unpacked:
                yield unpacked

    def _unpacked(self, part: bytes) -> bytes:
        begun, self._begun = self._begun, True
        try:
            return self._inflate.decompress(part, PART)
        except zlib.error:
            if not self._raw or begun:
                raise BadAnswer("The answer does not match its Content-Encoding.", 200) from None
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            return self._inflate.decompress(part, PART)
        except zlib.error:
            raise BadAnswer("The answer does not match its Content-Encoding.", 200) from None


class Brotli:
    """Decoder of Brotli, if the library is installed. Ostinato never asks for it, but some servers send it."""

    def __init__(self) -> None:
        brotli: Any = import_module("brotli")
        self._error: type[Exception] = brotli.error
        self._inflate: Any = brotli.Decompressor()

    def __call__(self, part: bytes) -> Iterator[bytes]:
        if not part:
            if not self._inflate.is_finished():
                raise BadAnswer("The compressed answer is incomplete.", 200)
            return
        try:
            while True:
                unpacked = self._inflate.process(part, output_buffer_limit=PART)
                if unpacked:
                    yield unpacked
                part = b""
                if self._inflate.can_accept_more_data():
                    return
        except self._error:
            raise BadAnswer("The answer does not match its Content-Encoding.", 200) from None
