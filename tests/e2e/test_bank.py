"""test_bank.py: repeated and concurrent transfers neither lose nor create money."""

import subprocess
import sys
import threading
import unittest
import uuid

import psycopg2
from stack import ROOT, WAIT_SECONDS, StackCase


class Bank(StackCase):
    def one(self, statement, *arguments):
        return self.sql(statement, *arguments)[0][0]

    def transfer(self, key, debtor="acc-3", creditor="acc-4", amount="1.25"):
        return self.one("SELECT transfer(%s, %s, %s, %s)", key, debtor, creditor, amount)

    def balance(self, account):
        return self.one("SELECT balance FROM account WHERE id = %s", account)

    def total(self):
        return self.one("SELECT sum(balance) FROM account")

    def test_a_repeated_key_changes_nothing_and_is_reported(self):
        key = str(uuid.uuid4())
        self.assertTrue(self.transfer(key))
        before = self.balance("acc-3"), self.balance("acc-4")
        self.db.notices.clear()
        self.assertFalse(self.transfer(key))
        self.assertIn(f'key "{key}" has been applied before', "".join(self.db.notices))
        self.assertEqual((self.balance("acc-3"), self.balance("acc-4")), before)
        self.assertEqual(self.one("SELECT count(*) FROM transaction WHERE key = %s", key), 2)

    def test_a_key_with_another_transfer_is_an_error(self):
        key = str(uuid.uuid4())
        self.transfer(key)
        for other in ({"amount": "2"}, {"creditor": "acc-1"}, {"debtor": "acc-4", "creditor": "acc-3"}):
            with self.assertRaisesRegex(psycopg2.Error, "used for another transfer"):
                self.transfer(key, **other)

    def test_a_failed_transfer_keeps_the_state_and_frees_its_key(self):
        key = str(uuid.uuid4())
        before = self.balance("acc-3"), self.balance("acc-4")
        with self.assertRaisesRegex(psycopg2.Error, "balance 1000.00 of account acc-3 is less than"):
            self.transfer(key, amount="1000000")
        self.assertEqual((self.balance("acc-3"), self.balance("acc-4")), before)
        self.assertTrue(self.transfer(key))

    def test_concurrent_calls_with_one_key_transfer_once(self):
        key = str(uuid.uuid4())
        before = self.balance("acc-3")
        results = []

        def transfer():
            connection = self.stack.connect()
            with connection.cursor() as cursor:
                cursor.execute("SELECT transfer(%s, 'acc-3', 'acc-4', 2)", (key,))
                results.append(cursor.fetchone()[0])
            connection.close()

        threads = [threading.Thread(target=transfer) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=WAIT_SECONDS)
        self.assertEqual(sorted(results), [False] * 7 + [True])
        self.assertEqual(before - self.balance("acc-3"), 2)

    def test_invalid_transfers_are_rejected(self):
        total = self.total()
        for wrong in (
            {"key": ""},
            {"amount": "0"},
            {"amount": "-1"},
            {"amount": "NaN"},
            {"amount": "Infinity"},
            {"amount": "0.001"},
            {"creditor": "acc-3"},
            {"creditor": "nobody"},
        ):
            with self.assertRaises(psycopg2.Error, msg=wrong):
                self.transfer(**{"key": str(uuid.uuid4()), **wrong})
        self.assertEqual(self.total(), total)

    def test_traffic_neither_creates_nor_loses_money(self):
        total = self.total()
        traffic = ROOT / "client" / "demo" / "traffic.py"
        done = subprocess.run(
            [sys.executable, traffic, "--dsn", self.stack.dsn, "--rate", "0", "--count", "60"],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("60 changes written", done.stdout)
        self.assertNotIn("moved twice", done.stdout)
        self.assertEqual(self.total(), total)


if __name__ == "__main__":
    unittest.main()
