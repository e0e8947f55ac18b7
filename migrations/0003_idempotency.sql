-- Answers given to requests that carried an Idempotency-Key, written in the transaction of the effect: an answer is kept
-- if and only if its effect is. A refusal on business grounds is such an answer too.
--
-- The fingerprint is the SHA-256 of method, path and body; the same key with another fingerprint is a mistake of the
-- client. Rows past expires_at count as absent and are overwritten or swept.
create table idempotency (
    key         text collate "C" primary key
                constraint idempotency_key_length check (char_length(key) between 1 and 255),
    fingerprint bytea not null
                constraint idempotency_fingerprint_length check (octet_length(fingerprint) = 32),
    status      smallint not null
                constraint idempotency_status_range check (status between 200 and 499),
    body        text not null,
    expires_at  timestamptz not null
);

create index idempotency_by_expiry on idempotency (expires_at);
