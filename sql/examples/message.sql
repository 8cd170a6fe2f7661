-- message.sql: messages with the names of their readers: the recipients who have acknowledged.
-- Requires eportfolio.sql, and receipts.sql = on in the relay. Can be run again: existing objects are unchanged.

SET client_min_messages = warning;
BEGIN;

CREATE TABLE IF NOT EXISTS sent_message (
    id         uuid PRIMARY KEY, -- of the notification
    sender     text NOT NULL REFERENCES person,
    recipients int NOT NULL,
    text       text NOT NULL CHECK (text <> ''),
    sent_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The relay uses this index to read the messages of a sender.
CREATE INDEX IF NOT EXISTS sent_message_sender ON sent_message (sender);

ALTER TABLE sent_message REPLICA IDENTITY FULL;

-- Sends a message to all other users, and a Web Push to those who have no page open. The id of the notification is also
-- in its receipts. Their emitter is the sender.
CREATE OR REPLACE FUNCTION send_message(sender text, text text) RETURNS uuid
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    recipients text[] := ARRAY(SELECT person.id FROM person WHERE role = 'user' AND person.id <> $1);
    message uuid := clairon.notify('USER', recipients, jsonb_build_object('from', $1, 'text', $2),
        source => 'message', emitter => $1, ttl => '1 day',
        ack_required => true, ack_timeout => '1 minute', receipts => 'user',
        web_push => json_build_object('title', (SELECT name FROM person WHERE person.id = $1), 'body', $2)::text);
BEGIN
    INSERT INTO sent_message (id, sender, recipients, text) VALUES (message, $1, cardinality(recipients), $2);
    RETURN message;
END
$$;

-- Each sender's page lists the sent messages, and their receipts. Both lists are kept up to date.
SELECT clairon.watch('sent_message', 'USER', 'sender', live => true);
SELECT clairon.watch('clairon.receipt', 'USER', 'emitter', live => true);

COMMIT;
