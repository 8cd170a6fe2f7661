-- bank.sql: idempotent transfers, and notifications of balances.
-- Requires CREATE EXTENSION clairon. Can be run again: existing objects are unchanged.

SET client_min_messages = warning;
BEGIN;

CREATE TABLE IF NOT EXISTS account (
    id         text PRIMARY KEY,
    owner      text NOT NULL,
    balance    numeric(14, 2) NOT NULL DEFAULT 0 CHECK (balance >= 0),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The relay uses this index to read the accounts of an owner.
CREATE INDEX IF NOT EXISTS account_owner ON account (owner);

-- The movements of a balance: one row for the debit, one for the credit.
CREATE TABLE IF NOT EXISTS transaction (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id text NOT NULL REFERENCES account,
    key        text NOT NULL,
    amount     numeric(14, 2) NOT NULL CHECK (amount <> 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX IF NOT EXISTS transaction_key ON transaction (account_id, key);

-- The keys of the operations that were applied to each account. clairon.once(entity, key) does the same
-- with a table of the extension; this example shows how it works.
CREATE TABLE IF NOT EXISTS idempotency_key (
    account_id text NOT NULL REFERENCES account,
    key        text NOT NULL CHECK (key <> ''),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (account_id, key)
);

-- FULL: pages can display how a balance changed, and deletes contain the owner of the account.
ALTER TABLE account REPLICA IDENTITY FULL;

-- Checks the arguments; each error has a hint with the valid values.
CREATE OR REPLACE FUNCTION transfer_check(key text, debtor text, creditor text, amount numeric)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF key IS NULL OR key = '' THEN
        RAISE EXCEPTION 'transfer: "key" must not be empty'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF amount IS NULL OR amount = 'NaN' OR amount <= 0 OR amount <> round(amount, 2) THEN
        RAISE EXCEPTION 'transfer: "amount" must be above 0 with at most two decimals, not %', amount
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF debtor IS NOT DISTINCT FROM creditor THEN
        RAISE EXCEPTION 'transfer: "debtor" and "creditor" are both account %', debtor
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Moves money once for each key. Returns true if it moved. Returns false, and changes nothing, if
-- the same transfer was already applied with this key. Raises an error if the key belongs to
-- another transfer.
CREATE OR REPLACE FUNCTION transfer(key text, debtor text, creditor text, amount numeric)
RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held numeric;
    found_accounts int;
    fresh int;
BEGIN
    PERFORM transfer_check($1, $2, $3, $4);

    -- All transfers lock their accounts in the order of the ids, so they cannot deadlock. A second
    -- call with the same key waits until the first transaction ends.
    SELECT count(*) INTO found_accounts
      FROM (SELECT FROM account WHERE id IN ($2, $3) ORDER BY id FOR UPDATE) AS locked;
    IF found_accounts < 2 THEN
        RAISE EXCEPTION 'transfer: no such account: %',
            (SELECT string_agg(wanted, ', ') FROM unnest(ARRAY[$2, $3]) AS wanted
              WHERE NOT EXISTS (SELECT FROM account WHERE id = wanted))
            USING ERRCODE = 'foreign_key_violation';
    END IF;

    INSERT INTO idempotency_key (account_id, key) VALUES ($2, $1), ($3, $1) ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS fresh = ROW_COUNT;
    IF fresh < 2 THEN
        IF NOT EXISTS (SELECT FROM transaction WHERE account_id = $2 AND key = $1 AND amount = -$4)
           OR NOT EXISTS (SELECT FROM transaction WHERE account_id = $3 AND key = $1 AND amount = $4)
        THEN
            RAISE EXCEPTION 'transfer: key "%" was used for another transfer', $1
                USING ERRCODE = 'unique_violation', HINT = 'Choose a new key for a new transfer.';
        END IF;
        RAISE NOTICE 'transfer: key "%" has been applied before; nothing changed', $1;
        RETURN false;
    END IF;

    SELECT balance INTO held FROM account WHERE id = $2;
    IF held < $4 THEN
        RAISE EXCEPTION 'transfer: balance % of account % is less than %', held, $2, $4
            USING ERRCODE = 'check_violation', HINT = 'Nothing changed; the key can be used again.';
    END IF;

    UPDATE account SET balance = balance - $4, updated_at = clock_timestamp() WHERE id = $2;
    UPDATE account SET balance = balance + $4, updated_at = clock_timestamp() WHERE id = $3;
    INSERT INTO transaction (account_id, key, amount) VALUES ($2, $1, -$4), ($3, $1, $4);
    RETURN true;
END
$$;

INSERT INTO account (id, owner, balance)
VALUES ('acc-1', 'u1', 1000), ('acc-2', 'u2', 1000), ('acc-3', 'u3', 1000), ('acc-4', 'u4', 1000)
ON CONFLICT DO NOTHING;

-- The rule is set last, so that opening balances send no notifications. Owners read only their own
-- accounts, and receive only their changes.
SELECT clairon.watch('account', 'USER', 'owner', live => true);

COMMIT;
