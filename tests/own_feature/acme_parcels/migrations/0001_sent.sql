-- Parcels that were sent, one for each run.
CREATE TABLE {acme_parcels_sent} (
    execution_id {uuid} PRIMARY KEY,
    address {text} NOT NULL,
    sent_at {instant} NOT NULL
) {keyed};
