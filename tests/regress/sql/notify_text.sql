-- Other output plugins can print the message of notify. A message of another version is rejected.
\set SHOW_CONTEXT never
SELECT slot_name FROM pg_create_logical_replication_slot('spy', 'test_decoding');
SELECT clairon.notify('USER', '{é,u1}', '{"text": "é"}', topic => 'a.b', ttl => '1 day') IS NOT NULL;
BEGIN;
SET LOCAL clairon.traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
SELECT clairon.notify('ALL', NULL, '{}') IS NOT NULL;
COMMIT;
SELECT regexp_replace(data, 'sz: \d+ content:[A-Za-z0-9+/]+=*$', 'sz: N content:BASE64') AS printed,
       data ~ '^[ -~]*$' AS ascii
FROM pg_logical_slot_get_changes('spy', NULL, NULL) WHERE data LIKE 'message:%';
SELECT pg_drop_replication_slot('spy');
SELECT targets, payload FROM notes();

-- messages of this version and of the next one
CREATE EXTENSION pgcrypto;
CREATE FUNCTION signed(version bytea, rest bytea) RETURNS text LANGUAGE sql AS $$
    SELECT translate(encode(version || substr(hmac(int4send(txid_current()::int) || rest, secret, 'sha256'), 1, 16) || rest, 'base64'), E'\n', '')
    FROM clairon.secret
$$;
CREATE FUNCTION message(payload text) RETURNS bytea LANGUAGE sql AS $$
    SELECT '\x0123456789ab7def8123456789abcdef'                      -- id
        || int2send(0::int2) || '\x000100' || int2send(5::int2)      -- flags, type, priority, backoff, retry_limit
        || '\x00' || int4send(0) || int4send(0) || int8send(0)       -- no ttl
        || int2send(4::int2) || int2send(6::int2) || int2send((-1)::int2) || int2send(2::int2)
        || int4send(1) || int4send(4)                                -- targets
        || convert_to('USER' || 'notify' || 'me', 'UTF8') || int2send(2::int2) || convert_to('u1', 'UTF8')
        || convert_to(payload, 'UTF8')
$$;
SELECT pg_logical_emit_message(true, 'clairon', signed('\x01', message('{"version":"é"}'))) IS NOT NULL;
SELECT pg_logical_emit_message(true, 'clairon', signed('\x02', message('{"next":1}'))) IS NOT NULL;
SELECT pg_logical_emit_message(true, 'clairon', translate(encode('\x01' || decode(repeat('00', 16), 'hex') || message('{"forged":1}'), 'base64'), E'\n', '')) IS NOT NULL;
-- messages in another format are rejected
SELECT pg_logical_emit_message(true, 'clairon', '') IS NOT NULL, pg_logical_emit_message(true, 'clairon', 'AQ') IS NOT NULL,
       pg_logical_emit_message(true, 'clairon', 'é not base64') IS NOT NULL;
SELECT targets, payload FROM notes();
DROP FUNCTION signed(bytea, bytea), message(text);
DROP EXTENSION pgcrypto;
