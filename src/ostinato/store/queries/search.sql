-- Searches for jobs and executions. A filter that is null matches all.

-- part: chosen_jobs
-- Tags are a JSON list of texts: an element begins after `[` or `, `, and a bare quote stands nowhere else.
(CAST(:app AS {json}) IS NULL OR s.app = :app)
  AND (CAST(:task AS {json}) IS NULL OR s.task = :task)
  AND (CAST(:queue AS {json}) IS NULL OR s.queue = :queue)
  AND (CAST(:tag AS {json}) IS NULL OR {position}(s.tags, '[' || CAST(:tag AS {json})) > 0
       OR {position}(s.tags, ', ' || CAST(:tag AS {json})) > 0)
  AND (CAST(:text AS {json}) IS NULL OR {position}(lower(s.name), CAST(:text AS {json})) > 0
       OR {position}(lower(s.task), CAST(:text AS {json})) > 0 OR {position}(lower(s.key), CAST(:text AS {json})) > 0
       OR {position}(lower(s.description), CAST(:text AS {json})) > 0)
  AND (CAST(:due_after AS {instant}) IS NULL OR s.next_run_at >= CAST(:due_after AS {instant}))
  AND (CAST(:due_before AS {instant}) IS NULL OR s.next_run_at < CAST(:due_before AS {instant}))
  AND (CAST(:any_status AS {bigint}) = 1 OR s.status {in: statuses text})

-- name: newest_jobs
-- Ids are in the order of creation: the scan ends when the page is full.
SELECT s.id FROM {job_status} AS s
WHERE (CAST(:after AS {uuid}) IS NULL OR s.id < CAST(:after AS {uuid})) AND {part chosen_jobs}
ORDER BY s.id DESC LIMIT :limit OFFSET :offset

-- name: oldest_jobs
SELECT s.id FROM {job_status} AS s
WHERE (CAST(:after AS {uuid}) IS NULL OR s.id > CAST(:after AS {uuid})) AND {part chosen_jobs}
ORDER BY s.id LIMIT :limit OFFSET :offset

-- name: sorted_jobs
-- By the number or text of the sort, then by id; jobs without a next time come last in both directions.
SELECT f.id, f.number, f.words FROM (
    SELECT s.id,
        CASE CAST(:sort AS {json}) WHEN 'updated_at' THEN s.updated_at WHEN 'priority' THEN s.priority
            WHEN 'next_run_at' THEN coalesce(s.next_run_at, CAST(:never AS {bigint})) ELSE 0 END AS number,
        CASE CAST(:sort AS {json}) WHEN 'name' THEN lower(s.name) WHEN 'status' THEN s.status ELSE '' END AS words
    FROM {job_status} AS s WHERE {part chosen_jobs}) AS f
WHERE CAST(:after AS {uuid}) IS NULL
   OR (CAST(:down AS {bigint}) = 1
       AND (f.number, f.words, f.id) < (CAST(:number AS {bigint}), CAST(:words AS {json}), CAST(:after AS {uuid})))
   OR (CAST(:down AS {bigint}) = 0
       AND (f.number, f.words, f.id) > (CAST(:number AS {bigint}), CAST(:words AS {json}), CAST(:after AS {uuid})))
ORDER BY CASE WHEN CAST(:down AS {bigint}) = 1 THEN f.number END DESC,
    CASE WHEN CAST(:down AS {bigint}) = 1 THEN f.words END DESC,
    CASE WHEN CAST(:down AS {bigint}) = 1 THEN f.id END DESC, f.number, f.words, f.id
LIMIT :limit OFFSET :offset

-- name: count_jobs
-- The number of jobs; the count ends at `most`.
SELECT count(*) FROM (SELECT 1 FROM {job_status} AS s WHERE {part chosen_jobs} LIMIT :most) AS t

-- name: count_by_status
-- Jobs counted by status.
SELECT status, count(*) FROM {job_status} WHERE (CAST(:app AS {json}) IS NULL OR app = :app) GROUP BY status

-- part: chosen_live
x.step = '' AND (CAST(:task AS {json}) IS NULL OR x.task = :task)
  AND x.job_id NOT IN (SELECT d.id FROM {jobs} AS d WHERE d.deleted_at IS NOT NULL)
  AND CASE WHEN x.worker_id IS NOT NULL OR x.waits_for = 'steps' THEN CAST(:running AS {bigint})
      ELSE CAST(:queued AS {bigint}) END = 1
  AND CAST(:queued AS {bigint}) + CAST(:running AS {bigint}) > 0

-- part: chosen_ended
e.step = '' AND (CAST(:task AS {json}) IS NULL OR e.task = :task)
  AND e.job_id NOT IN (SELECT d.id FROM {jobs} AS d WHERE d.deleted_at IS NOT NULL)
  AND e.outcome {in: results text} AND CAST(:ended AS {bigint}) = 1

