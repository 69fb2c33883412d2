"""Jobs as people see them."""

from datetime import datetime

from ostinato.cli.output import Answer, Column, FactsTable, Listing, Sentences, Several, Shown, plain
from ostinato.cli.times import NO_TIME, at_length, took, when
from ostinato.core.policy import POLICY_WORDS


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
