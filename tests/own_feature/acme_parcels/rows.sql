-- Parcels.

-- name: acme_parcels_record
-- Under the fence of the run: a run that has lost its lease writes nothing.
INSERT INTO {acme_parcels_sent} (execution_id, address, sent_at)
SELECT l.id, :address, :now FROM {live} AS l WHERE l.id = :id AND l.fence = :fence
ON CONFLICT (execution_id) DO UPDATE SET sent_at = excluded.sent_at

-- name: acme_parcels_list
SELECT address, sent_at FROM {acme_parcels_sent} ORDER BY sent_at, address
