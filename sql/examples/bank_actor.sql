-- bank_actor.sql: the table and the function of bank_actor.py. A transfer is an order that a worker executes in steps.
-- Requires bank.sql. Can be run again: existing objects are unchanged.

SET client_min_messages = warning;

CREATE TABLE IF NOT EXISTS transfer_order (
    id         text PRIMARY KEY CHECK (id <> ''),
    debtor     text NOT NULL REFERENCES account,
    creditor   text NOT NULL REFERENCES account CHECK (creditor <> debtor),
    amount     numeric(14, 2) NOT NULL CHECK (amount > 0),
    state      text NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'done', 'refused')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX IF NOT EXISTS transfer_order_open ON transfer_order (created_at) WHERE state = 'requested';

-- The last step of a transfer: its state and the debtor's receipt, in one transaction. A repeat
-- changes nothing and sends nothing. The receipt is not urgent: it is retried after an hour without
-- an acknowledgement, instead of after the relay's delivery.ack_timeout.
CREATE OR REPLACE FUNCTION transfer_close(order_id text, outcome text)
RETURNS void LANGUAGE sql AS $$
    UPDATE transfer_order SET state = outcome WHERE id = order_id AND state = 'requested';
    SELECT clairon.notify('USER', ARRAY[a.owner],
               jsonb_build_object('transfer', o.id, 'outcome', o.state, 'amount', o.amount::text),
               source => 'transfer', ack_required => true, ack_timeout => '1 hour',
               idempotency_key => 'transfer/' || o.id)
      FROM transfer_order o JOIN account a ON a.id = o.debtor
     WHERE o.id = order_id;
$$;
