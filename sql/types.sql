/* types: the TypeScript types of the rows of live rules, for `clairon types`. */

-- The TypeScript type of a value that is not null, as payload.after contains it with the default options.
-- Composites within composites are `unknown` from the third level on, since a few types can contain each
-- other a million times.
CREATE FUNCTION clairon_internal.typescript_type(given oid, level int DEFAULT 1) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    type pg_type;
BEGIN
    SELECT * INTO type FROM pg_type WHERE oid = given;
    IF type.typtype = 'd' THEN
        RETURN clairon_internal.typescript_type(type.typbasetype, level);
    ELSIF given = 'bool'::regtype THEN
        RETURN 'boolean';
    ELSIF given IN ('int2'::regtype, 'int4'::regtype) THEN
        RETURN 'number';
    ELSIF given IN ('int8'::regtype, 'float4'::regtype, 'float8'::regtype) THEN
        RETURN 'number | string'; -- beyond 2^53, NaN and infinity
    ELSIF given IN ('json'::regtype, 'jsonb'::regtype) THEN
        RETURN 'unknown';
    ELSIF type.typtype = 'e' THEN
        RETURN coalesce((SELECT string_agg(to_json(enumlabel::text)::text, ' | ' ORDER BY enumsortorder)
                         FROM pg_enum WHERE enumtypid = given), 'never');
    ELSIF type.typsubscript = 'array_subscript_handler'::regproc
          OR given IN ('int2vector'::regtype, 'oidvector'::regtype) THEN
        RETURN format('(%s | null)[]', clairon_internal.typescript_type(type.typelem, level));
    ELSIF type.typtype <> 'c' THEN
        RETURN 'string';
    ELSIF level > 2 THEN
        RETURN 'unknown';
    END IF;
    RETURN coalesce((SELECT format('{ %s }', string_agg(format('%s: %s | null', to_json(attname::text),
                                                               clairon_internal.typescript_type(atttypid, level + 1)),
                                                        '; ' ORDER BY attnum))
                     FROM pg_attribute WHERE attrelid = type.typrelid AND attnum > 0 AND NOT attisdropped), '{}');
END $$;

-- The columns of each live rule in the order of payload.after. A NOT NULL constraint that is not valid does not
-- count.
CREATE FUNCTION clairon_internal.rule_types()
    RETURNS TABLE (source text, rule text, name text, type text, is_nullable boolean, is_key boolean, may_filter boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE nspname WHEN 'public' THEN relname::text ELSE nspname || '.' || relname END, live.name, attname::text,
           clairon_internal.typescript_type(atttypid), NOT (attnotnull AND is_valid), attname = ANY (key),
           coalesce(attnum = ANY (live.filter_columns), false)
    FROM clairon.rule AS live
    JOIN pg_class ON pg_class.oid = live.relation
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    CROSS JOIN LATERAL clairon_internal.live_key(live.relation) AS t (key)
    JOIN pg_attribute ON attrelid = live.relation AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v'
         AND (live.columns IS NULL OR attnum = ANY (live.columns))
    CROSS JOIN LATERAL (SELECT NOT EXISTS (
        SELECT FROM pg_constraint
        WHERE conrelid = live.relation AND contype = 'n' AND conkey = ARRAY[attnum] AND NOT convalidated)) AS u (is_valid)
    WHERE live.live AND live.part = 0
    ORDER BY 1, 2, attnum
$$;
