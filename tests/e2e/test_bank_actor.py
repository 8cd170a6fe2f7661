"""test_bank_actor.py: both idempotency layers prevent repeated transfers, even under kill -9."""

import os
import random
import signal
import subprocess
import sys
import unittest
import uuid
from decimal import Decimal

import psycopg2
from stack import ROOT, StackCase, end, wait_for

EXAMPLES = ROOT / "sql" / "examples"
sys.path.insert(0, str(EXAMPLES))
from bank_actor import Account, Outcome, Storage, Window  # noqa: E402

ORDERS = 300
KILLS = 25


class BankCase(StackCase):
    def new_account(self, balance="100"):
        account = f"acc-{uuid.uuid4().hex[:12]}"
        # An owner without a pane in the demo.
        self.sql("INSERT INTO account VALUES (%s, %s, %s)", account, f"owner of {account}", balance)
        return account

    def stored(self, account):
        return self.sql("SELECT balance FROM account WHERE id = %s", account)[0][0]

    def movements(self, account):
        return self.sql("SELECT key, amount FROM transaction WHERE account_id = %s", account)


class Counting(Storage):
    """Counts writes; can make the next write fail, before or after its commit."""

    def __init__(self, dsn):
        super().__init__(dsn)
        self.writes = 0
        self.fails = None

    def write(self, account, key, amount):
        self.writes += 1
        fails, self.fails = self.fails, None
        if fails == "before":
            raise psycopg2.OperationalError("the database disconnected")
        result = super().write(account, key, amount)
        if fails == "after":
            raise psycopg2.OperationalError("the write reached the database")
        return result


class IdempotencyCases(BankCase):
    def setUp(self):
        self.storage = Counting(self.stack.dsn)
        self.name = self.new_account()
        self.account = Account(self.storage, self.name)

    def tearDown(self):
        self.storage.connection.close()

    def test_the_balance_is_read(self):
        self.assertEqual(self.account.balance, Decimal("100.00"))

    def test_a_credit_is_written(self):
        self.assertIs(self.account.credit("k1", Decimal("5.50")), Outcome.APPLIED)
        self.assertEqual(self.account.balance, Decimal("105.50"))
        self.assertEqual(self.stored(self.name), Decimal("105.50"))
        self.assertEqual(self.movements(self.name), [("k1", Decimal("5.50"))])

    def test_a_key_found_only_in_storage_changes_nothing(self):
        small = Account(self.storage, self.name, window_size=2)
        for key in ("k1", "k2", "k3"):
            small.credit(key, Decimal("1"))
        self.assertNotIn("k1", small.window)
        writes = self.storage.writes
        self.assertIs(small.credit("k1", Decimal("1")), Outcome.REPEATED)
        self.assertEqual(self.storage.writes, writes + 1, "the repeated credit reaches the database")
        self.assertEqual(small.balance, self.stored(self.name))
        self.assertEqual(self.stored(self.name), Decimal("103.00"))

    def test_a_repeated_call_is_served_from_memory(self):
        self.account.debit("k1", Decimal("1"))
        writes = self.storage.writes
        self.assertIs(self.account.debit("k1", Decimal("1")), Outcome.REPEATED)
        self.assertEqual(self.storage.writes, writes, "the repeated debit does not reach the database")
        self.assertEqual(self.stored(self.name), Decimal("99.00"))

    def test_each_repeat_is_counted_by_the_layer_that_recognized_it(self):
        relay = self.stack.relay
        if not relay:
            self.skipTest("needs the demo's folder")
        counter = 'clairon_idempotent_repeats_total{layer="database"}'
        small = Account(self.storage, self.name, window_size=2)
        for key in ("k1", "k2", "k3"):
            small.credit(key, Decimal("1"))
        # The relay counts the repeats of earlier tests when it reads them.
        (lsn,) = self.sql("SELECT pg_current_wal_lsn()")[0]
        confirmed = "SELECT bool_and(confirmed_flush_lsn >= %s::pg_lsn) FROM pg_replication_slots"
        wait_for("the relay has read all changes", lambda: self.sql(confirmed, lsn)[0][0])
        before = relay.metric(counter)
        for key in ("k3", "k2", "k1"):
            self.assertIs(small.credit(key, Decimal("1")), Outcome.REPEATED)
        self.assertEqual(small.repeats, {"memory": 2, "database": 1})
        wait_for("the relay counts one repeat", lambda: relay.metric(counter) - before == 1)

    def test_a_failed_write_keeps_the_state(self):
        self.storage.fails = "before"
        with self.assertRaises(psycopg2.OperationalError):
            self.account.credit("k1", Decimal("1"))
        self.assertEqual(self.account.balance, Decimal("100.00"))
        self.assertNotIn("k1", self.account.window)
        self.assertIs(self.account.credit("k1", Decimal("1")), Outcome.APPLIED)
        self.assertEqual(self.stored(self.name), Decimal("101.00"))

    def test_a_write_with_a_lost_response_is_not_repeated(self):
        self.storage.fails = "after"
        with self.assertRaises(psycopg2.OperationalError):
            self.account.credit("k1", Decimal("1"))
        self.assertIs(self.account.credit("k1", Decimal("1")), Outcome.REPEATED)
        self.assertEqual(self.account.balance, Decimal("101.00"))
        self.assertEqual(self.movements(self.name), [("k1", Decimal("1.00"))])

    def test_a_rejected_debit_frees_its_key(self):
        self.assertIs(self.account.debit("k1", Decimal("100.01")), Outcome.REJECTED)
        self.assertIs(self.account.debit("k1", Decimal("100.01")), Outcome.REJECTED)
        self.account.credit("k2", Decimal("1"))
        self.assertIs(self.account.debit("k1", Decimal("100.01")), Outcome.APPLIED)
        self.assertEqual(self.stored(self.name), Decimal("0.99"))

    def test_a_new_actor_starts_with_the_newest_keys(self):
        for key in ("k1", "k2", "k3"):
            self.account.credit(key, Decimal("1"))
        again = Account(self.storage, self.name, window_size=2)
        self.assertEqual(list(again.window.keys), ["k2", "k3"])
        again.credit("k4", Decimal("1"))
        self.assertEqual(list(again.window.keys), ["k3", "k4"], "the oldest key is evicted first")

    def test_the_number_of_cached_keys_is_limited(self):
        window = Window((str(n) for n in range(1000)), size=50)
        self.assertEqual(list(window.keys), [str(n) for n in range(950, 1000)])


