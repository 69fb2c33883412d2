-- Plain successes: what they expect of their jobs, and what becomes of those that are as expected.
-- All of these take the same batch.

-- part: successes
{rows: id uuid, job_id uuid, fence bigint, version bigint, last_time instant, finished_at instant, repeats bigint, value json, account json}

-- What a plain success expects of its job, and of all that is live of it. Whoever asks has then locked both. If the job
-- counts a newer execution, that may be one which was queued while this waited for the lock, and which is not found.
-- part: expected
SELECT j.id AS job_id,
    CASE WHEN l.id = u.id AND l.fence = u.fence AND l.worker_id = :worker AND l.cancel_asked_at IS NULL
        AND j.version = u.version AND j.paused_at IS NULL AND j.cancelled_at IS NULL AND j.ended_as IS NULL
        AND j.deleted_at IS NULL AND j.reset_at IS NULL AND j.last_execution_number = l.execution_number
        AND CASE WHEN u.last_time IS NULL THEN j.next_due_at IS NOT NULL
            ELSE j.next_due_at IS NULL AND j.last_due_at >= u.last_time END
    THEN 1 END AS as_expected
FROM {part successes}
    CROSS JOIN {jobs} AS j CROSS JOIN {live} AS l
WHERE {found_by: j.id u.job_id} AND {found_by: l.job_id j.id} ORDER BY u.job_id, l.id {for_update}

-- name: lock_expecting
-- How many rows are live of the jobs of a batch, and how many of them are as expected. One row, so that nobody waits for
-- Python's lock over it, and what was claimed meanwhile runs.
SELECT count(*), count(found.as_expected) FROM ({part expected}) AS found

-- name: jobs_as_expected
-- The jobs of which nothing else is live, where not all were.
SELECT found.job_id FROM ({part expected}) AS found GROUP BY found.job_id HAVING count(*) = count(found.as_expected)

-- name: count_success
-- Jobs whose runs were plain successes, and that go on.
UPDATE {jobs} AS j SET completed = j.completed + 1, repeats_done = j.repeats_done + u.repeats
FROM {part successes}
WHERE u.last_time IS NULL AND {found_by: j.id u.job_id}

-- name: end_with_success
-- Those that end with it.
UPDATE {jobs} AS j SET completed = j.completed + 1, repeats_done = j.repeats_done + u.repeats, held_key = NULL,
    ended_at = u.finished_at, ended_as = 'completed'
FROM {part successes}
WHERE u.last_time IS NOT NULL AND {found_by: j.id u.job_id}

-- name: move_completed [postgres]
-- Attempts that have simply completed: from `live` into history.
WITH ended AS (
    DELETE FROM {live} AS l USING {part successes}
    WHERE {found_by: l.id u.id}
    RETURNING l.id, l.job_id, l.number, l.step, l.attempt, l.execution_number, l.asked, l.due_at, l.run_at, l.queued_at,
        l.started_at, u.finished_at, 'completed', l.task, l.queue, l.worker_id, l.fence, l.version, l.args, u.value,
        l.failures, l.losses, l.releases, l.checkpoint, '', u.account)
INSERT INTO {executions} (id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at,
    started_at, finished_at, result, task, queue, worker_id, fence, version, args, value, failures, losses, releases,
    checkpoint, by, account)
SELECT * FROM ended

-- name: move_completed [sqlite]
-- The first half; `delete_live` is the second.
INSERT INTO {executions} (id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at,
    started_at, finished_at, result, task, queue, worker_id, fence, version, args, value, failures, losses, releases,
    checkpoint, by, account)
SELECT l.id, l.job_id, l.number, l.step, l.attempt, l.execution_number, l.asked, l.due_at, l.run_at, l.queued_at,
    l.started_at, u.finished_at, 'completed', l.task, l.queue, l.worker_id, l.fence, l.version, l.args, u.value,
    l.failures, l.losses, l.releases, l.checkpoint, '', u.account
FROM {part successes} CROSS JOIN {live} AS l WHERE l.id = u.id
