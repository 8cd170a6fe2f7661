# Tests that a query over a connection of the tests has the same status, output and errors as a query by psql.
use strict;
use warnings;

use Clairon::Test;
use Clairon::Test::Query;
use PostgreSQL::Test::Cluster;
use Test::More;

my $pg = Clairon::Test::postgresql('main', extension => 0);

# Statements that are sent unchanged, with the number of statements.
my %split = (
    'SELECT 1'                                        => 1,
    "SELECT 1;\n-- a comment; and more\nSELECT 2;"    => 2,
    q{SELECT ';', E'\\';', $$;$$, $x$;$$;$x$, ";" /* ; */ FROM (SELECT 1 AS ";") AS t; SELECT 2} => 2,
    q{SELECT a$b FROM (SELECT 1 AS a$b) AS t; SELECT '1'::text} => 2,
);
is(scalar(my @statements = Clairon::Test::Query::split_statements($_)), $split{$_}, "the statements are split: $_") for sort keys %split;

# Incomplete statements, and input that psql would interpret, are passed to psql.
is_deeply([ Clairon::Test::Query::split_statements($_) ], [], "the input is passed to psql: $_")
  for '\d', 'SELECT :name', q{SELECT 'not closed}, 'COPY t FROM STDIN', 'CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)', '';

for my $sql (
    'SELECT 1, NULL, true, 2.50', 'SELECT FROM generate_series(1, 0)', 'CREATE TABLE t (id int PRIMARY KEY)',
    "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); SELECT * FROM t ORDER BY 1", 'INSERT INTO t VALUES (3) RETURNING id',
    "SELECT E'two\\nlines', 'ä|b'", "DO \$\$ BEGIN RAISE NOTICE 'a notice'; END \$\$", 'SELECT 1; SELECT no_such_column; SELECT 3',
    'BEGIN; DELETE FROM t; ROLLBACK; SELECT count(*) FROM t', 'INSERT INTO t VALUES (1)', 'SELECT current_user, current_database()',
    q{DO $$ BEGIN RAISE EXCEPTION 'wrong' USING DETAIL = 'a detail', HINT = 'a hint'; END $$}, ';;')
{
    my %result;
    for my $class (qw(Clairon::Test::Cluster PostgreSQL::Test::Cluster))
    {
        my $psql = $class->can('psql');
        # The line numbers and the caret below an error are not compared, because psql counts lines per statement.
        $result{$class} = [ map { s/^psql:<stdin>:\d+/psql:<stdin>/mgr =~ s/^LINE \d+:.*\n +\^\n?//mgr =~ s/\n\z//r } $psql->($pg, 'postgres', $sql) ];
        $pg->safe_psql('postgres', 'DROP TABLE t') if $sql =~ /^CREATE TABLE/ && $class eq 'Clairon::Test::Cluster';
        $pg->safe_psql('postgres', 'DELETE FROM t WHERE id <> 1') if $sql =~ /^INSERT/ && $class eq 'Clairon::Test::Cluster' && $sql !~ /VALUES \(1\)/;
        $pg->safe_psql('postgres', 'DELETE FROM t') if $sql =~ /VALUES \(1\); / && $class eq 'Clairon::Test::Cluster';
    }
    is_deeply($result{'Clairon::Test::Cluster'}, $result{'PostgreSQL::Test::Cluster'}, "the result equals the result of psql: $sql");
}

# A query without functions that returns the backend of its session.
sub backend { return $pg->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE query ~ '^SELECT +pid '}) }

my $backend = backend();
$pg->safe_psql('postgres', q{INSERT INTO t (id) SELECT 7 WHERE EXISTS (SELECT) AND '' <> 'set_config('});
is(backend(), $backend, 'harmless statements share a session');
for my $sql ('CREATE TABLE other (id int)', q{SELECT set_config('search_path', 'pg_catalog', false)}, q{INSERT INTO t (id) SELECT lastval() WHERE false}, q{SET work_mem = '1MB'}, '\echo')
{
    $pg->psql('postgres', $sql);
    isnt(my $next = backend(), $backend, "a new session follows: $sql");
    $backend = $next;
}
is($pg->safe_psql('template1', 'SELECT count(*) FROM pg_class WHERE relname = $$other$$'), 0, 'each database has a separate session');
backend();
$pg->restart;
like(backend(), qr/^\d+$/, 'a new session follows a restart of the server');
if (!fork) { $pg->safe_psql('postgres', 'SELECT 1'); POSIX::_exit(0) }
$backend = backend();
wait;
is(backend(), $backend, 'a forked child does not end the session');

eval { $pg->safe_psql('postgres', 'SELECT no_such_column') };
like($@, qr/^error running SQL: 'psql:<stdin>:1: ERROR:  column "no_such_column" does not exist'\n/, 'an error ends a test');
is(($pg->psql('no_such_database', 'SELECT 1'))[0], 2, 'psql reports a database that does not exist');
is(($pg->psql('postgres', 'SELECT pg_terminate_backend(pg_backend_pid())'))[0], 2, 'a query whose connection ends returns status 2');
my $other = Clairon::Test::postgresql('other', extension => 0);
isnt($other->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()'),
    $pg->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()'), 'the second cluster of a test is not a copy of the first');

done_testing();
