"""A fast API on loopback with many records: pages are rendered once, before the first request.

python -m benchmarks.subjects.records_api PORT PAGES RECORDS
"""

import asyncio
import json
import sys


def a_record(number: int) -> dict[str, object]:
    return {
        "id": number,
        "at": f"2026-01-{number % 28 + 1:02}T12:00:00Z",
        "value": number / 7,
        "name": f"record {number}",
        "active": number % 2 == 0,
    }


def a_page(page: int, pages: int, size: int) -> bytes:
    items = [a_record(number) for number in range((page - 1) * size, page * size)]
    following = page + 1 if page < pages else None
    return json.dumps({"items": items, "more": page < pages, "next_page": following, "total": pages}).encode()


async def main() -> None:
    port, pages, size = map(int, sys.argv[1:4])
    few = min(pages, 200)  # of a thousand pages the first are stored, the others rendered on request
    kept = {page: a_page(page, pages, size) for page in range(1, few + 1)}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            query = head.split(b" ", 2)[1].partition(b"page=")[2]
            page = int(query.partition(b"&")[0] or b"1")
            body = kept.get(page) or a_page(page, pages, size)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(quietly, "127.0.0.1", port)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
