"""Jobs, executions, workers, queues and statistics as tables and facts."""

from datetime import datetime
from typing import Any

from ostinato.cli.output import (
    NO_TIME,
    Answer,
    Column,
    FactsTable,
    Listing,
    Sentences,
    Several,
    Shown,
    at_length,
    instant,
    plain,
    relative,
    took,
    when,
)
from ostinato.core.policy import POLICY_WORDS

# -- Jobs as people see them


def called(job: Answer) -> str:
    """A job in a sentence."""
    return f"{job['key'] or job['name'] or job['task']} ({job['id']})"


def job_list(answer: Answer, now: datetime) -> Shown:
    """A page of jobs."""
    columns = (
        Column("Job", lambda job: job["key"] or job["id"]),
        Column("Name", lambda job: job["name"], spare=1, cut=True),
        Column("Task", lambda job: job["task"], spare=3, cut=True),
        Column("Status", lambda job: job["status"]),
        Column("Schedule", lambda job: job["schedule_description"], spare=2, cut=True),
        Column("Next run", lambda job: when(job["next_run_at"], now)),
        Column("Done", lambda job: job["counters"]["completed"], spare=5, right=True),
        Column("Failed", lambda job: _failed(job), spare=4, right=True),
        Column("Queue", lambda job: job["queue"], spare=6),
        Column("Why", lambda job: job["reason"] or job["stop"] or "", spare=4, cut=True),
    )
    jobs = answer["jobs"]
    parts: list[Shown] = [Listing(columns, jobs, "There are no such jobs.")]
    if len(jobs) < answer["total"]:
        parts.append(Sentences([f"{len(jobs)} of {answer['total']}; --limit and --offset show others."]))
    return Several(parts)


def declined_list(answer: Answer, now: datetime) -> Shown:
    """The declared jobs that stay deleted."""
    columns = (
        Column("Key", lambda row: row["key"]),
        Column("App", lambda row: row["app"]),
        Column("Deleted", lambda row: when(row["deleted_at"], now)),
        Column("By", lambda row: row["deleted_by"], spare=1, cut=True),
    )
    return Listing(columns, answer["declined"], "No declared job was deleted.")


def _failed(job: Answer) -> int:
    counters = job["counters"]
    return int(counters["failed"] + counters["timed_out"] + counters["lost"])


def job_facts(job: Answer, now: datetime) -> Shown:
    """One job, as far as it differs from what is usual."""
    return FactsTable(
        {
            "Job": job["id"],
            "Key": job["key"],
            "Name": job["name"],
            "Description": job["description"],
            "App": job["app"],
            "Task": job["task"],
            "Args": job["args"],
            "Status": job["status"],
            "Waits for": job["waits_for"],
            "Why": job["reason"],
            "Stop": job["stop"],
            "Schedule": f"{job['schedule_description']} ({_schedule(job['schedule'])})",
            "Next run": at_length(job["next_run_at"], now),
            POLICY_WORDS["start_at"].label: at_length(job["start_at"], now),
            POLICY_WORDS["end_at"].label: at_length(job["end_at"], now),
            POLICY_WORDS["window"].label: job["window"],
            "Queue": job["queue"],
            "Priority": job["priority"],
            POLICY_WORDS["max_retries"].label: _retries(job),
            POLICY_WORDS["overlap"].label: job["overlap"],
            POLICY_WORDS["catch_up"].label: job["catch_up"],
            POLICY_WORDS["timeout"].label: job["timeout"],
            POLICY_WORDS["run_args"].label: ", ".join(job["run_args"]),
            "Tags": ", ".join(job["tags"]),
            "Owner": job["owner"],
            "Metadata": job["metadata"],
            "Runs": _counters(job["counters"]),
            "Error": job["error_message"],
            "Created": at_length(job["created_at"], now),
            "Changed": f"{at_length(job['updated_at'], now)}, version {job['version']}",
            "Paused": at_length(job["paused_at"], now),
            "Cancelled": at_length(job["cancelled_at"], now),
            "Started": at_length(job["started_at"], now),
            "Ended": at_length(job["completed_at"], now),
        }
    )


def _schedule(schedule: Answer) -> str:
    return " ".join(plain(value) if name != "manual" else name for name, value in schedule.items())


def _retries(job: Answer) -> str:
    backoff = job["backoff"]
    waits = ", ".join(backoff["steps"]) or f"from {backoff['base']} up to {backoff['cap']}"
    return f"{job['max_retries']}, {backoff['kind']} {waits}; then {job['when_exhausted']}"


