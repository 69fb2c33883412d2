-- Plain firings: two narrow statements.

-- name: fire_plainly
-- Jobs with one plain due time: mark it as fired and set the next one.
UPDATE {jobs} AS j SET last_due_at = u.due_at, next_due_at = u.next_due_at, computed_at = :now,
    last_number = j.last_number + 1, last_execution_number = j.last_execution_number + 1
FROM {rows: id uuid, due_at instant, next_due_at instant} WHERE {found_by: j.id u.id}

-- name: queue_fired
-- First attempts of plain firings: all columns but their ids come from the rows of their jobs.
INSERT INTO {live} (id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task,
    step, slot, fence, failures, losses, releases, cancel_by)
SELECT u.id, j.id, j.last_number, 0, j.last_execution_number, 'schedule', j.last_due_at, j.last_due_at, :now, j.queue,
    j.priority, j.task, '', 0, 0, 0, 0, 0, ''
FROM {rows: id uuid, job_id uuid} CROSS JOIN {jobs} AS j WHERE {found_by: j.id u.job_id}

-- Plain successes: the expected state of their jobs, and the writes for those that match.
-- All of these take the same batch.

-- part: successes
{rows: id uuid, job_id uuid, fence bigint, version bigint, last_time instant, finished_at instant, repeats bigint, result json, account json}

-- The expected state of a plain success's job and of all its live rows, which the caller has locked. If the job counts
-- a newer execution, that one may have been queued while this waited for the lock, and is then not found.
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
-- The number of live rows of the jobs of a batch, and how many match. One row, so that no thread waits for Python's
-- lock meanwhile and claimed tasks run.
SELECT count(*), count(found.as_expected) FROM ({part expected}) AS found

-- name: jobs_as_expected
-- The jobs without other live rows, if not all matched.
SELECT found.job_id FROM ({part expected}) AS found GROUP BY found.job_id HAVING count(*) = count(found.as_expected)

-- name: count_success
-- Jobs whose runs were plain successes and that continue.
UPDATE {jobs} AS j SET completed = j.completed + 1, repeats_done = j.repeats_done + u.repeats
FROM {part successes}
WHERE u.last_time IS NULL AND {found_by: j.id u.job_id}

-- name: end_with_success
-- Jobs that end with it.
UPDATE {jobs} AS j SET completed = j.completed + 1, repeats_done = j.repeats_done + u.repeats, held_key = NULL,
    ended_at = u.finished_at, ended_as = 'completed'
FROM {part successes}
WHERE u.last_time IS NOT NULL AND {found_by: j.id u.job_id}

-- name: move_completed [postgres]
-- Completed attempts move from `live` into history.
WITH ended AS (
    DELETE FROM {live} AS l USING {part successes}
    WHERE {found_by: l.id u.id}
    RETURNING {columns executions as l without error_kind, error, traceback
        but finished_at = u.finished_at, outcome = 'completed', result = u.result, by = '', account = u.account})
INSERT INTO {executions} ({columns executions without error_kind, error, traceback})
SELECT * FROM ended

-- name: move_completed [sqlite]
-- The first half; `delete_live` is the second.
INSERT INTO {executions} ({columns executions without error_kind, error, traceback})
SELECT {columns executions as l without error_kind, error, traceback
        but finished_at = u.finished_at, outcome = 'completed', result = u.result, by = '', account = u.account}
FROM {part successes} CROSS JOIN {live} AS l WHERE l.id = u.id
