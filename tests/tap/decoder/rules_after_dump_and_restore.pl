# Tests that rules have the same effect in a restored database, whose tables have other column numbers.
use strict;
use warnings;

use Clairon::Test;
use JSON ();
use PostgreSQL::Test::Utils qw(run_log);
use Test::More;

my $pg     = Clairon::Test::postgresql('main', extension => 0);
my $folder = PostgreSQL::Test::Utils::tempdir();

sub sql { return $pg->safe_psql($_[0], $_[1]) }

sub make
{
    my ($database) = @_;
    sql('postgres', "CREATE DATABASE $database TEMPLATE template0");
    return $pg->connstr($database);
}

# Returns the notifications of the same changes, without the fields that always differ.
sub notifications_of
{
    my ($database) = @_;
    sql($database, "SELECT pg_create_logical_replication_slot('$database', 'clairon')");
    sql($database, <<'SQL');
INSERT INTO task (id, owner, title, state) VALUES (1, 'u1', 'one', 'open'), (2, 'u2', 'two', 'closed');
UPDATE task SET title = 'changed' WHERE id = 1;
INSERT INTO site (region, "who's ""it""", id) VALUES ('a', 'u3', 1), ('b', 'u4', 2);
INSERT INTO denied (id, other, more) VALUES (1, 'leak', 'leak');
INSERT INTO mood VALUES (1, 'sketch'), (2, 'done');
ALTER TYPE state RENAME VALUE 'sketch' TO 'plan';
INSERT INTO mood VALUES (3, 'plan'), (4, 'done');
ALTER TYPE state RENAME VALUE 'plan' TO 'sketch';
SQL
    my @notifications = map { JSON::decode_json($_) } split /\n/, sql($database,
        "SELECT data FROM pg_logical_slot_get_changes('$database', NULL, NULL, 'topic_prefix', 'same')");
    delete @{ $_->{metadata} }{qw(id timestamp)} for @notifications;
    sql($database, "SELECT pg_drop_replication_slot('$database')");
    return \@notifications;
}

# `before` has gaps between its column numbers; a restored database has no gaps.
make('before');
sql('before', <<'SQL');
CREATE EXTENSION clairon;
CREATE TABLE task (gone1 int, id int PRIMARY KEY, gone2 int, owner text, title text, was_state text);
ALTER TABLE task DROP COLUMN gone1, DROP COLUMN gone2;
SELECT clairon.watch('task', 'USER', 'owner', type => 'NOTIFICATION', web_push => '{"title":":title","body":"=x","icon":":was_state"}');
SELECT clairon.watch('task', 'ALL', name => 'some', columns => '{title,was_state}',
    only_when => $$was_state = 'open' AND title <> '$5 it''s "$6" $4' AND id > 0$$);
SELECT clairon.watch('task', 'STRUCTURE', '=' || (SELECT string_agg('s' || i, ',') FROM generate_series(1, 1000) AS i),
    name => 'long', columns => '{id}', only_when => 'id IN (-1, ' || repeat('0, ', 3000) || '1) AND was_state = ''open''');