class ProcessKills(BankCase):
    """Kills workers, their backends and the relay with SIGKILL during transfers."""

    def worker(self):
        return subprocess.Popen(
            [sys.executable, EXAMPLES / "bank_actor.py", self.stack.dsn],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def open_orders(self):
        return self.query("SELECT count(*) FROM transfer_order WHERE state = 'requested'")[0][0]

    def query(self, statement):
        """Runs a query; repeats it while PostgreSQL recovers from a crash."""

        def result():
            try:
                return self.sql(statement)
            except psycopg2.Error:
                try:
                    type(self).db = self.stack.connect()
                except psycopg2.OperationalError:
                    pass  # PostgreSQL is in recovery
                return None

        return wait_for("the database responds to the query", result)

    def kill_a_backend(self):
        """Forces a crash recovery of PostgreSQL, which ends all connections."""

        def killed():
            pids = self.query(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND backend_type = 'client backend'"
            )
            try:
                os.kill(random.choice(pids)[0], signal.SIGKILL)
            except ProcessLookupError:  # its client has disconnected
                return False
            return True

        wait_for("a backend is killed", killed)

    def request(self, accounts):
        for number in range(ORDERS):
            debtor, creditor = random.sample(accounts, 2)
            self.sql(
                "INSERT INTO transfer_order (id, debtor, creditor, amount) VALUES (%s, %s, %s, %s)",
                f"{accounts[0]}-{number}", debtor, creditor, random.randint(1, 60),
            )  # fmt: skip

    def kill_during_load(self):
        workers = [self.worker() for _ in range(3)]
        try:
            for kill in range(KILLS):
                before = self.open_orders()
                if before == 0:
                    break
                wait_for("the workers close an order", lambda: self.open_orders() < before)
                if kill % 5 == 4:
                    self.kill_a_backend()
                elif kill == 2 and self.stack.demo:  # the demo restarts it
                    self.stack.relay.kill()
                    wait_for("the demo restarts the relay", self.stack.relay.pid)
                else:
                    victim = random.randrange(len(workers))
                    workers[victim].kill()
                    workers[victim].wait()
                    workers[victim] = self.worker()
            wait_for("every order is closed", lambda: self.open_orders() == 0)
            return kill
        finally:
            for worker in workers:
                end(worker)

    def test_transfers_survive_every_kill(self):
        seed = random.randrange(2**32)
        random.seed(seed)
        print(f"# seed {seed}", file=sys.stderr)
        accounts = [self.new_account() for _ in range(6)]
        self.request(accounts)
        kills = self.kill_during_load()
        self.assertGreater(kills, 5, "processes were killed before the workers finished")
        self.check_money(accounts)
        self.check_receipts(accounts[0])

    def check_money(self, accounts):
        total = self.sql("SELECT sum(balance) FROM account WHERE id = ANY (%s)", accounts)[0][0]
        self.assertEqual(total, 100 * len(accounts), "no money is lost or created")
        wrong = self.sql(
            "SELECT o.id, o.state, count(t.id) FROM transfer_order o"
            " LEFT JOIN transaction t ON t.key IN (o.id || '/debit', o.id || '/credit')"
            " WHERE o.debtor = ANY (%s)"
            " GROUP BY o.id HAVING count(t.id) <> CASE o.state WHEN 'done' THEN 2 ELSE 0 END",
            accounts,
        )
        self.assertEqual(wrong, [], "each order is carried out once or rejected")
        for account in accounts:
            moved = sum(amount for _, amount in self.movements(account))
            self.assertEqual(self.stored(account), 100 + moved)

    def check_receipts(self, prefix):
        """Checks that the stream has one receipt per order, whichever processes were killed."""
        if self.stack.store is None:
            self.skipTest("needs the demo's folder")

        def receipts():
            entries = self.stack.store.execute("XRANGE", f"{self.stack.store.prefix}:stream", "-", "+")
            lines = [dict(zip(fields[::2], fields[1::2]))["data"] for _, fields in entries]
            return [line for line in lines if f'"transfer":"{prefix}-' in line.replace(": ", ":")]

        wait_for("every receipt is stored", lambda: len(receipts()) >= ORDERS)
        first = [line for line in receipts() if '"attempts":0' in line]
        self.assertEqual(len(first), ORDERS)


if __name__ == "__main__":
    unittest.main()