def _counters(counters: Answer) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counters.items() if count) or "none yet"


def job_stats(stats: Answer, now: datetime) -> Shown:
    """A job in figures."""
    return FactsTable(
        {
            "Executions": stats["total_executions"],
            "Successful": stats["successful_runs"],
            "Failed": stats["failed_runs"],
            "Cancelled": stats["cancelled_runs"],
            "Due times skipped": stats["skipped"],
            "Success rate": percent(stats["success_rate"]),
            "Takes": took(stats["average_duration_ms"]),
            "Duration": percentiles(stats["duration_ms"]),
            "Lateness": percentiles(stats["lateness_ms"]),
            "CPU time": percentiles(stats["cpu_time_ms"]),
            "Peak memory": megabytes(stats["memory_peak_mb"]),
            "Last run": at_length(stats["last_execution_at"], now),
            "Next run": at_length(stats["next_scheduled_at"], now),
        }
    )


def percent(rate: float | None) -> str:
    return NO_TIME if rate is None else f"{rate:.1%}"


def percentiles(found: Answer) -> str:
    """`p50 1.2 s, p90 4.0 s …`"""
    return ", ".join(f"{name} {took(value)}" for name, value in found.items() if value is not None)


def megabytes(found: Answer) -> str:
    """`p50 31.5 MB, p90 40.2 MB …`"""
    return ", ".join(f"{name} {value} MB" for name, value in found.items())


def due_times(answer: Answer, now: datetime) -> Shown:
    """Show the next due times."""
    words = answer["description"]
    times = [at_length(each, now) for each in answer["times"]]
    if not answer.get("complete", True):
        times.append("The search took too long and stopped here.")
    return Sentences([f"{words[:1].upper()}{words[1:]}.", *(times or ["It is not due again."])])


def reasons(why: Answer, now: datetime) -> Shown:
    """Show the explanation of an occurrence."""
    return Sentences(why["sentences"])


# -- Tables of executions, workers, queues and statistics


def execution_list(answer: Answer, now: datetime, *, of_one_job: bool = False) -> Shown:
    """Return a table with one page of executions."""
    columns = [
        Column("Execution", lambda run: run["id"]),
        Column("Number", lambda run: run["execution_number"], spare=2, right=True),
        Column("Attempt", lambda run: run["retry_attempt"] + 1, spare=5, right=True),
        Column("Status", lambda run: run["outcome"] or run["status"]),
        Column("Started", lambda run: when(run["started_at"], now)),
        Column("Took", lambda run: took(run["duration_ms"]), spare=3, right=True),
        Column("Due", lambda run: when(run["due_at"], now), spare=6),
        Column("Details", lambda run: run["error_message"] or run["reason"] or "", spare=4, cut=True),
    ]
    if not of_one_job:
        columns.insert(1, Column("Task", lambda run: run["task"], spare=1, cut=True))
    runs = answer["executions"]
    parts: list[Shown] = [Listing(columns, runs, "No executions match.")]
    if len(runs) < answer["total"]:
        parts.append(Sentences([f"{len(runs)} of {answer['total']}; use --limit and --offset for more."]))
    return Several(parts)


def execution_facts(run: Answer, now: datetime) -> Shown:
    """Return the facts of an execution."""
    return FactsTable(
        {
            "Execution": run["id"],
            "Job": run["job_id"],
            "Task": run["task"],
            "Step": run["step"],
            "Number": f"{run['execution_number']}, of occurrence {run['number']}, try {run['retry_attempt'] + 1}",
            "Key": run["key"],
            "Status": run["outcome"] or run["status"],
            "Waits for": run["waits_for"],
            "Reason": run["reason"],
            "Requested by": run["asked"],
            "Due": at_length(run["due_at"], now),
            "Started": at_length(run["started_at"], now),
            "Ended": at_length(run["completed_at"], now),
            "Took": took(run["duration_ms"]),
            "Cancel requested": at_length(run["cancel_asked_at"], now),
            "Worker": run["worker"],
            "Progress": _progress(run["progress"]),
            "CPU time": took(run["cpu_time_ms"]),
            "Peak memory": None if run["memory_peak_mb"] is None else f"{run['memory_peak_mb']} MB",
            "Stopped": run["stop"] or run["stopped"],
            "Exit code": run["exit_code"],
            "Trace": run["traceparent"],
            "Items crawled": run["items_crawled"],
            "Items indexed": run["items_indexed"],
            "Counters": _counted(run["counters"]),
            "Result": run["result"],
            "Error": _error(run),
            "Traceback": run["stack_trace"],
            "Metadata": run["metadata"],
        }
    )