-- name: search_executions
-- The newest first, live and ended together: as many of each as the page can reach. Ids are in the order in which they
-- were queued. A part that cannot match is not scanned: its last condition is true for all rows or for none.
SELECT id FROM (
    SELECT x.id FROM {live} AS x
    WHERE (CAST(:before AS {uuid}) IS NULL OR x.id < CAST(:before AS {uuid})) AND {part chosen_live}
    ORDER BY x.id DESC LIMIT :reach) AS present
UNION ALL
SELECT id FROM (
    SELECT e.id FROM {executions} AS e
    WHERE (CAST(:before AS {uuid}) IS NULL OR e.id < CAST(:before AS {uuid})) AND {part chosen_ended}
    ORDER BY e.id DESC LIMIT :reach) AS past
ORDER BY 1 DESC LIMIT :limit OFFSET :offset

-- name: search_troubled
-- The same for executions that ended, but not completed: those have an index of their own.
SELECT e.id FROM {executions} AS e
WHERE (CAST(:before AS {uuid}) IS NULL OR e.id < CAST(:before AS {uuid})) AND e.outcome <> 'completed' AND {part chosen_ended}
ORDER BY e.id DESC LIMIT :limit OFFSET :offset

-- name: search_executions_by_task
-- The same for a task with so few runs that reading its jobs is quicker.
SELECT x.id FROM {jobs} AS j CROSS JOIN {live} AS x
WHERE j.task = :task AND x.job_id = j.id AND (CAST(:before AS {uuid}) IS NULL OR x.id < CAST(:before AS {uuid})) AND {part chosen_live}
UNION ALL
SELECT e.id FROM {jobs} AS j CROSS JOIN {executions} AS e
WHERE j.task = :task AND e.job_id = j.id AND (CAST(:before AS {uuid}) IS NULL OR e.id < CAST(:before AS {uuid})) AND {part chosen_ended}
ORDER BY 1 DESC LIMIT :limit OFFSET :offset

-- name: search_executions_of
-- The same for one job: the newest occurrence first, and its newest attempt first.
SELECT number, step, attempt, id FROM (
    SELECT x.number, x.step, x.attempt, x.id FROM {live} AS x
    WHERE x.job_id = :job AND {part chosen_live}
      AND (CAST(:number AS {bigint}) IS NULL
           OR (x.number, x.attempt) < (CAST(:number AS {bigint}), CAST(:attempt AS {bigint})))
    ORDER BY x.number DESC, x.step DESC, x.attempt DESC LIMIT :reach) AS present
UNION ALL
SELECT number, step, attempt, id FROM (
    SELECT e.number, e.step, e.attempt, e.id FROM {executions} AS e
    WHERE e.job_id = :job AND {part chosen_ended}
      AND (CAST(:number AS {bigint}) IS NULL
           OR (e.number, e.attempt) < (CAST(:number AS {bigint}), CAST(:attempt AS {bigint})))
    ORDER BY e.number DESC, e.step DESC, e.attempt DESC LIMIT :reach) AS past
ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT :limit OFFSET :offset

-- name: count_live
-- The number of queued and of running executions.
SELECT coalesce(sum(CASE WHEN worker_id IS NOT NULL OR waits_for = 'steps' THEN 0 ELSE 1 END), 0),
    coalesce(sum(CASE WHEN worker_id IS NOT NULL OR waits_for = 'steps' THEN 1 ELSE 0 END), 0)
FROM {live} AS l
WHERE step = '' AND (CAST(:task AS {json}) IS NULL OR task = :task)
  AND job_id NOT IN (SELECT d.id FROM {jobs} AS d WHERE d.deleted_at IS NOT NULL)

-- name: count_live_of
-- The same for one job.
SELECT coalesce(sum(CASE WHEN worker_id IS NOT NULL OR waits_for = 'steps' THEN 0 ELSE 1 END), 0),
    coalesce(sum(CASE WHEN worker_id IS NOT NULL OR waits_for = 'steps' THEN 1 ELSE 0 END), 0)
FROM {live} AS l WHERE step = '' AND job_id = :job

-- name: count_ended
-- Executions in history, counted by outcome from the counters of jobs, and the number of these jobs. `pruned` reads
-- what retention removed.
SELECT CAST(coalesce(sum(j.completed), 0) AS {bigint}), CAST(coalesce(sum(j.failed), 0) AS {bigint}),
    CAST(coalesce(sum(j.timed_out), 0) AS {bigint}), CAST(coalesce(sum(j.cancelled), 0) AS {bigint}),
    CAST(coalesce(sum(j.lost), 0) AS {bigint}), count(*)
FROM {jobs} AS j WHERE j.deleted_at IS NULL AND (CAST(:task AS {json}) IS NULL OR j.task = :task)

-- name: pruned
-- What retention removed from those.
SELECT j.pruned FROM {jobs} AS j
WHERE j.pruned <> '{}' AND j.deleted_at IS NULL AND (CAST(:task AS {json}) IS NULL OR j.task = :task)

-- name: count_ended_of
-- Both for one job.
SELECT completed, failed, timed_out, cancelled, lost, pruned FROM {jobs} WHERE id = :job AND deleted_at IS NULL
