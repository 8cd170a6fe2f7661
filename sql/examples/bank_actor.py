#!/usr/bin/python3
"""bank_actor.py: accounts as actors that any step may reach twice, and transfers that survive every crash.

A repeated operation meets two layers. The account's window holds the newest keys in memory and
answers most repeats without a round trip. Behind it clairon.once() puts the key into the database
in the transaction of its effect: the database still knows the keys that the window forgot.

Each account counts the repeats that each layer recognized, and the worker prints the sums at its
end: many in the database mean that the window is too small for how late the repeats come. The relay
counts those of the database, of all workers: clairon_idempotent_repeats_total{layer="database"}.

    bank_actor.py DSN        carries out what transfer_order asks for, until nothing is left
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
    REFUSED = "not enough money; nothing changed, the key is free"


class Window:
    """The newest keys of one account, in the order in which they were applied."""

    def __init__(self, keys, size=WINDOW_SIZE):
        self.size = size
        self.keys = OrderedDict()
        for key in keys:  # oldest first, so that the oldest goes first
            self.keep(key)

    def __contains__(self, key):
        return key in self.keys

    def keep(self, key):
        self.keys[key] = None
        if len(self.keys) > self.size:
            self.keys.popitem(last=False)


class Storage:
    """Where accounts are kept; each write is one transaction: key, balance and movement."""

    def __init__(self, dsn):
        self.dsn = dsn
        self.connection = None

    def connect(self):
        if self.connection is None or self.connection.closed:
            self.connection = psycopg2.connect(self.dsn, connect_timeout=5)
        return self.connection

    def read(self, account, size=WINDOW_SIZE):
        """The balance, and the newest keys with the oldest of them first."""
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
        """The outcome of a transfer, and the balance after it if it was applied."""
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
                return Outcome.REFUSED, None
            cursor.execute(
                "INSERT INTO transaction (account_id, key, amount) VALUES (%s, %s, %s)",
                (account, key, amount),
            )
            return Outcome.APPLIED, changed[0]


class Account:
    """One account in memory. Its balance is as of its own last operation: have one actor an account.

    Money is right with several of them all the same, as the database decides.
    """

    def __init__(self, storage, account, window_size=WINDOW_SIZE):
        self.storage = storage
        self.account = account
        self.window_size = window_size
        self.repeats = Counter()  # by the layer that recognized them
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
        # Nothing in memory moves before the database has it: a failed write leaves no trace here.
        outcome, balance = self.storage.write(self.account, key, amount)
        if outcome is Outcome.APPLIED:
            self.balance = balance
            self.window.keep(key)
        elif outcome is Outcome.REPEATED:
            self.repeats["database"] += 1
            self.read()  # another process applied it
        return outcome


class Bank:
    """Carries out transfers: debit, credit, close. Each step may be repeated, so all of them are."""

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
        """Lock the order; true if it is still open. The end of the connection releases it."""
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
        if self.account(debtor).debit(f"{order}/debit", amount) is Outcome.REFUSED:
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
        """Run until no order is open. Reconnects after a loss of the database."""
        while True:
            try:
                orders = self.open_orders()
                if not orders:
                    return
                claimed = [self.carry_out(order) for order in orders]
                if not any(claimed):
                    time.sleep(RETRY_SECONDS)  # other workers hold them all
            except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
                print(f"the database is away, trying again: {error}".strip(), file=sys.stderr)
                time.sleep(RETRY_SECONDS)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    bank = Bank(sys.argv[1])
    bank.run()
    repeats = bank.repeats()
    print(f"repeats recognized in memory: {repeats['memory']}, in the database: {repeats['database']}")