def _progress(progress: Any) -> str | None:
    """Return `30 of 120 (25%): orders`; without a total, return the message."""
    if not isinstance(progress, dict) or "done" not in progress:
        return None
    done, total, message = progress["done"], progress.get("of"), progress.get("message")
    if message and not total:
        return str(message)
    share = f" of {total:,} ({done / total:.0%})" if total else ""
    return f"{done:,}{share}" + (f": {message}" if message else "")


def _counted(counted: dict[str, float] | None) -> str | None:
    """Return `requests 3, bytes received 1,204`."""
    if not counted:
        return None
    return ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in counted.items())


def _error(run: Answer) -> str | None:
    kind, message = run["error_kind"], run["error_message"]
    return f"{kind}: {message}" if kind else message


def worker_list(answer: Answer, now: datetime) -> Shown:
    """Return a table of workers."""
    columns = (
        Column("Worker", lambda worker: worker["id"]),
        Column("Status", lambda worker: worker["status"]),
        Column("Host", lambda worker: f"{worker['host']}:{worker['pid']}", spare=2, cut=True),
        Column("Runs", lambda worker: f"{worker['running']}/{worker['concurrency']}", right=True),
        Column("Seen", lambda worker: relative(instant(worker["renewed_at"]) - now), spare=1),
        Column("Queues", lambda worker: ", ".join(worker["queues"]) or "all", spare=3, cut=True),
        Column("Tasks", lambda worker: ", ".join(worker["tasks"]), spare=4, cut=True),
        Column("Up since", lambda worker: when(worker["started_at"], now), spare=5),
        Column("Version", lambda worker: worker["version"], spare=6),
    )
    return Listing(columns, answer["workers"], "No workers were seen within the last day.")


def queue_list(answer: Answer, now: datetime) -> Shown:
    """Return a table of queues."""
    columns = (
        Column("Queue", lambda queue: queue["name"], cut=True),
        Column("Status", lambda queue: "paused" if queue["is_paused"] else "open"),
        Column("Waiting", lambda queue: queue["queued"], right=True),
        Column("Running", lambda queue: queue["running"], right=True),
        Column("Bound", lambda queue: queue["max_queued"], spare=3, right=True),
        Column("Paused", lambda queue: when(queue["paused_at"], now), spare=1),
        Column("By", lambda queue: queue["paused_by"], spare=2),
    )
    return Listing(columns, answer["queues"], "There are no queues yet: the first job creates one.")


def everything(metrics: Answer, now: datetime) -> Shown:
    """Return the statistics of all jobs, and of each task."""
    runs = metrics["executions"]
    jobs = ", ".join(f"{count} {status}" for status, count in metrics["jobs"].items() if count)
    facts = FactsTable(
        {
            "Jobs": jobs or "none",
            "Executions": f"{runs['total']}: {runs['completed']} completed, {runs['failed']} failed, "
            f"{runs['cancelled']} cancelled; {runs['skipped']} due times skipped",
            "Success rate": percent(runs["success_rate"]),
            "Average duration": took(runs["average_duration_ms"]),
            "Duration": percentiles(runs["duration_ms"]),
            "Lateness": percentiles(runs["lateness_ms"]),
            "CPU time": percentiles(runs["cpu_time_ms"]),
            "Peak memory": megabytes(runs["memory_peak_mb"]),
            "Leases lost": metrics["stale_locks_cleared"],
            "Last check": at_length(metrics["last_check_at"], now),
        }
    )
    rows = [{"task": task, **figures} for task, figures in metrics["tasks"].items()]
    if not rows:
        return facts
    columns = (
        Column("Task", lambda row: row["task"], cut=True),
        Column("Runs", lambda row: row["total"], right=True),
        Column("Failed", lambda row: row["failed"], right=True),
        Column("Success", lambda row: percent(row["success_rate"]), spare=1, right=True),
        Column("Average", lambda row: took(row["average_duration_ms"]), right=True),
        Column("p95", lambda row: took(row["duration_ms"].get("p95")), spare=2, right=True),
        Column("Late p95", lambda row: took(row["lateness_ms"].get("p95")), spare=3, right=True),
    )
    return Several([facts, Sentences([""]), Listing(columns, rows, "")])
