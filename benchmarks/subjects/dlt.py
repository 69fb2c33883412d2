"""dlt's `rest_api` source as in its documentation, with the same API and the same five fields.

KIND=merge skips stored records by their id, as Ostinato does; KIND=append does not check.

python -m benchmarks.subjects.dlt fetch URL
"""

import json
import os
import sys
import tempfile
import time

sys.path[:] = [
    place for place in sys.path if not place.endswith("benchmarks/subjects")
]  # this module must not hide the package dlt

os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")
os.environ.setdefault("RUNTIME__LOG_LEVEL", "CRITICAL")


def main() -> None:
    import dlt
    from dlt.sources.rest_api import rest_api_source

    from benchmarks.subjects.memory import Growth

    base, _, path = sys.argv[2].rpartition("/")
    url = os.environ["DATABASE_URL"].replace("//postgres@", "//postgres:none@")  # dlt requires a password
    where = (
        dlt.destinations.postgres(url)
        if url.startswith("postgres")
        else dlt.destinations.sqlalchemy(url.replace("sqlite:///", "sqlite:////") if "////" not in url else url)
    )

    def a_source(name: str, **pages: int):  # type: ignore[no-untyped-def]
        paginator = {
            "type": "page_number", "base_page": 1, "page_param": "page", "total_path": "total", **pages,
        }  # fmt: skip
        endpoint = {"path": path, "data_selector": "items", "paginator": paginator}
        return rest_api_source(
            {
                "client": {"base_url": base + "/"},
                "resource_defaults": {
                    "primary_key": "id",
                    "write_disposition": os.environ.get("KIND", "append"),
                },
                "resources": [{"name": name, "endpoint": endpoint}],
            }
        )

    with tempfile.TemporaryDirectory() as folder:
        pipeline = dlt.pipeline("bench", destination=where, dataset_name="main", pipelines_dir=folder)
        # One page first, as for Ostinato, so that imports, connections and tables are not measured.
        pipeline.run(a_source("warm", maximum_page=2))
        growth, began, busy = Growth(), time.monotonic(), time.process_time()
        pipeline.run(a_source("records"))
        seconds, cpu = time.monotonic() - began, time.process_time() - busy
        counted = pipeline.last_trace.last_normalize_info.row_counts["records"]
        print(
            json.dumps(
                {
                    "seconds": seconds, "cpu": cpu, "records": float(counted), "growth_mb": growth.megabytes(),
                    "peak_mb": growth.peak(),
                }
            )
        )  # fmt: skip


if __name__ == "__main__":
    main()