ALTER TABLE task RENAME was_state TO state;
CREATE TABLE site (gone int, region text, "old" text, id int) PARTITION BY LIST (region);
ALTER TABLE site DROP COLUMN gone;
CREATE TABLE site_a PARTITION OF site FOR VALUES IN ('a');
CREATE TABLE site_b (id int, gone int, "old" text, region text);
ALTER TABLE site_b DROP COLUMN gone;
ALTER TABLE site ATTACH PARTITION site_b FOR VALUES IN ('b');
SELECT clairon.watch('site', 'USER', 'old', columns => '{id,old}');
SELECT clairon.watch('site_b', 'STRUCTURE', 'old', name => 'leaf', only_when => 'old <> region');
ALTER VIEW site RENAME "old" TO "who's ""it""";
CREATE TYPE doomed AS ENUM ('x');
CREATE TABLE denied (id int, owner text, state doomed, other text, more text);
SELECT clairon.watch('denied', 'USER', 'owner');
SELECT clairon.watch('denied', 'ALL', name => 'when', only_when => $$id = 1 AND state IS NULL$$);
SELECT clairon.watch('denied', 'ALL', name => 'nothing left', columns => '{state}');
ALTER TABLE denied DROP COLUMN owner;
DROP TYPE doomed CASCADE;
CREATE TYPE state AS ENUM ('draft', 'done');
CREATE TABLE mood (id int PRIMARY KEY, stage state);
SELECT clairon.watch('mood', 'ALL', name => 'renamed', only_when => $$stage = 'draft'$$);
ALTER TYPE state RENAME VALUE 'draft' TO 'sketch';
INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1');
SELECT clairon.once('entity', 'key');
SQL
my $rules = q{SELECT relation, name, targets, columns, only_when, web_push FROM clairon.rules ORDER BY relation::text, 2};
my $before = sql('before', $rules);
my $dump  = "$folder/dump.sql";
my $file  = "$folder/dump.custom";
ok(run_log([ 'pg_dump', '-d', $pg->connstr('before'), '-f', $dump ]), 'the database is dumped');
ok(run_log([ 'pg_dump', '-d', $pg->connstr('before'), '-Fc', '-f', $file ]), 'the database is dumped in custom format');

my $expected = notifications_of('before');
is(scalar(@$expected), 12, 'the rules create notifications before the dump');
is(scalar(grep { @{ $_->{routing}{audience}{targets} } == 1000 } @$expected), 1, 'the long rule creates one of these notifications');
ok(!grep({ $_->{metadata}{source} eq 'denied' && $_->{payload}{after}{other} } @$expected),
    'no notification contains columns that are not selected');

ok(run_log([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', make('by_psql'), '-f', $dump ]),
    'psql restores the dump');
ok(run_log([ 'pg_restore', '--exit-on-error', '-j', '2', '-d', make('by_restore'), $file ]),
    'pg_restore restores the dump in custom format');
# The dump creates the schema before the extension, so the schema keeps its owner.
sql('postgres', 'CREATE ROLE another SUPERUSER LOGIN');
ok(run_log([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', make('by_another') . ' user=another', '-f', $dump ]),
    'another superuser restores the dump');
for my $database (qw(by_psql by_restore by_another))
{
    is_deeply(notifications_of($database), $expected, "$database: the same rules create the same notifications");
    my $now = sql($database, $rules);
    is(join("\n", grep { !/^denied/ } split /\n/, $now), join("\n", grep { !/^denied/ } split /\n/, $before),
        "$database: the rules are listed unchanged");
    is(sql($database, 'SELECT count(*) FROM clairon.member'), '1', "$database: members are restored");
    is(sql($database, "SELECT clairon.once('entity', 'key')"), 'f', "$database: idempotency keys are restored");
    isnt(sql($database, 'SELECT secret FROM clairon.secret'), sql('before', 'SELECT secret FROM clairon.secret'),
        "$database: the restored database has a new secret");
}
isnt(sql('by_psql', q{SELECT target_column FROM clairon.rule WHERE relation = 'task'::regclass AND name = 'default'}),
    sql('before', q{SELECT target_column FROM clairon.rule WHERE relation = 'task'::regclass AND name = 'default'}),
    'the restored columns have other numbers');

# A second dump, of the restored database, preserves the denials.
ok(run_log([ 'pg_dump', '-d', $pg->connstr('by_psql'), '-f', $dump ]), 'the restored database is dumped');
ok(run_log([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', make('again'), '-f', $dump ]), 'the second dump is restored');
is(sql('again', q{SELECT count(*) FROM clairon.rule WHERE relation = 'denied'::regclass}), '3', 'the rules of the second dump are restored');
is(sql('again', q{SELECT ok FROM clairon.doctor() WHERE check_name = 'rule default on public.denied'}), 'f',
    'the doctor reports the rule that delivers nothing');

done_testing();
