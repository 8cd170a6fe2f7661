/* receipts: how each notification ended, inserted by the relay (setting receipts.sql). */

-- The columns are the members of a receipt in the store. user_id is '' for the receipt of the
-- notification itself, which has acked and recipients. Rules may apply to this table, for example a
-- live rule for the senders, so the old rows must be complete.
CREATE TABLE clairon.receipt (
    notification uuid NOT NULL,
    user_id      text NOT NULL,
    outcome      text NOT NULL,
    round        int NOT NULL, -- 1, and 1 more after each redrive
    at           timestamptz NOT NULL,
    delivered_at timestamptz, -- first write to a socket of the user
    attempts     int,
    emitter      text,
    source       text,
    topic        text,
    acked        int, -- users who acknowledged
    recipients   int,
    PRIMARY KEY (notification, user_id, outcome, round)
);
ALTER TABLE clairon.receipt REPLICA IDENTITY FULL;
CREATE INDEX receipt_emitter ON clairon.receipt (emitter);
CREATE INDEX receipt_at ON clairon.receipt (at);
SELECT pg_extension_config_dump('clairon.receipt', '');

-- Receipts are deleted only by this function, never automatically.
CREATE FUNCTION clairon.prune_receipts(older interval) RETURNS bigint
    LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_prune_receipts';
CREATE FUNCTION clairon_internal.delete_receipts(older interval) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    cutoff timestamptz;
    removed bigint;
BEGIN
    IF older IS NULL THEN
        PERFORM clairon_internal.reject_null('older', 'The value must be an age, such as ''90 days''.');
    END IF;
    IF older NOT BETWEEN interval '0' AND interval '1000 years' THEN
        RAISE EXCEPTION 'invalid value for parameter "older": %', older
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The value must be an age, such as ''90 days''.';
    END IF;
    cutoff := now() - older;
    DELETE FROM clairon.receipt WHERE at < cutoff;
    GET DIAGNOSTICS removed = ROW_COUNT;
    -- Without a unit, '90' is an interval of 90 seconds.
    RAISE NOTICE 'deleted % receipts from before %', removed, cutoff;
    RETURN removed;
END $$;

-- Erasure of a user; `clairon forget` does the same in the store.
CREATE FUNCTION clairon.forget("user" text) RETURNS bigint
    LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_forget';
CREATE FUNCTION clairon_internal.forget_user("user" text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed bigint;
    blanked bigint;
BEGIN
    IF "user" IS NULL OR "user" = '' THEN
        RAISE EXCEPTION 'invalid value for parameter "user": %', coalesce(quote_literal("user"), 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The value must be the id of a user.';
    END IF;
    DELETE FROM clairon.receipt WHERE user_id = "user";
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE clairon.receipt SET emitter = '' WHERE emitter = "user";
    GET DIAGNOSTICS blanked = ROW_COUNT;
    RETURN removed + blanked;
END $$;
