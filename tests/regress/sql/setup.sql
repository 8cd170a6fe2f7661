-- The extension, a slot, and two functions that read the slot and hide values that differ between runs.
CREATE EXTENSION clairon;
CREATE EXTENSION dblink;
SELECT slot_name FROM pg_create_logical_replication_slot('regress', 'clairon');

-- Each line must contain one JSON object; tests check operation, payload and targets.
CREATE FUNCTION notes(VARIADIC options text[] DEFAULT '{}')
    RETURNS TABLE (source text, operation text, payload text, targets text)
    LANGUAGE sql AS $$
    SELECT line #>> '{metadata,source}', line #>> '{metadata,operation}', line ->> 'payload',
           line #>> '{routing,audience,type}' || (line #>> '{routing,audience,targets}')
    FROM (SELECT data::json AS line
          FROM pg_logical_slot_get_changes('regress', NULL, NULL, VARIADIC options)
          WHERE data !~ E'[\n\r]') AS lines
$$;
-- The complete line, with the id and the times hidden.
CREATE FUNCTION lines(VARIADIC options text[] DEFAULT '{}') RETURNS SETOF text
    LANGUAGE sql AS $$
    SELECT regexp_replace(
               regexp_replace(data, '"id":"[0-9a-f]{8}-[0-9a-f]{4}-([78])[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"',
                              '"id":"uuid v\1"'),
               '\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z', 'TIME', 'g')
    FROM pg_logical_slot_get_changes('regress', NULL, NULL, VARIADIC options)
$$;
