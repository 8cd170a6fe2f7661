/* notify, annotate and once: messages and idempotency keys, all within the caller's transaction. */

CREATE FUNCTION clairon_internal.uuid_v7() RETURNS uuid
    LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'clairon_uuid_v7';

-- The setting clairon.traceparent adds a trace context.
CREATE FUNCTION clairon_internal.emit(id uuid, audience text, targets text[], payload jsonb, type int2,
    priority int2, source text, topic text, emitter text, ttl interval, ack_required boolean,
    retry_limit int, backoff int2, ack_timeout int8 DEFAULT NULL, receipts int2 DEFAULT 0,
    escalations int8[] DEFAULT NULL, web_push text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'clairon_emit';

-- Emits an empty message in the caller's transaction, for the relay's counter of repeats.
CREATE FUNCTION clairon_internal.count_repeat() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_logical_emit_message(true, 'clairon.repeat', '')
$$;

CREATE FUNCTION clairon_internal.check_notify(audience text, targets text[], payload jsonb, source text,
    topic text, emitter text, idempotency_key text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM clairon_internal.check_text('source', source, 255);
    PERFORM clairon_internal.check_text('topic', topic, 1024);
    PERFORM clairon_internal.check_text('emitter', emitter, 255);
    PERFORM clairon_internal.check_text('idempotency_key', idempotency_key, 1024);
    IF payload IS NULL THEN
        PERFORM clairon_internal.reject_null('payload', 'The value must be a JSON object.');
    END IF;
    IF jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'invalid value for parameter "payload": %', 'a JSON ' || jsonb_typeof(payload)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The value must be a JSON object.';
    END IF;
    IF audience <> 'ALL' AND targets IS NULL THEN
        RAISE EXCEPTION 'parameter "targets" must not be null for audience %', audience
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Use an array of ids. It may be empty, as in coalesce(array_agg(id), ''{}'').';
    END IF;
    IF audience = 'ALL' AND cardinality(targets) > 0 THEN
        RAISE EXCEPTION 'parameter "targets" must be null for audience ALL'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Valid values are NULL and {}.';
    END IF;
END $$;

-- Groups without members are probably mistakes if other groups of the kind have some. One index lookup for each target.
CREATE FUNCTION clairon_internal.advise_targets(audience text, targets text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted text;
    missing text[];
BEGIN
    IF cardinality(targets) > 10 OR NOT EXISTS (
        SELECT FROM clairon.member WHERE member.audience = advise_targets.audience) THEN
        RETURN;
    END IF;
    FOREACH wanted IN ARRAY targets LOOP
        IF NOT EXISTS (SELECT FROM clairon.member AS m
                       WHERE m.audience = advise_targets.audience AND m.target = wanted) THEN
            missing := missing || format('"%s"', wanted);
        END IF;
    END LOOP;
    IF missing IS NOT NULL THEN
        RAISE NOTICE 'targets of audience "%" have no rows in clairon.member: %', audience,
                     clairon_internal.shorten(array_to_string(missing, ', '))
            USING DETAIL = 'Only users whose tokens contain the group receive the notification.';
    END IF;
END $$;

-- The public functions are written in C. Each calls the function below it as that function's owner,
-- and removes PL/pgSQL lines from the context of an error: see decoder/sql/functions.c.
CREATE FUNCTION clairon.notify(audience text, targets text[], payload jsonb,
    type text DEFAULT 'NOTIFICATION', priority text DEFAULT 'NORMAL', source text DEFAULT NULL,
    topic text DEFAULT NULL, emitter text DEFAULT NULL, ttl interval DEFAULT NULL,
    ack_required boolean DEFAULT false, retry_limit int DEFAULT 5,
    backoff text DEFAULT 'EXPONENTIAL', idempotency_key text DEFAULT NULL,
    ack_timeout interval DEFAULT NULL, receipts text DEFAULT 'none', escalate_after text DEFAULT NULL,
    web_push text DEFAULT NULL)
    RETURNS uuid LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_notify';

CREATE FUNCTION clairon_internal.send_message(audience text, targets text[], payload jsonb, type text,
    priority text, source text, topic text, emitter text, ttl interval, ack_required boolean,
    retry_limit int, backoff text, idempotency_key text, ack_timeout interval, receipts text,
    escalate_after text, web_push text)
    RETURNS uuid LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    new_id uuid := clairon_internal.uuid_v7();
    first_id uuid;
    receivers text[] := clairon_internal.distinct_targets(targets);
    type_number int2 := clairon_internal.choice('type', type, '{REALTIME,NOTIFICATION,SYSTEM}');
    priority_number int2 := clairon_internal.choice('priority', priority, '{HIGH,NORMAL,LOW}');
    timeout_ms int8 := clairon_internal.ack_timeout_ms(ack_timeout);
    backoff_number int2 := clairon_internal.choice('backoff', backoff, '{EXPONENTIAL,LINEAR,FIXED}');
    escalations int8[] := clairon_internal.escalations_ms(escalate_after);
    receipts_number int2;
    push_text text;
BEGIN
    PERFORM clairon_internal.check_delivery(audience, ttl, ack_required, retry_limit);
    receipts_number := clairon_internal.check_receipts(receipts, escalate_after, ack_required);
    PERFORM clairon_internal.check_notify(audience, targets, payload, source, topic, emitter,
                                 idempotency_key);
    push_text := clairon_internal.web_push_text(web_push, audience, type);
    PERFORM clairon_internal.check_targets(receivers);
    IF audience LIKE '%+%' THEN
        receivers := clairon_internal.composite_targets(audience, receivers, '');
        PERFORM clairon_internal.check_targets(receivers);
    END IF;
    IF audience NOT IN ('USER', 'ALL') THEN
        PERFORM clairon_internal.advise_audience(audience, false);
    END IF;
    LOOP
        EXIT WHEN idempotency_key IS NULL;
        INSERT INTO clairon.notify_key (key, id) VALUES (idempotency_key, new_id)
            ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT id INTO first_id FROM clairon.notify_key AS k WHERE k.key = idempotency_key;
        -- Not found: the key was pruned after the INSERT conflicted. Insert it again.
        IF FOUND THEN
            PERFORM clairon_internal.count_repeat();
            RAISE NOTICE 'idempotency key "%" already exists', idempotency_key
                USING DETAIL = 'No notification is sent. The result is the id of the first one.';
            RETURN first_id;
        END IF;
    END LOOP;
    IF audience <> 'ALL' AND receivers = '{}' THEN
        RAISE NOTICE 'notification has no targets and is not sent';
    ELSE
        IF audience NOT IN ('USER', 'ALL') THEN
            PERFORM clairon_internal.advise_targets(audience, receivers);
        END IF;
        PERFORM clairon_internal.emit(new_id, audience, receivers, payload, type_number, priority_number,
                             coalesce(source, 'notify'), topic,
                             coalesce(emitter, session_user::text), ttl, ack_required,
                             retry_limit, backoff_number, timeout_ms, receipts_number, escalations,
                             push_text);
    END IF;
    RETURN new_id;
END $$;

-- Applies to the notifications of rows that follow in the transaction; a later call replaces all values.
CREATE FUNCTION clairon.annotate(emitter text DEFAULT NULL, traceparent text DEFAULT NULL,
    data jsonb DEFAULT NULL) RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_annotate';

CREATE FUNCTION clairon.once(entity text, key text) RETURNS boolean
    LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_once';
CREATE FUNCTION clairon_internal.insert_key(entity text, key text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF entity IS NULL OR key IS NULL THEN
        PERFORM clairon_internal.reject_null(CASE WHEN entity IS NULL THEN 'entity' ELSE 'key' END,
                                    'The value must have 1 to 1024 bytes in UTF-8.');
    END IF;
    PERFORM clairon_internal.check_text('entity', entity, 1024);
    PERFORM clairon_internal.check_text('key', key, 1024);
    INSERT INTO clairon.once_key (entity, key) VALUES (entity, key) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM clairon_internal.count_repeat();
    RETURN false;
END $$;

-- Not for types whose text depends on settings: the same value would become two keys.
CREATE FUNCTION clairon.once(entity text, key bigint) RETURNS boolean
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS 'SELECT clairon.once(entity, key::text)';

-- Keys are deleted only by this function, never automatically.
CREATE FUNCTION clairon.prune(older_than interval) RETURNS bigint
    LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_prune';
CREATE FUNCTION clairon_internal.delete_keys(older_than interval) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    cutoff timestamptz;
    removed bigint;
    more bigint;
BEGIN
    IF older_than IS NULL THEN
        PERFORM clairon_internal.reject_null('older_than', 'The value must be an age, such as ''30 days''.');
    END IF;
    IF older_than NOT BETWEEN interval '0' AND interval '1000 years' THEN
        RAISE EXCEPTION 'invalid value for parameter "older_than": %', older_than
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The value must be an age, such as ''30 days''.';
    END IF;
    cutoff := now() - older_than;
    DELETE FROM clairon.once_key WHERE created_at < cutoff;
    GET DIAGNOSTICS removed = ROW_COUNT;
    DELETE FROM clairon.notify_key WHERE created_at < cutoff;
    GET DIAGNOSTICS more = ROW_COUNT;
    -- Without a unit, '30' is an interval of 30 seconds.
    RAISE NOTICE 'deleted % keys created before %', removed + more, cutoff;
    RETURN removed + more;
END $$;
