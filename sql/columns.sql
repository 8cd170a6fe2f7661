/* Columns of watched tables are bound by number; a dump is read by name. */

-- A restored table has no gaps where columns were dropped: its numbers are others. So each rule
-- keeps the names of the columns it uses, as they are now, and takes its numbers from them when
-- it is inserted with them. No table has a column of this number: it denies.
CREATE FUNCTION clairon.no_column() RETURNS int2
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT 32767::int2';

-- The pieces of a stored condition: strings and quoted names, $n, and what is between.
CREATE FUNCTION clairon.condition_tokens(stored text) RETURNS TABLE (token text, place bigint)
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT match[1], ordinality
    FROM regexp_matches(stored, E'\'[^\']*\'|"[^"]*"|\\$[0-9]+|[^\'"$]+|.', 'g')
         WITH ORDINALITY AS tokens (match)
$$;

CREATE FUNCTION clairon.bind_columns() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    numbers int2[]; -- of the columns named, now
BEGIN
    IF TG_OP = 'INSERT' AND NEW.column_numbers IS NOT NULL THEN
        numbers := ARRAY(SELECT coalesce(attnum, clairon.no_column())
                         FROM unnest(NEW.column_names) WITH ORDINALITY AS given (name, place)
                         LEFT JOIN pg_attribute ON attrelid = NEW.relation AND attname = name
                             AND attnum > 0 AND NOT attisdropped
                         ORDER BY place);
        NEW.target_column := (SELECT coalesce(numbers[array_position(NEW.column_numbers, held)],
                                              clairon.no_column())
                              FROM (SELECT NEW.target_column AS held) AS t WHERE held IS NOT NULL);
        NEW.columns := (SELECT array_agg(coalesce(numbers[array_position(NEW.column_numbers, held)],
                                                  clairon.no_column()))
                        FROM unnest(NEW.columns) AS t (held));
        NEW.only_when := (SELECT string_agg(CASE WHEN token ~ '^[$][0-9]' THEN '$' || coalesce(
                                      numbers[array_position(NEW.column_numbers,
                                                             substr(token, 2)::int2)],
                                      clairon.no_column()) ELSE token END, '' ORDER BY place)
                          FROM clairon.condition_tokens(NEW.only_when));
    END IF;
    SELECT coalesce(array_agg(attnum ORDER BY attnum), '{}'),
           coalesce(array_agg(attname::text ORDER BY attnum), '{}')
    INTO NEW.column_numbers, NEW.column_names
    FROM pg_attribute
    WHERE attrelid = NEW.relation AND attnum > 0 AND NOT attisdropped
      AND (attnum = NEW.target_column OR attnum = ANY (NEW.columns)
           OR '$' || attnum IN (SELECT token FROM clairon.condition_tokens(NEW.only_when)));
    IF pg_column_size(NEW) > 8000 THEN
        IF TG_OP = 'INSERT' THEN
            RAISE EXCEPTION 'targets, columns, only_when: at most about 7000 bytes are valid '
                            'for all of a rule' USING ERRCODE = 'invalid_parameter_value';
        END IF;
        -- A longer name of a column must not fail for this; restored, the rule denies.
        NEW.column_numbers := '{}';
        NEW.column_names := '{}';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER bind_columns BEFORE INSERT OR UPDATE ON clairon.rule
    FOR EACH ROW EXECUTE FUNCTION clairon.bind_columns();
ALTER TABLE clairon.rule ENABLE ALWAYS TRIGGER bind_columns;

-- Renamed and dropped columns: the names kept are those of now, whatever the command.
CREATE FUNCTION clairon.follow_names() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE clairon.rule SET column_numbers = NULL
    WHERE EXISTS (SELECT FROM unnest(column_numbers, column_names) AS kept (number, name)
                  WHERE NOT EXISTS (SELECT FROM pg_attribute
                                    WHERE attrelid = relation AND attnum = number
                                      AND attname = name AND NOT attisdropped))
$$;
CREATE FUNCTION clairon.follow_renamed() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM clairon.follow_names();
END $$;
-- ALTER VIEW and its like rename columns of tables as well.
CREATE EVENT TRIGGER clairon_follow_renamed ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER VIEW', 'ALTER INDEX', 'ALTER TYPE',
                 'ALTER MATERIALIZED VIEW', 'ALTER FOREIGN TABLE')
    EXECUTE FUNCTION clairon.follow_renamed();
