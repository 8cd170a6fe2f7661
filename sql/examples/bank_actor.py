#!/usr/bin/python3
"""bank_actor.py: transfers in idempotent steps, so that a worker can crash anywhere and repeat its last step.

Two layers recognize a repeated operation. The account's window holds its newest keys in memory and
recognizes most repeats without a query. Then clairon.once() stores the key in the transaction of the
operation, so the database also recognizes keys that the window has dropped.

Each account counts the repeats that each layer recognized, and the worker prints the sums when it
exits. If the database recognizes many, the window is too small. The relay counts the repeats that the
database recognized for all workers: clairon_idempotent_repeats_total{layer="database"}.

    bank_actor.py DSN        executes the open rows of transfer_order, then exits
"""

import enum
import sys
import time
from collections import Counter, OrderedDict

import psycopg2
import psycopg2.errors

WINDOW_SIZE = 50
RETRY_SECONDS = 0.2


class Outcome(enum.Enum):
    APPLIED = "applied"
    REPEATED = "applied before; nothing changed"
    REJECTED = "not enough money; nothing changed, the key is free"


class Window:
    """The newest keys of one account, in the order in which they were applied."""

    def __init__(self, keys, size=WINDOW_SIZE):
        self.size = size
        self.keys = OrderedDict()
        for key in keys:  # oldest first, since keep() drops the oldest
            self.keep(key)

    def __contains__(self, key):
        return key in self.keys

    def keep(self, key):
        self.keys[key] = None
        if len(self.keys) > self.size:
            self.keys.popitem(last=False)


class Storage:
    """Reads and writes accounts. Each write is one transaction: key, balance and movement."""

    def __init__(self, dsn):
        self.dsn = dsn
        self.connection = None

    def connect(self):
        if self.connection is None or self.connection.closed:
            self.connection = psycopg2.connect(self.dsn, connect_timeout=5)
        return self.connection

    def read(self, account, size=WINDOW_SIZE):
        """Returns the balance and the newest keys, oldest first."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT balance FROM account WHERE id = %s", (account,))
            found = cursor.fetchone()
            if found is None:
                raise LookupError(f"no such account: {account}")
            cursor.execute(
                "SELECT key FROM (SELECT id, key FROM transaction WHERE account_id = %s"
                " ORDER BY id DESC LIMIT %s) newest ORDER BY id",
                (account, size),
            )
            return found[0], [key for (key,) in cursor.fetchall()]

    def write(self, account, key, amount):
        """Applies an amount once. Returns the outcome, and the new balance if the amount was applied."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT clairon.once(%s, %s)", (f"account/{account}", key))
            if not cursor.fetchone()[0]:
                return Outcome.REPEATED, None
            cursor.execute(
                "UPDATE account SET balance = balance + %(amount)s, updated_at = clock_timestamp()"
                " WHERE id = %(account)s AND balance + %(amount)s >= 0 RETURNING balance",
                {"account": account, "amount": amount},
            )
            changed = cursor.fetchone()
            if changed is None:
                connection.rollback()  # also releases the key
                return Outcome.REJECTED, None
            cursor.execute(
                "INSERT INTO transaction (account_id, key, amount) VALUES (%s, %s, %s)",
                (account, key, amount),
            )
            return Outcome.APPLIED, changed[0]


class Account:
    """One account in memory. The balance is the result of this object's last operation.

    Use one object for each account. Several are safe, because the database decides, but their balances
    may be out of date.
    """

    def __init__(self, storage, account, window_size=WINDOW_SIZE):
        self.storage = storage
        self.account = account
        self.window_size = window_size
        self.repeats = Counter()  # by layer: memory, database
        self.read()

    def read(self):
        self.balance, keys = self.storage.read(self.account, self.window_size)
        self.window = Window(keys, self.window_size)

    def credit(self, key, amount):
        return self._apply(key, amount)

    def debit(self, key, amount):
        return self._apply(key, -amount)

    def _apply(self, key, amount):
        if key in self.window:
            self.repeats["memory"] += 1
            return Outcome.REPEATED
        # Memory changes only after the database, so a failed write leaves it unchanged.
        outcome, balance = self.storage.write(self.account, key, amount)
        if outcome is Outcome.APPLIED:
            self.balance = balance
            self.window.keep(key)
        elif outcome is Outcome.REPEATED:
            self.repeats["database"] += 1
            self.read()  # another process applied it
        return outcome


class Bank:
    """Executes transfers: debit, credit, close. Each step is idempotent, so an interrupted transfer is repeated as a whole."""

    def __init__(self, dsn):
        self.storage = Storage(dsn)
        self.accounts = {}

    def account(self, name):
        if name not in self.accounts:
            self.accounts[name] = Account(self.storage, name)
        return self.accounts[name]

    def repeats(self):
        return sum((account.repeats for account in self.accounts.values()), Counter())

    def open_orders(self):
        with self.storage.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT id, debtor, creditor, amount FROM transfer_order"
                " WHERE state = 'requested' ORDER BY created_at LIMIT 100"
            )
            return cursor.fetchall()

    def close(self, order, outcome):
        with self.storage.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT transfer_close(%s, %s)", (order, outcome))

    def claim(self, order):
        """Locks the order. Returns whether it is still open. The lock ends with the connection."""
        with self.storage.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (order,))
            if not cursor.fetchone()[0]:
                return False
            cursor.execute("SELECT state = 'requested' FROM transfer_order WHERE id = %s", (order,))
            return cursor.fetchone()[0] or self.release(order)

    def release(self, order):
        with self.storage.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (order,))
        return False

    def transfer(self, order, debtor, creditor, amount):
        if self.account(debtor).debit(f"{order}/debit", amount) is Outcome.REJECTED:
            return self.close(order, "refused")
        self.account(creditor).credit(f"{order}/credit", amount)
        return self.close(order, "done")

    def carry_out(self, order):
        if not self.claim(order[0]):
            return False
        self.transfer(*order)
        self.release(order[0])
        return True

    def run(self):
        """Runs until no order is open. Reconnects when the database connection is lost."""
        while True:
            try:
                orders = self.open_orders()
                if not orders:
                    return
                claimed = [self.carry_out(order) for order in orders]
                if not any(claimed):
                    time.sleep(RETRY_SECONDS)  # other workers have locked all of them
            except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
                print(f"database unavailable, retrying: {error}".strip(), file=sys.stderr)
                time.sleep(RETRY_SECONDS)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    bank = Bank(sys.argv[1])
    bank.run()
    repeats = bank.repeats()
    print(f"repeats recognized in memory: {repeats['memory']}, in the database: {repeats['database']}")
