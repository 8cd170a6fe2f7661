#!/usr/bin/python3
"""traffic.py: writes changes to the demo's tables at a human rate until Ctrl-C."""

import argparse
import random
import sys
import time
import uuid

import psycopg2

STATUSES = ("draft", "submitted", "reviewed", "graded")
TITLES = (
    "Library closed on Friday",
    "Jury dates are out",
    "New deadline for reports",
    "Open day: volunteers wanted",
)


def next_assignment(cursor, last_key):
    """Moves one assignment to its next status; after the last one back to draft."""
    cursor.execute("SELECT id, status FROM assignments ORDER BY random() LIMIT 1")
    row, status = cursor.fetchone()
    status = STATUSES[(STATUSES.index(status) + 1) % len(STATUSES)]
    grade = random.randint(16, 40) / 2 if status == "graded" else None
    cursor.execute(
        "UPDATE assignments SET status = %s, grade = %s WHERE id = %s", (status, grade, row)
    )
    return last_key, f"assignment {row} {status}"


def transfer(cursor, last_key):
    """Transfers money from the richest account, so that no account runs out of money."""
    cursor.execute("SELECT id FROM account ORDER BY balance DESC, random()")
    rich, *others = [row[0] for row in cursor.fetchall()]
    call = (str(uuid.uuid4()), rich, random.choice(others), random.randint(1, 80))
    cursor.execute("SELECT transfer(%s, %s, %s, %s)", call)
    return call, f"transfer of {call[3]} from {call[1]} to {call[2]}"


def repeat_transfer(cursor, last_key):
    """Repeats the last call, like a client that received no response. Nothing changes."""
    if last_key is None:
        return transfer(cursor, last_key)
    cursor.execute("SELECT transfer(%s, %s, %s, %s)", last_key)
    moved = cursor.fetchone()[0]
    return last_key, f"repeated key: {'money moved twice' if moved else 'nothing changed'}"


def change_role(cursor, last_key):
    cursor.execute(
        "SELECT establishment_id, user_id, role FROM members"
        " WHERE role <> 'staff' ORDER BY random() LIMIT 1"
    )
    establishment, user, role = cursor.fetchone()
    role = "teacher" if role == "student" else "student"
    cursor.execute(
        "UPDATE members SET role = %s WHERE establishment_id = %s AND user_id = %s",
        (role, establishment, user),
    )
    return last_key, f"{user} is now {role} in {establishment}"


def announce(cursor, last_key):
    cursor.execute("SELECT id FROM establishments ORDER BY random() LIMIT 1")
    (establishment,) = cursor.fetchone()
    cursor.execute(
        "INSERT INTO announcements (establishment_id, author, title) VALUES (%s, 'admin', %s)",
        (establishment, random.choice(TITLES)),
    )
    return last_key, f"announcement to {establishment}"


# Announcements are rare, because users must acknowledge them.
ACTIONS = (
    [next_assignment] * 50 + [transfer] * 35 + [repeat_transfer] * 8 + [change_role] * 6 + [announce]
)


def run(dsn, rate, count):
    connection = psycopg2.connect(dsn)
    last_key = None
    done = 0
    while count is None or done < count:
        with connection, connection.cursor() as cursor:
            last_key, text = random.choice(ACTIONS)(cursor, last_key)
        done += 1
        print(text, flush=True)
        if rate and (count is None or done < count):
            time.sleep(random.expovariate(rate))
    connection.close()
    print(f"{done} changes written", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Write changes to the demo's tables.")
    parser.add_argument("--dsn", required=True, help="connection string of the demo's database")
    parser.add_argument("--rate", type=float, default=3, help="changes per second; 0: no pause")
    parser.add_argument("--count", type=int, help="number of changes (default: run until Ctrl-C)")
    options = parser.parse_args()
    try:
        run(options.dsn, options.rate, options.count)
    except KeyboardInterrupt:
        print()
    except psycopg2.Error as error:
        sys.exit(f"traffic: {str(error).strip()}")


if __name__ == "__main__":
    main()
